# SPDX-License-Identifier: Apache-2.0
"""Tables 12 to 18: which object throws which out of the cache."""

from __future__ import annotations

import collections
from dataclasses import dataclass

import stallscope
from benchmarks.reproduce.lab import WORKLOADS, Lab, namer
from benchmarks.reproduce.page import Page, code, percent
from stallscope.analyses.evictions import EvictionRow

NAME, TITLE = "matrices", "Who evicts whom"
MACHINE, PERIOD = "risc-64k", 25_000
MOST, LEAST = 5, 0.01  # objects in a matrix, and their share of the misses
LARGE = 0.1


@dataclass(frozen=True)
class Matrix:
    workload: str
    objects: list[str]  # by misses
    exact: dict[tuple[str, str], float]  # evicted, by: share of the evicted object's evictions
    sampled: dict[tuple[str, str], float]
    large: list[str]  # with at least a tenth of the misses, or the most
    rows: list[EvictionRow]

    def worst(self) -> tuple[float, str, str]:
        """The largest difference between sampled and exact, of objects with many misses."""
        differences = [
            (abs(self.sampled.get(pair, 0.0) - share), *pair)
            for pair, share in self.exact.items()
            if pair[0] in self.large
        ]
        return max(differences)


def measure(lab: Lab, page: Page, workload: str) -> Matrix:
    named = namer(workload)
    view = lab.view(workload, machine=MACHINE, evictions=True)
    result = stallscope.evictions(view, level="L1D")
    by_share = sorted(stallscope.objects(view).rows, key=lambda row: -row.share)
    exact: dict[tuple[str, str], float] = collections.defaultdict(float)
    sampled: dict[tuple[str, str], float] = collections.defaultdict(float)
    for row in result.rows:
        exact[named(row.evicted), named(row.by)] += row.share
        sampled[named(row.evicted), named(row.by)] += row.sampled_share or 0.0
    stallscope.plot(result, page.folder / f"{page.name}-{workload}.png", limit=MOST + 3)
    return Matrix(
        workload,
        [named(row.object) for row in by_share[:MOST] if row.share >= LEAST],
        dict(exact),
        dict(sampled),
        [named(row.object) for row in by_share if row.share >= LARGE or row is by_share[0]],
        result.rows,
    )


def _section(page: Page, matrix: Matrix) -> None:
    page.heading(matrix.workload)
    rows = []
    for by in matrix.objects:
        shares = [matrix.exact.get((evicted, by), 0.0) for evicted in matrix.objects]
        rows.append([code(by), *map(percent, shares)])
    others = [
        1 - sum(matrix.exact.get((evicted, by), 0.0) for by in matrix.objects)
        for evicted in matrix.objects
    ]
    rows.append(["others", *map(percent, (max(0.0, share) for share in others))])
    headings = ["evicted by", *(f"evicted: {code(name)}" for name in matrix.objects)]
    page.table(matrix.workload, headings, rows)
    page.picture_file(matrix.workload)


def _table_12(page: Page, matrix: Matrix) -> None:
    page.heading("Table 12: evictions in multigrid, exact and sampled")
    rows = []
    for evicted in matrix.objects:
        pairs = [pair for pair in matrix.exact if pair[0] == evicted]
        exact = sorted(pairs, key=lambda pair: -matrix.exact[pair])
        sampled = sorted(pairs, key=lambda pair: -matrix.sampled.get(pair, 0.0))
        for rank, pair in enumerate(exact, 1):
            if matrix.exact[pair] >= LEAST:
                rows.append(
                    [
                        *(code(evicted), code(pair[1])),
                        *(rank, percent(matrix.exact[pair])),
                        *(sampled.index(pair) + 1, percent(matrix.sampled.get(pair, 0.0))),
                    ]
                )
    headings = ["object", "evicted by", "rank", "exact", "rank, sampled", "sampled"]
    page.table("table_12", headings, rows)


def _least_pattern(matrices: list[Matrix]) -> float:
    """The largest share in each matrix; of these the smallest."""
    return min(
        max(share for (evicted, _), share in matrix.exact.items() if evicted in matrix.objects)
        for matrix in matrices
    )


def make(lab: Lab, page: Page) -> None:
    matrices = [measure(lab, page, name) for name in WORKLOADS]
    page.text(
        """**What the original showed.** A register that no processor has, the address of the line
        that a miss throws out, was sampled together with the address that missed (64 KB cache, one
        miss in 25,000). Table 12 has mgrid's evictions, exact and sampled: `U` and `R` are mostly
        evicted by themselves (60.3% and 73.8%), `V` by `U` (97.0%). Tables 13 to 18 have the
        matrices of six programs; in each, some object causes 35% or more of another's evictions.
        The largest error, over objects with at least a tenth of the misses, was 5.1 points.""",
        f"""**What is shown here.** The slow forms of the workloads on `{MACHINE}`, the objects with
        the most misses. A column adds up to 100%: all evictions of the object that it names. Fills
        of empty ways are no evictions. In the pictures it is the rows that add up.""",
    )
    _table_12(page, matrices[0])
    for matrix in matrices:
        _section(page, matrix)
    worst = max((*matrix.worst(), matrix.workload) for matrix in matrices)
    page.heading("Where and why they differ")
    page.number("worst_points", 100 * worst[0])
    page.points(
        f"""The largest error of a sampled share here, over objects with at least a tenth of the
        misses, is {100 * worst[0]:.1f} points (evictions of `{worst[1]}` by `{worst[2]}`,
        `{worst[3]}`), with the period that `evictions` chooses by itself.""",
        f"""In every workload some object causes at least {100 * _least_pattern(matrices):.0f}% of
        another's or its own evictions, where the original found 35%.""",
        """`multigrid` has the original's pattern for `U`, which is mostly evicted by itself, and
        for `V`, which is evicted by `U`. `R` is mostly evicted by `V` here and by itself there: all
        arrays of the slow form begin in the same set, so that the line of `V` that is read next
        falls on the one of `R` that was just written.""",
        """`shallow_water` has more arrays than fit into a table of five, as `swim` has: most of
        what happens to one of them is done by others.""",
    )
