# SPDX-License-Identifier: Apache-2.0
"""The regions that a program marks in itself, and what happens in each.

The engine counts for the innermost region; a region asked for by its name also has what happens
in the regions inside it, wherever it stands itself.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope.errors import StallscopeError
from stallscope.showing import Shown

if TYPE_CHECKING:
    from stallscope.analyses.objects import MissView, Process

OUTSIDE = "<outside>"


@dataclass(frozen=True)
class RegionRow:
    """One region with all that is inside it."""

    region: str
    inside: list[str]  # the regions right around it
    entered: int
    instructions: int
    instructions_share: float  # of the run
    accesses: int
    misses: int
    share: float  # of the run
    latency: int
    latency_share: float


@dataclass(frozen=True)
class Regions(Shown):
    recording: str
    machine: str
    processes: list[Process]
    level: str  # whose misses are counted
    instructions: int
    accesses: int
    misses: int
    rows: list[RegionRow]


def numbers(table: Sequence[dict[str, Any]], name: str) -> frozenset[int]:
    """The numbers of a region and of all inside it, by the rows of table `region`."""
    around = {row["region"]: frozenset(_names_around(table, row)) for row in table}
    found = frozenset(region for region, names in around.items() if name in names)
    if found:
        return found
    known = sorted({row["name"] for row in table if row["around"] is not None})
    if not known:
        raise _no_regions(name)
    raise StallscopeError(f"there is no region {name}", f"there are: {', '.join(known)}")


def _no_regions(name: str) -> StallscopeError:
    return StallscopeError(
        "the program marks no regions",
        "a region is what happens between two marks that the program makes",
        f'STALLSCOPE_REGION_BEGIN("{name}") and STALLSCOPE_REGION_END("{name}") of stallscope.h, '
        "and record it again",
    )


def _names_around(table: Sequence[dict[str, Any]], row: dict[str, Any]) -> Iterator[str]:
    while row["around"] is not None:
        yield row["name"]
        row = table[row["around"]]


def regions(view: MissView) -> Regions:
    """Regions by instructions, and what lies in none."""
    table = view.replay.table("region").to_pylist()
    misses: collections.Counter[int] = collections.Counter()
    latency: collections.Counter[int] = collections.Counter()
    for miss in view.replay.table("miss").to_pylist():
        misses[miss["region"]] += miss["misses"] if miss["level"] == view.event else 0
        latency[miss["region"]] += miss["latency"]
    names = sorted({row["name"] for row in table if row["around"] is not None})
    if not names:
        raise _no_regions("name")
    rows = [_row(table, name, numbers(table, name), misses, latency) for name in names]
    rows.sort(key=lambda row: (-row.instructions, row.region))
    outside = frozenset(row["region"] for row in table if row["around"] is None)
    rows.append(_row(table, OUTSIDE, outside, misses, latency))
    result = view.replay.result
    return Regions(
        str(view.replay.recording.path),
        result.machine_name,
        view.processes(),
        view.levels[view.event]["name"],
        sum(row["instructions"] for row in table),
        sum(row["accesses"] for row in table),
        misses.total(),
        rows,
    )


def _row(
    table: Sequence[dict[str, Any]],
    name: str,
    inside: frozenset[int],
    misses: collections.Counter[int],
    latency: collections.Counter[int],
) -> RegionRow:
    own = [row for row in table if row["region"] in inside and row["name"] == name]
    around = {table[row["around"]]["name"] for row in own if row["around"] is not None}
    instructions = sum(row["instructions"] for row in table if row["region"] in inside)
    missed, cycles = (sum(of[region] for region in inside) for of in (misses, latency))
    return RegionRow(
        region=name,
        inside=sorted(around - {""}),
        entered=sum(row["entered"] for row in own),
        instructions=instructions,
        instructions_share=instructions / max(1, sum(row["instructions"] for row in table)),
        accesses=sum(row["accesses"] for row in table if row["region"] in inside),
        misses=missed,
        share=missed / max(1, misses.total()),
        latency=cycles,
        latency_share=cycles / max(1, latency.total()),
    )
