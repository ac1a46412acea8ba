# SPDX-License-Identifier: Apache-2.0
"""Who accessed watched memory: by watch and place, and one by one."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("reads", "writes", "reads and writes")


@dataclass(frozen=True)
class Place:
    """A memory operation that touched what a watch watches."""

    watch: str
    hits: int
    kind: str
    function: str
    file: str
    line: int | None
    address: str  # of the instruction
    first: int  # instructions
    last: int


@dataclass(frozen=True)
class Hit:
    time: int
    watch: str
    thread: int
    kind: str
    address: str  # of the data
    bytes: int
    function: str
    file: str
    line: int | None
    path: tuple[str, ...]  # calls that led there, innermost first
    value: int | None = None  # where it is known


@dataclass(frozen=True)
class Watched:
    recording: str
    source: str
    watches: dict[str, int]  # hits, by watch
    hits: int
    false_hits: int  # that the match let pass and the exact list took out
    accesses: int
    ranges: int  # most at a time
    stopped: bool
    rows: tuple[Place, ...]
    log: tuple[Hit, ...]


def watched(
    recording: str,
    watches: Sequence[str],
    operations: pa.Table,
    tables: Mapping[str, pa.Table],
    found: Mapping[str, Any],
) -> Watched:
    """From the tables watch_hit, watch_count and watch_path."""
    counts, hits = tables["watch_count"].to_pylist(), tables["watch_hit"].to_pylist()
    paths: dict[int, list[int]] = collections.defaultdict(list)
    for row in tables["watch_path"].to_pylist():
        paths[row["path"]].append(row["operation"])
    wanted = {row["operation"] for row in (*counts, *hits)}
    wanted.update(*paths.values())
    by_number = {row["operation"]: row for row in _rows(operations, wanted)}
    per_watch = dict.fromkeys(watches, 0)
    rows = []
    for row in counts:
        at = by_number[row["operation"]]
        per_watch[watches[row["watch"]]] += row["hits"]
        rows.append(
            Place(
                watches[row["watch"]],
                row["hits"],
                KINDS[at["kind"]],
                at["function"],
                at["file"],
                at["line"],
                f"{at['address']:#x}",
                row["first"],
                row["last"],
            )
        )
    rows.sort(key=lambda one: (-one.hits, one.first, one.address))
    named = {
        number: tuple(_call(by_number[one]) for one in calls) for number, calls in paths.items()
    }
    log = [
        Hit(
            row["time"],
            watches[row["watch"]],
            row["thread"],
            KINDS[by_number[row["operation"]]["kind"]],
            f"{row['address']:#x}",
            by_number[row["operation"]]["size"],
            by_number[row["operation"]]["function"],
            by_number[row["operation"]]["file"],
            by_number[row["operation"]]["line"],
            named.get(row["path"], ()),
        )
        for row in hits
    ]
    return Watched(
        recording=recording,
        source="replay",
        watches=per_watch,
        hits=found["hits"],
        false_hits=found["false_hits"],
        accesses=found["accesses"],
        ranges=found["most_ranges"],
        stopped=found["stopped"],
        rows=tuple(rows),
        log=tuple(log),
    )


def _rows(operations: pa.Table, wanted: set[int]) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    chosen = pa.array(sorted(wanted), pa.uint32())
    found: list[dict[str, Any]] = operations.filter(
        pc.is_in(operations.column("operation"), chosen)
    ).to_pylist()
    return found


def _call(row: Mapping[str, Any]) -> str:
    where = f" ({PurePath(row['file']).name}:{row['line']})" if row["line"] else ""
    return f"{row['function']}{where}"
