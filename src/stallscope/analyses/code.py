# SPDX-License-Identifier: Apache-2.0
"""Misses of instruction fetches, by the function whose code missed.

A missing line is named by its first instruction that was to be executed. Recordings name the first
instruction of each block and every instruction that accesses memory; any other goes by the nearest
of the latter on the same straight stretch of code, else by its block.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

At = tuple[int, int]  # block, and address of an instruction
Place = tuple[str, str, int | None]  # function, file, line


@dataclass(frozen=True)
class CodeCount:
    bucket: int
    operation: int
    misses: int
    latency: int


@dataclass(frozen=True)
class CodeMisses:
    """In the shape that misses of data have: functions stand for buckets, places for operations."""

    buckets: list[dict[str, Any]]
    places: dict[int, Place]
    counts: list[CodeCount]
    samples: list[dict[str, Any]]


def code_misses(
    blocks: pa.Table,
    operations: pa.Table,
    rows: list[dict[str, Any]],
    samples: list[dict[str, Any]],
    level: int,
    buckets: int,
) -> CodeMisses:
    """From the rows of code_miss and sample. `level` is the event's: its misses are counted, and
    the latency of all. Numbers begin behind those of the `buckets` and operations that there are
    already."""
    named = _named(blocks, operations, rows)
    first = 1 + max(operations.column("operation").to_pylist(), default=0)
    numbers = {at: number for number, at in enumerate(named, first)}
    names = dict.fromkeys(place[0] for place in named.values())
    functions = {name: number for number, name in enumerate(names, buckets)}
    sums: dict[At, list[int]] = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        entry = sums[row["block"], row["address"]]
        entry[0] += row["misses"] if row["level"] == level else 0
        entry[1] += row["latency"]
    return CodeMisses(
        buckets=_buckets(blocks, functions, buckets),
        places={numbers[at]: place for at, place in named.items()},
        counts=[
            CodeCount(functions[named[at][0]], numbers[at], misses, latency)
            for at, (misses, latency) in sums.items()
        ],
        samples=[
            row | {"bucket": functions[named[at][0]], "operation": numbers[at]}
            for row in samples
            for at in [(row["block"], row["address"])]
        ],
    )


def _named(blocks: pa.Table, operations: pa.Table, rows: list[dict[str, Any]]) -> dict[At, Place]:
    """Every place that missed, and what it belongs to."""
    by_block = {row["block"]: row for row in blocks.drop_columns(["bytes"]).to_pylist()}
    by_operation = {row["operation"]: row for row in operations.to_pylist()}
    found: dict[At, Place] = {}
    for row in rows:
        block = by_block.get(row["block"])
        near = by_operation.get(row["operation"])
        at = block if near is None or (block and block["address"] == row["address"]) else near
        place = ("?", "", None) if at is None else (at["function"], at["file"], at["line"])
        found[row["block"], row["address"]] = place
    return found


def _buckets(blocks: pa.Table, functions: dict[str, int], first: int) -> list[dict[str, Any]]:
    """Functions as buckets; their blocks and bytes are those that ran."""
    buckets: list[dict[str, Any]] = [
        {"bucket": number, "kind": "code", "name": name, "type": "", "site": None}
        | {"blocks": 0, "bytes": 0}
        for name, number in functions.items()
    ]
    for row in blocks.select(["function", "bytes"]).to_pylist():
        if row["function"] in functions:
            bucket = buckets[functions[row["function"]] - first]
            bucket["blocks"] += 1
            bucket["bytes"] += len(row["bytes"])
    return buckets
