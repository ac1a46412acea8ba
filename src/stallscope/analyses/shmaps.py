# SPDX-License-Identifier: Apache-2.0
"""Signatures of what threads miss remotely (shMaps), and threads clustered by them.

An shMap is a vector of 256 saturating 8-bit counters. A line's counter is chosen by a hash; a
filter that all threads of a process share lets one line through for each counter, the one that
missed first. Counts under 3 may be chance and count as none. Lines that more than half of the
threads miss are global and ignored. Two threads are alike when the dot product of their maps is
above a threshold that follows from how many samples they have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

ENTRIES = 256
MOST = 255  # of a counter
LEAST = 3  # counts below this are none
# Similarity over chance above which threads are alike. Two threads that draw from the lines at
# random, as all threads together use them, have 1, and two of a group more: with groups of one size
# as many as there are groups, in a group with a share f of the threads 1 / (f² + (1-f)²). Two that
# share nothing have 0. The threshold stands half way between nothing and chance.
MARGIN = 0.5
ERRORS = 1  # standard errors that it must be above that besides
FEW = 12  # counted misses that a thread needs before it is judged
SURE = 48  # before it is said to share with nobody


class Filter:
    """Which line each counter is for: claimed by the first miss, and never given up."""

    def __init__(self, line: int, salt: int = 0) -> None:
        self._bits = line.bit_length() - 1
        self._salt = salt
        self.lines: list[int | None] = [None] * ENTRIES

    def place(self, address: int) -> int:
        number = (address >> self._bits) + self._salt * 0x9E37
        return (number * 0x9E3779B97F4A7C15 >> 40) % ENTRIES

    def entry(self, address: int) -> int | None:
        """The counter of a line, or None when another line has it."""
        at = self.place(address)
        if self.lines[at] is None:
            self.lines[at] = address
        return at if self.lines[at] == address else None


@dataclass
class Maps:
    """The shMaps of some threads, as they fill. When a filter leaves threads undecided, another one
    is filled; what was counted so far is kept by line."""

    filter: Filter
    counts: dict[int, list[int]] = field(default_factory=dict)  # by thread
    kept: dict[int, dict[int, int]] = field(default_factory=dict)  # by thread and line, of before
    samples: int = 0
    rounds: int = 1

    def add(self, thread: int, address: int) -> None:
        self.samples += 1
        entry = self.filter.entry(address)
        if entry is None:
            return
        counters = self.counts.setdefault(thread, [0] * ENTRIES)
        if counters[entry] < MOST:
            counters[entry] += 1

    def begin_round(self, filter: Filter) -> None:
        self.kept = {thread: self.lines(thread) for thread in self.counts.keys() | self.kept}
        self.counts, self.filter = {}, filter
        self.rounds += 1

    def lines(self, thread: int) -> dict[int, int]:
        """Every count, by line."""
        found = dict(self.kept.get(thread, {}))
        for line, count in zip(self.filter.lines, self.counts.get(thread, []), strict=False):
            if line is not None and count:
                found[line] = found.get(line, 0) + count
        return found

    def sparse(self, thread: int) -> dict[int, int]:
        """Counts by line, without those that may be chance."""
        return {line: n for line, n in self.lines(thread).items() if n >= LEAST}

    def columns(self, thread: int, without: Collection[int]) -> dict[int, int]:
        """As a picture shows them: one column for each counter."""
        found: dict[int, int] = {}
        for line, count in self.lines(thread).items():
            if line not in without:
                at = self.filter.place(line)
                found[at] = min(MOST, found.get(at, 0) + count)
        return found


@dataclass(frozen=True)
class Clusters:
    """Threads by what they share. Clusters and their threads are in the order of their numbers."""

    clusters: tuple[tuple[int, ...], ...]
    undecided: tuple[int, ...]  # too few samples
    alone: tuple[int, ...]  # enough of them, and like nobody
    global_lines: frozenset[int]  # that belong to no group


Vectors = dict[int, dict[int, int]]


def similarity(a: dict[int, int], b: dict[int, int]) -> int:
    if len(b) < len(a):
        a, b = b, a
    return sum(n * b[at] for at, n in a.items() if at in b)


def cluster(maps: Maps, threads: Sequence[int]) -> Clusters:
    """One pass over the threads: each joins those that it is like, and so joins them to each other.
    What is left over then has its lines tested again: those that only it touches are not global."""
    vectors = {thread: maps.sparse(thread) for thread in threads}
    touched: dict[int, set[int]] = {}
    for thread in threads:
        for at in maps.lines(thread):
            touched.setdefault(at, set()).add(thread)
    usable = {at for at, who in touched.items() if 2 * len(who) <= len(threads)}
    groups = _linked(_only(vectors, usable), threads)
    while True:
        grouped = {thread for group in groups if len(group) > 1 for thread in group}
        left = [thread for thread in threads if thread not in grouped]
        more = {
            at
            for at, who in touched.items()
            if at not in usable
            and grouped
            and 2 * len(who & grouped) <= len(grouped)
            and 2 * len(who - grouped) > len(left)
        }
        if not more or not left:
            break
        usable |= more
        found = _linked(_only(vectors, usable), threads)
        if found == groups:
            break
        groups = found
    kept = _only(vectors, usable)
    grouped = {thread for group in groups if len(group) > 1 for thread in group}
    few = {thread for thread in threads if sum(kept[thread].values()) < SURE} - grouped
    return Clusters(
        tuple(sorted(tuple(sorted(group)) for group in groups if len(group) > 1)),
        tuple(sorted(few)),
        tuple(sorted(set(threads) - few - grouped)),
        frozenset(set(touched) - usable),
    )


def _only(vectors: Vectors, usable: set[int]) -> Vectors:
    return {
        thread: {at: n for at, n in vector.items() if at in usable}
        for thread, vector in vectors.items()
    }


def chance(vectors: Vectors) -> float:
    """The dot product that two threads of one sample each have on average, if every sample fell on
    the lines as those of all threads do."""
    totals: dict[int, int] = {}
    for vector in vectors.values():
        for at, n in vector.items():
            totals[at] = totals.get(at, 0) + n
    everything = sum(totals.values())
    return sum((n / everything) ** 2 for n in totals.values()) if everything else 0.0


def threshold(a: dict[int, int], b: dict[int, int], by_chance: float) -> float:
    """What the similarity of two threads must exceed, from how many samples they have."""
    expected = sum(a.values()) * sum(b.values()) * by_chance
    return MARGIN * expected + ERRORS * math.sqrt(expected)


def _linked(vectors: Vectors, threads: Iterable[int]) -> list[list[int]]:
    by_chance = chance(vectors)
    vectors = {t: v if sum(v.values()) >= FEW else {} for t, v in vectors.items()}
    groups: list[list[int]] = []
    for thread in threads:
        own = vectors[thread]
        alike = [
            group
            for group in groups
            if any(
                similarity(own, vectors[other]) > threshold(own, vectors[other], by_chance)
                for other in group
            )
        ]
        groups = [group for group in groups if group not in alike]
        groups.append([*(member for group in alike for member in group), thread])
    return groups


def hierarchical(maps: Maps, threads: Sequence[int], found: Clusters) -> list[list[int]]:
    """The same threads by SciPy's single linkage, cut where similarity is no more than chance: a
    check by other code. Needs scipy."""
    import numpy as np
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    vectors = {t: maps.sparse(t) for t in threads}
    vectors = _only(vectors, {at for v in vectors.values() for at in v} - found.global_lines)
    by_chance = chance(vectors)
    distance = np.zeros((len(threads), len(threads)))
    for i, a in enumerate(threads):
        for j, b in enumerate(threads):
            if i == j:
                continue
            limit = threshold(vectors[a], vectors[b], by_chance)
            alike = similarity(vectors[a], vectors[b])
            distance[i, j] = limit / (limit + alike) if alike else 1.0
    labels = fcluster(linkage(squareform(distance), "single"), 0.5, "distance")
    groups: dict[int, list[int]] = {}
    for thread, label in zip(threads, labels, strict=True):
        groups.setdefault(int(label), []).append(thread)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


@dataclass(frozen=True)
class Verdict:
    """What detection found, and when it was sure."""

    found: Clusters
    samples: int  # taken until then
    instruction: int  # at which the last of them was taken
    stable: bool  # or the samples ran out
    rounds: int  # of detection, each with a filter of its own


STEADY = 3  # looks in a row that must agree
FIRST_LOOK = 8  # samples a thread
ROUND = 60  # samples a thread after which another filter is filled
PATIENCE = 8  # rounds until a thread that is like nobody is believed to share with nobody


def detect(
    samples: Sequence[tuple[int, int, int]],
    threads: Sequence[int],
    line: int,
    busy: Sequence[int] = (),
    after: int = 0,
) -> tuple[Verdict, Maps]:
    """`samples`: instruction, thread, address. `busy` threads are waited for until they are
    decided; no verdict comes before the instruction `after`, when every two threads were apart.
    Looks at the clusters now and then, and ends when they stay the same. Threads that the filter
    starved get another chance: while some are undecided and samples are left, a new one is
    filled."""
    maps = Maps(Filter(line))
    last, agreed, fresh = None, 0, 0
    look = FIRST_LOOK * len(threads)
    for number, (instruction, thread, address) in enumerate(samples, 1):
        maps.add(thread, address)
        if number < look or instruction < after:
            continue
        look = number + max(FIRST_LOOK * len(threads) // 2, min(number, ROUND * len(threads)) // 4)
        found = cluster(maps, threads)
        agreed = agreed + 1 if found.clusters == last and found.clusters else 0
        last = found.clusters
        waiting = set(busy) & {*found.undecided, *(found.alone if maps.rounds < PATIENCE else ())}
        if agreed + 1 >= STEADY and not waiting:
            return Verdict(found, number, instruction, True, maps.rounds), maps
        if number - fresh > ROUND * len(threads):
            fresh = number
            maps.begin_round(Filter(line, maps.rounds))
    ended = samples[-1][0] if samples else 0
    return Verdict(cluster(maps, threads), len(samples), ended, False, maps.rounds), maps
