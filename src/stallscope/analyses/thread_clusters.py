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

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stallscope.analyses.shmaps import Maps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

WRONG = 0.01  # the chance, at most, that any thread is put into a cluster where it does not belong
APART = 0.5  # of chance: a cluster is less alike than this to all that are not in it
FEW = 12  # counted misses that a thread needs before it is judged
SURE = 48  # before it is said to share with nobody
TESTS = 4  # for global lines, each inside what the last one found


@dataclass(frozen=True)
class Clusters:
    """Threads by what they share. Clusters and their threads are in the order of their numbers."""

    clusters: tuple[tuple[int, ...], ...]
    undecided: tuple[int, ...]  # too few samples
    alone: tuple[int, ...]  # enough of them, and like nobody
    global_lines: frozenset[int]  # that belong to no group


class Counts:
    """Misses by thread (a row each) and line (a column each)."""

    def __init__(self, vectors: Mapping[int, Mapping[int, int]]) -> None:
        import numpy as np

        self.threads = sorted(vectors)
        self.lines = sorted({line for vector in vectors.values() for line in vector})
        column = {line: at for at, line in enumerate(self.lines)}
        self.table: Numbers = np.zeros((len(self.threads), len(self.lines)))
        for row, thread in enumerate(self.threads):
            for line, count in vectors[thread].items():
                self.table[row, column[line]] = count

    def without(self, ignored: Collection[int]) -> Numbers:
        return self.table[:, [line not in ignored for line in self.lines]]

    def global_lines(self, groups: Sequence[Sequence[int]]) -> set[int]:
        """Lines that at least half of the threads miss, of those outside of the group that misses
        them most. `groups` have rows."""
        import numpy as np

        users = self.table > 0
        who, outside = users.sum(axis=0), np.full(len(self.lines), len(self.threads))
        if groups:
            most = np.argmax([self.table[group].sum(axis=0) for group in groups], axis=0)
            inside = np.array([users[group].sum(axis=0) for group in groups])
            inside = inside[most, np.arange(len(self.lines))]
            outside = outside - np.array([len(group) for group in groups])[most] * (inside > 0)
            who = who - inside
        found = np.flatnonzero((outside > 0) & (2 * who >= outside))
        return {self.lines[at] for at in found}


def cluster(maps: Maps, threads: Sequence[int]) -> Clusters:
    """Lines that most threads outside of the cluster that uses them miss too are global and
    ignored. As this changes the clusters, and they what is global, it is done again."""
    counts = Counts({thread: maps.lines(thread) for thread in threads})
    ignored: set[int] = set()
    for _ in range(TESTS):
        table = counts.without(ignored)
        likeness = Likeness(table)
        groups = likeness.groups()
        found = counts.global_lines(groups)
        if found == ignored:
            break
        ignored = found
    groups = [group for group in groups if likeness.apart(group)]
    grouped = {row for group in groups for row in group}
    left = set(range(len(counts.threads))) - grouped
    few = {row for row in left if table[row].sum() < SURE}

    def numbers(rows: Collection[int]) -> tuple[int, ...]:
        return tuple(counts.threads[row] for row in sorted(rows))

    return Clusters(
        tuple(sorted(numbers(group) for group in groups)),
        numbers(few),
        numbers(left - few),
        frozenset(ignored),
    )


