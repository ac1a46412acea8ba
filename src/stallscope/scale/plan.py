# SPDX-License-Identifier: Apache-2.0
"""Which cells of a sweep one task computes: one machine, or many in one pass over the trace.

One pass is exact where what a level holds depends on the order of accesses and on nothing else: all
caches LRU, allocating on writes, writing back, none inclusive or exclusive, no prefetcher, and
addresses as they are (engine/session/designs.h refuses others).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

TOGETHER = 64  # machines of one pass at most: so that there is work for several workers
MEMORY = 512 << 20  # bytes that the lines of one pass may take, as far as it is no single machine


def shares_a_pass(machine: Mapping[str, Any]) -> bool:
    """Of a machine as the engine takes it."""
    return (
        machine["prefetcher"]["kind"] == "none"
        and machine["mapping"]["kind"] == "identity"
        and machine["mapping"]["first_touch"] == "memory"
        and all(_plain(cache) for cache in machine["caches"])
    )


def _plain(cache: Mapping[str, Any]) -> bool:
    usual = {"policy": "lru", "write_allocate": True, "write_back": True, "inclusion": "neither"}
    return all(cache[key] == value for key, value in usual.items())


def _code_line(machine: Mapping[str, Any]) -> int:
    """Machines of one pass fetch code in the same pieces."""
    lines = [int(c["line"]) for c in machine["caches"] if c["holds"] != "data"]
    return lines[0] if lines else 0


def _order(machine: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Machines that begin alike stand together: what they have in common is then done once."""
    names = ("holds", "line", "size", "ways")
    return [tuple(cache[name] for name in names) for cache in machine["caches"]]


def _bytes(machine: Mapping[str, Any]) -> int:
    """Of the line numbers that its caches hold, shared with no other machine."""
    return sum(16 * int(cache["size"]) // int(cache["line"]) for cache in machine["caches"])


def group(documents: Mapping[int, dict[str, Any]], exact: bool) -> Iterator[tuple[bool, list[int]]]:
    """Tasks for one recording on these machines, by their numbers: whether all of a task come from
    one pass, and which they are."""
    by_line: dict[int, list[int]] = {}
    for number, machine in documents.items():
        if exact and shares_a_pass(machine):
            by_line.setdefault(_code_line(machine), []).append(number)
        else:
            yield False, [number]
    for numbers in by_line.values():
        numbers.sort(key=lambda number: (_order(documents[number]), number))
        needed = sum(_bytes(documents[number]) for number in numbers)
        parts = max(math.ceil(len(numbers) / TOGETHER), math.ceil(needed / MEMORY))
        each = max(1, len(numbers) // parts if needed > MEMORY else math.ceil(len(numbers) / parts))
        for start in range(0, len(numbers), each):
            yield True, numbers[start : start + each]
