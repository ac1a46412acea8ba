# SPDX-License-Identifier: Apache-2.0
"""Threads clustered by their shMaps.

Two threads are as alike as the dot product of their maps says, in which a line weighs the less the
more often all threads missed it: two samples of it meet by chance that much more easily. A line
that everybody uses then makes any two threads as alike as chance would. What chance would give
follows from the maps: thread a is alike to all others together by k(a), and if it did not matter to
whom, it would be alike to b by k(a) * k(b) / sum of all k. Threads of a group are above that, those
of different groups below it, however large the groups are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from stallscope.analyses.shmaps import Maps

WRONG = 0.01  # the chance, at most, that any thread is put into a cluster where it does not belong
APART = 0.5  # of chance: a cluster is less alike than this to all that are not in it
FEW = 12  # counted misses that a thread needs before it is judged
SURE = 48  # before it is said to share with nobody
TESTS = 4  # for global lines, each inside what the last one found

Vectors = dict[int, dict[int, int]]  # by thread and line
Pair = tuple[int, int]


@dataclass(frozen=True)
class Clusters:
    """Threads by what they share. Clusters and their threads are in the order of their numbers."""

    clusters: tuple[tuple[int, ...], ...]
    undecided: tuple[int, ...]  # too few samples
    alone: tuple[int, ...]  # enough of them, and like nobody
    global_lines: frozenset[int]  # that belong to no group


def cluster(maps: Maps, threads: Sequence[int]) -> Clusters:
    """Lines that most threads outside of the cluster that uses them miss too are global and
    ignored. As this changes the clusters, and they what is global, it is done again."""
    vectors = {thread: maps.lines(thread) for thread in threads}
    ignored: set[int] = set()
    for _ in range(TESTS):
        likeness = Likeness(_without(vectors, ignored))
        groups = likeness.groups()
        found = global_lines(vectors, groups)
        if found == ignored:
            break
        ignored = found
    groups = [group for group in groups if likeness.apart(group)]
    grouped = {thread for group in groups for thread in group}
    counted = {t: sum(v.values()) for t, v in _without(vectors, ignored).items()}
    few = {thread for thread in threads if counted[thread] < SURE} - grouped
    return Clusters(
        tuple(sorted(tuple(sorted(group)) for group in groups)),
        tuple(sorted(few)),
        tuple(sorted(set(threads) - few - grouped)),
        frozenset(ignored),
    )


def _without(vectors: Vectors, ignored: set[int]) -> Vectors:
    return {
        thread: {line: n for line, n in vector.items() if line not in ignored}
        for thread, vector in vectors.items()
    }


def global_lines(vectors: Vectors, groups: Sequence[Sequence[int]]) -> set[int]:
    """Lines that at least half of the threads miss, of those outside of the group that misses them
    most."""
    users: dict[int, set[int]] = {}
    for thread, vector in vectors.items():
        for line in vector:
            users.setdefault(line, set()).add(thread)
    group_of = {thread: number for number, group in enumerate(groups) for thread in group}
    found = set()
    for line, who in users.items():
        counts: dict[int, int] = {}
        for thread in who & group_of.keys():
            group = group_of[thread]
            counts[group] = counts.get(group, 0) + vectors[thread][line]
        main = set(groups[max(counts, key=lambda g: counts[g])]) if counts else set()
        outside = vectors.keys() - main
        if outside and 2 * len(who - main) >= len(outside):
            found.add(line)
    return found


class Likeness:
    """How alike threads are, and clusters of them as they are joined."""

    def __init__(self, vectors: Vectors) -> None:
        self.judged = sorted(t for t, v in vectors.items() if sum(v.values()) >= FEW)
        known = set(self.judged)  # the others' samples count for how common lines are
        self._of = {pair: s for pair, s in similarities(vectors).items() if known.issuperset(pair)}
        self._total = dict.fromkeys(self.judged, 0.0)
        for (a, b), alike in self._of.items():
            self._total[a] += alike
            self._total[b] += alike
        self._sum = sum(self._total.values())

    def distance(self, a: int, b: int) -> float:
        expected = self._total[a] * self._total[b] / self._sum if self._sum else 0.0
        alike = self._of.get(_pair(a, b), 0.0)
        return expected / (expected + alike) if expected else 1.0

    def groups(self) -> list[list[int]]:
        """The two that are most surely alike are joined until none are more alike than by chance; a
        cluster is compared as a whole, since members may use only a part of what their group
        shares, as who empties one of many queues. Who is not surely alike to the others of its
        cluster is left out: it belongs to none. All threads in one are none: they use the same."""
        members = {thread: [thread] for thread in self.judged}
        alike, total = dict(self._of), dict(self._total)
        above = {
            pair: self._above(alike.get(pair, 0.0), *(total[t] for t in pair))
            for pair in itertools.combinations(self.judged, 2)
        }
        while above:
            a, b = max(above, key=lambda pair: above[pair])
            if above[a, b] <= 0:
                break
            members[a] += members.pop(b)
            total[a] += total.pop(b)
            del above[a, b]
            for other in members.keys() - {a}:
                gone, kept = _pair(b, other), _pair(a, other)
                alike[kept] = alike.get(kept, 0.0) + alike.pop(gone, 0.0)
                del above[gone]
                above[kept] = self._above(alike[kept], total[a], total[other])
        if len(members) < 2:
            return []
        bound = math.log(len(self.judged) * len(members) / WRONG)
        sure = [
            [t for t in group if self._surprise(t, group) > bound] for group in members.values()
        ]
        return [group for group in sure if len(group) > 1]

    def apart(self, group: Sequence[int]) -> bool:
        """From all threads outside of it."""
        inside = set(group)
        cross = sum(s for pair, s in self._of.items() if len(inside & set(pair)) == 1)
        total = sum(self._total[thread] for thread in group)
        return cross <= APART * total * (self._sum - total) / self._sum

    def _surprise(self, thread: int, group: Sequence[int]) -> float:
        """If it did not matter whom a thread's samples meet, they would meet so many of this group
        with a probability of less than exp(-surprise): Chernoff's bound."""
        others = [other for other in group if other != thread]
        met = self._total[thread]
        chance = sum(self._total[other] for other in others) / (self._sum or 1.0)
        share = sum(self._of.get(_pair(thread, other), 0.0) for other in others) / (met or 1.0)
        return met * divergence(min(share, 1.0), chance) if share > chance > 0 else 0.0

    def _above(self, alike: float, one: float, other: float) -> float:
        """Standard errors by which two are more alike than by chance."""
        expected = one * other / self._sum if self._sum else 0.0
        return (alike - expected) / math.sqrt(expected) if expected else 0.0


