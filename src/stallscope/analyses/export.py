# SPDX-License-Identifier: Apache-2.0
"""A run as other tools see runs: costs by place in the code and by data, and what changes over
time. The formats in views/exports draw it."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stallscope.analyses.live import LiveView
from stallscope.analyses.objects import MissView

POINTS = 1000  # of a counter over time
Place = tuple[str, str, int | None]


class Spot(msgspec.Struct, frozen=True):
    """What one line of the code costs on one object."""

    function: str
    file: str
    line: int | None
    object: str
    kind: str
    misses: int
    latency: int


class Span(msgspec.Struct, frozen=True):
    """A thread's life, or a region that the program marks."""

    name: str
    thread: int
    start: int
    end: int


class Counter(msgspec.Struct, frozen=True):
    name: str
    unit: str
    times: list[int]
    values: list[int]


class Level(msgspec.Struct, frozen=True):
    level: str
    kind: str
    accesses: int
    misses: int


class Export(msgspec.Struct, frozen=True):
    program: str
    command: list[str]
    created: str
    machine: str
    misses_unit: str  # misses of a level, or samples
    latency_unit: str  # cycles, or samples
    time_unit: str  # instructions or nanoseconds
    instructions: int
    pid: int
    levels: list[Level]
    threads: dict[int, str]
    spots: list[Spot]
    spans: list[Span]
    counters: list[Counter]


def spots(view: MissView | LiveView) -> list[Spot]:
    """The costliest first."""
    sums: dict[tuple[str, str, int | None, str, str], list[int]] = {}

    def add(place: Place, data: tuple[str, str], misses: int, latency: int) -> None:
        entry = sums.setdefault((*place, *data), [0, 0])
        entry[0] += misses
        entry[1] += latency

    if isinstance(view, LiveView):
        for found in view.found:
            memory = found.count if found.state == "memory" else 0
            add(found.place, found.object or ("", ""), memory, found.count)
    else:
        for count in view.counts():
            place = view.places.get(count.operation, ("?", "", None))
            kind = str(view.buckets[count.bucket]["kind"])
            add(place, (view.name(count.bucket), kind), count.misses, count.latency)
    rows = [Spot(*key, *value) for key, value in sums.items()]
    return sorted(rows, key=lambda row: (-row.latency, -row.misses, row.function, row.line or 0))


def spans(
    threads: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]], end: int
) -> list[Span]:
    """Lives of threads, and the regions that they were in."""
    found = [
        Span(str(t["name"]), t["thread"], t["started"], end if t["ended"] is None else t["ended"])
        for t in threads
    ]
    open_regions: dict[int, list[tuple[str, int]]] = collections.defaultdict(list)
    for event in events:
        thread, when = event["thread"], event["instruction"]
        if event["kind"] == "region_begin":
            open_regions[thread].append((str(event["text"]), when))
        elif event["kind"] == "region_end" and open_regions[thread]:
            name, start = open_regions[thread].pop()
            found.append(Span(name, thread, start, when))
    for thread, left in open_regions.items():
        found += [Span(name, thread, start, end) for name, start in left]
    return found


def heap_over_time(objects: Iterable[Mapping[str, Any]], end: int) -> Counter:
    """Bytes of heap blocks that there are, at so many points of a run."""
    changes: collections.Counter[int] = collections.Counter()
    step = max(1, end // POINTS)
    for row in objects:
        if row["kind"] == "heap":
            changes[row["born"] // step] += row["size"]
            if row["died"] is not None:
                changes[row["died"] // step] -= row["size"]
    times, values, now = [], [], 0
    for point in sorted(changes):
        now += changes[point]
        times.append(point * step)
        values.append(now)
    return Counter("heap", "bytes", times, values)


def anonymous(export: Export) -> Export:
    """With numbers in place of all names that come from the program; shapes and costs stay."""
    numbers: dict[tuple[str, str], str] = {}

    def hidden(what: str, name: str) -> str:
        if not name:
            return name
        return numbers.setdefault((what, name), f"{what}{len(numbers) + 1}")

    def spot(one: Spot) -> Spot:
        return msgspec.structs.replace(
            one,
            function=hidden("function", one.function),
            file=hidden("file", one.file),
            object=hidden("object", one.object),
        )

    return msgspec.structs.replace(
        export,
        program="program",
        command=[],
        created="",
        pid=1,
        machine=hidden("machine", export.machine),
        threads={number: f"thread{number}" for number in export.threads},
        spots=[spot(one) for one in export.spots],
        spans=[msgspec.structs.replace(one, name=hidden("span", one.name)) for one in export.spans],
    )
