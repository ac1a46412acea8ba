# SPDX-License-Identifier: Apache-2.0
"""Who accessed watched memory: by watch and place, and one by one."""

from __future__ import annotations

import collections
import dataclasses
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
    snapshot: str | None = None  # bytes of what is watched afterwards, in hexadecimal
    registers: dict[str, int] | None = None  # with a snapshot at native speed


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
    unknown: int = 0  # accesses left out, because the value that a condition asks for is not known
    lost: int = 0  # hits that the kernel had no room for
    values: tuple[str, ...] = ()  # memory whose values a recording kept, where it did not keep all


def watched(
    recording: str,
    watches: Sequence[str],
    operations: pa.Table,
    tables: Mapping[str, pa.Table],
    found: Mapping[str, Any],
    values_of: Sequence[str] = (),
) -> Watched:
    """From the tables watch_hit, watch_value, watch_count and watch_path."""
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
    values = {row["hit"]: row for row in tables["watch_value"].to_pylist()}
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
            *_value(values.get(number)),
        )
        for number, row in enumerate(hits)
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
        unknown=found["unknown"],
        values=tuple(values_of),
    )


def _value(row: Mapping[str, Any] | None) -> tuple[int | None, str | None]:
    if row is None:
        return None, None
    return row["value"] if row["known"] else None, row["snapshot"] or None


def noticed(
    recording: str,
    watches: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    sites: Mapping[int, Sequence[Mapping[str, Any]]],
    *,
    ranges: int,
    stop: int,
) -> Watched:
    """From rows of the table `watched`, which the capture tool made while the program ran. Frames
    of sites are innermost first."""
    per_watch = dict.fromkeys(watches, 0)
    places: dict[tuple[int, int, int], Place] = {}  # by watch, kind and instruction
    log = []
    for row in rows:
        watch, kind, code = row["watch"], row["kind"], row["code"]
        frames = sites.get(row["site"], ())
        at: Mapping[str, Any] = frames[0] if frames else _nowhere(code)
        place = (at["function"], at["file"], at["line"])
        when, name = row["instruction"], watches[watch]
        per_watch[name] += row["count"]
        known = places.get((watch, kind, code)) or Place(
            name, 0, KINDS[kind - 1], *place, f"{code:#x}", when, when
        )
        places[watch, kind, code] = dataclasses.replace(
            known, hits=known.hits + row["count"], last=max(known.last, when)
        )
        if row["address"] is not None:
            log.append(
                Hit(
                    when,
                    name,
                    row["thread"],
                    KINDS[kind - 1],
                    f"{row['address']:#x}",
                    row["size"],
                    *place,
                    tuple(_call(one) for one in _up_to_start(frames[1:])),
                    row["value"],
                    row["snapshot"] or None,
                )
            )
    by_place = sorted(places.values(), key=lambda one: (-one.hits, one.first, one.address))
    hits = sum(per_watch.values())
    return Watched(
        recording=recording,
        source="capture",
        watches=per_watch,
        hits=hits,
        false_hits=0,
        accesses=0,
        ranges=ranges,
        stopped=0 < stop <= hits,
        rows=tuple(by_place),
        log=tuple(log),
    )


def _up_to_start(frames: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """What a walk finds behind the program's first function is nothing."""
    names = [one["function"] for one in frames]
    return frames[: names.index("_start") + 1] if "_start" in names else frames


def _nowhere(code: int) -> dict[str, Any]:
    return {"function": f"{code:#x}", "file": "", "line": None}


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
