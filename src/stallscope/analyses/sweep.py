# SPDX-License-Identifier: Apache-2.0
"""What many machines did with some recordings, and which of them is the best for its size.

What a design costs is the mean time of an access, fetches included: every access takes the latency
of the cache that serves it, plus that of its translation. Nothing overlaps, as in the machine's
model; prefetches and stores that go on outwards cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stallscope.errors import StallscopeError
from stallscope.machines.keys import Wrong, size

Counts = Mapping[str, tuple[int, int]]  # accesses and misses by the name of a level


@dataclass(frozen=True)
class DesignRow:
    """A machine of the sweep, over all recordings."""

    design: dict[str, Any]  # the machine's name and what was set
    bytes: int  # of all its caches
    latency: float  # mean cycles of an access
    misses: dict[str, int]  # by level
    frontier: bool  # no design that is as small is as fast


@dataclass(frozen=True)
class Curve:
    name: str
    points: list[tuple[float, float]]  # by the value of the axis


def _number(value: Any) -> float | None:
    if isinstance(value, int):
        return float(value)
    try:
        return float(size(str(value)))
    except Wrong:
        return None


@dataclass(frozen=True)
class Sweep:
    recordings: list[str]
    parameters: list[str]  # keys that were set
    designs: list[DesignRow]  # those that every recording ran on, as they were asked for
    best: DesignRow | None  # the fastest within --max-bytes, or the smallest within --max-latency
    max_bytes: int | None
    max_latency: float | None
    failed: int  # cells without numbers
    unkept: int  # cells that could not be kept, as where a recording is only to be read
    rows: list[dict[str, Any]]  # recording, machine, parameters, level, accesses, misses, …, error

    def levels(self) -> list[str]:
        return list(dict.fromkeys(row["level"] for row in self.rows if row["level"]))

    def axis(self) -> str | None:
        """The parameter that curves go along: the one with most values that are numbers."""
        counts = {
            key: len({row[key] for row in self.rows if _number(row[key]) is not None})
            for key in self.parameters
        }
        found = max(counts, key=lambda key: counts[key], default=None)
        return found if found is not None and counts[found] > 1 else None

    def curves(self, level: str) -> list[Curve]:
        """Misses of a level along the axis, for every combination of the other parameters: the
        miss surface, line by line. Levels on which nothing depends have flat ones."""
        along = self.axis()
        points: dict[str, list[tuple[float, float]]] = {}
        for row in self.rows:
            if along is None or row["level"] != level:
                continue
            place = _number(row[along])
            if place is None:
                continue
            others = [f"{key}={row[key]}" for key in self.parameters if key != along]
            if len(self.recordings) > 1:
                others.insert(0, row["recording"])
            if len({row["machine"] for row in self.rows}) > 1:
                others.insert(0, row["machine"])
            points.setdefault(", ".join(others) or level, []).append((place, row["misses"]))
        return [Curve(name, sorted(found)) for name, found in points.items()]

    def changing(self) -> list[str]:
        """Levels whose misses depend on the axis."""
        return [
            level
            for level in self.levels()
            if any(len({y for _, y in curve.points}) > 1 for curve in self.curves(level))
        ]


def total_bytes(machine: Mapping[str, Any]) -> int:
    """Of a machine as the engine takes it."""
    return sum(int(cache["size"]) for cache in machine["caches"])


def mean_latency(machine: Mapping[str, Any], counts: Counts) -> float:
    waited, looked_up = 0, 0
    for parts, beyond in (
        (machine["caches"], machine["memory_latency"]),
        (machine["tlbs"], machine["page_walk"]),
    ):
        for part in parts:
            accesses, misses = counts[part["name"]]
            waited += (accesses - misses) * part["latency"]
        for last in _ends(parts, -1):
            waited += counts[last][1] * beyond
    for first in _ends(machine["caches"], 0):
        looked_up += counts[first][0]
    return waited / looked_up if looked_up else 0.0


def _ends(parts: Sequence[Mapping[str, Any]], which: int) -> list[str]:
    """The first or last levels on the ways of data and of instructions."""
    found: dict[str, None] = {}
    for kind in ("data", "instructions"):
        way = [part["name"] for part in parts if part["holds"] in (kind, "both")]
        if way:
            found[way[which]] = None
    return list(found)


def design_rows(
    designs: Sequence[tuple[dict[str, Any], Mapping[str, Any], Sequence[Counts]]],
) -> list[DesignRow]:
    """Each design with its machine and what the recordings made of it, one after the other."""
    sized = []
    for design, machine, counts in designs:
        summed = {
            name: (sum(one[name][0] for one in counts), sum(one[name][1] for one in counts))
            for name in counts[0]
        }
        misses = {name: missed for name, (_, missed) in summed.items()}
        sized.append((design, total_bytes(machine), mean_latency(machine, summed), misses))
    on_front = _frontier([(size, latency) for _, size, latency, _ in sized])
    return [DesignRow(*row, frontier=index in on_front) for index, row in enumerate(sized)]


def _frontier(points: Sequence[tuple[int, float]]) -> set[int]:
    """Of (bytes, cycles): the points that no other one beats in one without losing in the other."""
    found, fastest = set(), float("inf")
    for index in sorted(range(len(points)), key=lambda i: (*points[i], i)):
        if points[index][1] < fastest:
            fastest = points[index][1]
            found.add(index)
    return found


def choose(
    designs: Sequence[DesignRow], max_bytes: int | None, max_latency: float | None
) -> DesignRow | None:
    """The fastest that fits; with a latency to keep, the smallest that keeps it."""
    fitting = [
        row
        for row in designs
        if (max_bytes is None or row.bytes <= max_bytes)
        and (max_latency is None or row.latency <= max_latency)
    ]
    if max_latency is not None:
        return min(fitting, key=lambda row: (row.bytes, row.latency), default=None)
    return min(fitting, key=lambda row: (row.latency, row.bytes), default=None)


def check_budget(max_bytes: int | None, max_latency: float | None) -> None:
    for name, value in (("max-bytes", max_bytes), ("max-latency", max_latency)):
        if value is not None and not value > 0:
            raise StallscopeError(f"--{name} {value}: something above 0 was expected")