def divergence(share: float, chance: float) -> float:
    """Of a coin that falls on heads with the probability `share` from one with `chance`, in nats.
    0 < chance < share."""
    tails = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return share * math.log(share / chance) + tails


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def similarities(vectors: Vectors) -> dict[Pair, float]:
    """Dot products of all two that have a line in common. A line that was missed n times weighs
    1 / (n - 1): of its samples so many others could have met one."""
    users: dict[int, list[tuple[int, int]]] = {}
    for thread in sorted(vectors):
        for line, count in vectors[thread].items():
            users.setdefault(line, []).append((thread, count))
    found: dict[Pair, float] = {}
    for who in users.values():
        others = sum(count for _, count in who) - 1
        for i, (a, count) in enumerate(who):
            for b, more in who[i + 1 :]:
                found[a, b] = found.get((a, b), 0.0) + count * more / others
    return found


def hierarchical(maps: Maps, threads: Sequence[int], found: Clusters) -> list[list[int]]:
    """The same threads by SciPy's average linkage, as a check by other code. The distance of two is
    a half where they are as alike as by chance and 1 where they share nothing; clusters end midway.
    Needs scipy."""
    import numpy as np
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    likeness = Likeness(_without({t: maps.lines(t) for t in threads}, set(found.global_lines)))
    judged = likeness.judged
    if len(judged) < 2:
        return []
    distance = np.zeros((len(judged), len(judged)))
    for (i, a), (j, b) in itertools.permutations(enumerate(judged), 2):
        distance[i, j] = likeness.distance(a, b)
    labels = fcluster(linkage(squareform(distance), "average"), (0.5 + 1) / 2, "distance")
    groups: dict[int, list[int]] = {}
    for thread, label in zip(judged, labels, strict=True):
        groups.setdefault(int(label), []).append(thread)
    return sorted(sorted(group) for group in groups.values() if 1 < len(group) < len(judged))
