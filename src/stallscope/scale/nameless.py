# SPDX-License-Identifier: Apache-2.0
"""What a fleet keeps of objects that had no name when they were ingested: where their samples, or
the frames of their allocation paths, lie in which file. A file with symbols names them any time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stallscope.analyses.sites import DEPTH, site_name

KINDS = ("mapping", "unknown")  # of buckets in which variables may lie
HEAP = "[heap]"
FAR = 1 << 28  # bytes behind a file's mapping in which its variables without contents may lie
_OFFSET = re.compile(r".*\+0x[0-9a-f]+")
_LINE = re.compile(r":\d+(?=[),])")


class Place(msgspec.Struct, frozen=True, array_like=True):
    build: str  # of the file; empty where it has none
    at: int  # the file's own address
    samples: int  # of a variable
    function: str  # of a frame; empty for a variable
    file: str  # of its source


def without_line(name: str) -> str:
    """Lines change from build to build."""
    return _LINE.sub("", name)


class Modules:
    """Of one process."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        kept = [row for row in rows if row["build_id"]]
        self._by_start = sorted(kept, key=lambda row: -row["start"])
        self._by_number = {row["module"]: row for row in kept}

    def variables(self, addresses: Iterable[int]) -> list[Place]:
        """Those that may lie in a file or right behind it."""
        found = Counter(place for a in addresses if (place := self._place(a)) is not None)
        return [Place(build, at, count, "", "") for (build, at), count in sorted(found.items())]

    def _place(self, address: int) -> tuple[str, int] | None:
        for row in self._by_start:
            if row["start"] <= address:
                near = address < row["end"] + FAR
                return (row["build_id"], address - row["bias"]) if near else None
        return None

    def path(self, frames: Sequence[Mapping[str, Any]]) -> list[Place]:
        """An allocation path, when any of its functions has no name."""
        if not any(is_offset(row["function"]) for row in frames):
            return []
        return [self._frame(row) for row in frames]

    def _frame(self, row: Mapping[str, Any]) -> Place:
        module = self._by_number.get(row["module"])
        file = row["file"] if row["line"] else ""
        if module is None:
            return Place("", 0, 0, row["function"], file)
        own = row["address"] - module["bias"]
        return Place(module["build_id"], own, 0, row["function"], file)


def path_name(places: Sequence[Place], depth: int = DEPTH) -> str:
    rows: list[dict[str, object]] = [
        {"function": one.function, "file": one.file, "line": int(bool(one.file))} for one in places
    ]
    return without_line(site_name(rows, depth))


def is_offset(function: str) -> bool:
    """What a function without a name is called."""
    return _OFFSET.fullmatch(function) is not None


def has_name(place: Place) -> bool:
    return not is_offset(place.function)