class Likeness:
    """How alike threads are, and clusters of them as they are joined. Threads are rows of a table
    of their counts."""

    def __init__(self, table: Numbers) -> None:
        import numpy as np

        self.judged = np.flatnonzero(table.sum(axis=1) >= FEW)
        # The others' samples count for how common lines are.
        self.alike = similarities(table)[np.ix_(self.judged, self.judged)]
        self.total = self.alike.sum(axis=1)
        self.sum = float(self.total.sum())

    def distances(self) -> Numbers:
        """A half where two are as alike as by chance, 1 where they share nothing."""
        import numpy as np

        expected = np.outer(self.total, self.total) / (self.sum or 1.0)
        made = np.ones_like(expected)
        np.divide(expected, expected + self.alike, out=made, where=expected > 0)
        np.fill_diagonal(made, 0.0)
        return made

    def groups(self) -> list[list[int]]:
        """The two that are most surely alike are joined until none are more alike than by chance; a
        cluster is compared as a whole, since members may use only a part of what their group
        shares, as who empties one of many queues. Who is not surely alike to the others of its
        cluster is left out: it belongs to none. All threads in one are none: they use the same."""
        members = self._joined()
        if len(members) < 2:
            return []
        bound = math.log(len(self.judged) * len(members) / WRONG)
        sure = [[one for one in group if self._surprise(one, group) > bound] for group in members]
        return [[int(self.judged[one]) for one in group] for group in sure if len(group) > 1]

    def _joined(self) -> list[list[int]]:
        import numpy as np

        members = {one: [one] for one in range(len(self.judged))}
        alike, total = np.array(self.alike), np.array(self.total)
        above = np.full_like(alike, -math.inf)
        for one in members:
            above[one, one + 1 :] = self._above(alike[one], total[one], total)[one + 1 :]
        while len(members) > 1:
            a, b = (int(at) for at in np.unravel_index(np.argmax(above), above.shape))
            if above[a, b] <= 0:
                break
            members[a] += members.pop(b)
            total[a] += total[b]
            alike[a] += alike[b]
            alike[:, a] += alike[:, b]
            now = self._above(alike[a], total[a], total)
            left = np.array(sorted(members.keys() - {a}), dtype=int)
            above[b, :] = above[:, b] = -math.inf
            above[a, left[left > a]] = now[left[left > a]]
            above[left[left < a], a] = now[left[left < a]]
        return list(members.values())

    def apart(self, group: Sequence[int]) -> bool:
        """From all threads outside of it."""
        import numpy as np

        inside = np.isin(self.judged, group)
        total = float(self.total[inside].sum())
        cross = float(self.alike[inside][:, ~inside].sum())
        return cross <= APART * total * (self.sum - total) / self.sum

    def _surprise(self, one: int, group: Sequence[int]) -> float:
        """If it did not matter whom a thread's samples meet, they would meet so many of this group
        with a probability of less than exp(-surprise): Chernoff's bound."""
        others = [other for other in group if other != one]
        met = float(self.total[one])
        chance = float(self.total[others].sum()) / (self.sum or 1.0)
        share = float(self.alike[one, others].sum()) / (met or 1.0)
        return met * divergence(min(share, 1.0), chance) if share > chance > 0 else 0.0

    def _above(self, alike: Numbers, one: float, others: Numbers) -> Numbers:
        """Standard errors by which one is more alike to others than by chance."""
        import numpy as np

        expected = one * others / (self.sum or 1.0)
        made = np.zeros_like(expected)
        np.divide(alike - expected, np.sqrt(expected), out=made, where=expected > 0)
        return made


def divergence(share: float, chance: float) -> float:
    """Of a coin that falls on heads with the probability `share` from one with `chance`, in nats.
    0 < chance < share."""
    tails = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return share * math.log(share / chance) + tails


def similarities(table: Numbers) -> Numbers:
    """Dot products of all two. A line that was missed n times weighs 1 / (n - 1): of its samples so
    many others could have met one."""
    import numpy as np

    common = table[:, (table > 0).sum(axis=0) > 1]  # a few of them, most often
    made: Numbers = (common / (common.sum(axis=0) - 1)) @ common.T
    np.fill_diagonal(made, 0.0)
    made += made.T.copy()
    return made / 2  # exactly alike both ways


def hierarchical(maps: Maps, threads: Sequence[int], found: Clusters) -> list[list[int]]:
    """The same threads by SciPy's average linkage, as a check by other code; clusters end midway
    between chance and nothing. Needs scipy."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    counts = Counts({thread: maps.lines(thread) for thread in threads})
    likeness = Likeness(counts.without(found.global_lines))
    judged = [counts.threads[row] for row in likeness.judged]
    if len(judged) < 2:
        return []
    tree = linkage(squareform(likeness.distances()), "average")
    groups: dict[int, list[int]] = {}
    for thread, label in zip(judged, fcluster(tree, (0.5 + 1) / 2, "distance"), strict=True):
        groups.setdefault(int(label), []).append(thread)
    return sorted(sorted(group) for group in groups.values() if 1 < len(group) < len(judged))
