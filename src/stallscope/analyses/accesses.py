# SPDX-License-Identifier: Apache-2.0
"""Where the memory accesses are in the source, and where the heap came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stallscope.recording import Recording


@dataclass(frozen=True)
class LineRow:
    function: str
    file: str
    line: int | None
    loads: int
    stores: int
    share: float  # of all accesses of the process image


@dataclass(frozen=True)
class SiteRow:
    function: str
    file: str
    line: int | None
    allocator: str
    blocks: int
    bytes: int


@dataclass(frozen=True)
class Accesses:
    accesses: int
    lines: list[LineRow]  # most accesses first
    sites: list[SiteRow]  # most bytes first


def accesses(recording: Recording) -> Accesses:
    """Of one process image."""
    total = recording.meta.loads + recording.meta.stores
    return Accesses(total, _lines(recording, total), _sites(recording))


def _lines(recording: Recording, total: int) -> list[LineRow]:
    counts: dict[tuple[str, str, int | None], list[int]] = {}
    columns = ("function", "file", "line", "kind", "executions")
    table = recording.table("operation").select(columns).to_pydict()
    for function, file, line, kind, executions in zip(*table.values(), strict=True):
        place = (function, file, line) if line else (function.split("+0x")[0], file, None)
        row = counts.setdefault(place, [0, 0])
        row[kind == 1] += executions
    rows = [
        LineRow(*place, loads, stores, (loads + stores) / total if total else 0.0)
        for place, (loads, stores) in counts.items()
    ]
    return sorted(rows, key=lambda row: (-row.share, row.function, row.line or 0))


def _sites(recording: Recording) -> list[SiteRow]:
    import pyarrow.compute as pc

    places: dict[int, tuple[str, str, int | None]] = {}
    for row in recording.table("site").to_pylist():
        places.setdefault(row["site"], (row["function"], row["file"], row["line"]))
    objects = recording.table("object")
    heap = objects.filter(pc.equal(objects["kind"], "heap"))
    grouped = heap.group_by(["site", "allocator"]).aggregate([("size", "sum"), ("size", "count")])
    rows = [
        SiteRow(*places[row["site"]], row["allocator"], row["size_count"], row["size_sum"])
        for row in grouped.to_pylist()
        if row["site"] in places
    ]
    return sorted(rows, key=lambda row: (-row.bytes, row.function, row.line or 0))
