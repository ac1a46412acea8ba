# SPDX-License-Identifier: Apache-2.0
"""Which lines of code miss on which objects: where a reader goes on from either."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stallscope.analyses.live import NO_ADDRESS, LiveView
from stallscope.analyses.objects import MissView

Place = tuple[str, str, int | None]  # function, file, line


@dataclass(frozen=True)
class CrossingRow:
    object: str
    function: str
    file: str
    line: int | None
    misses: int | None  # None: there are only samples
    sampled: int
    latency: int | None
    share: float  # of what the object costs


def crossings(
    view: MissView | LiveView, objects: Collection[str] | None = None, most: int = 0
) -> list[CrossingRow]:
    """Objects in the order of what they cost, each with the lines that cost most of it: at most so
    many of each (0: all), and of these objects only when they are given."""
    found = _live(view) if isinstance(view, LiveView) else _counted(view)
    by_object: dict[str, list[tuple[float, CrossingRow]]] = collections.defaultdict(list)
    for cost, row in found:
        if objects is None or row.object in objects:
            by_object[row.object].append((cost, row))
    sums = {name: sum(cost for cost, _ in rows) for name, rows in by_object.items()}
    result = []
    for name in sorted(by_object, key=lambda name: (-sums[name], name)):
        rows = sorted(by_object[name], key=lambda entry: (-entry[0], _place(entry[1])))
        result += [_shared(row, cost, sums[name]) for cost, row in rows[: most or None]]
    return result


def _shared(row: CrossingRow, cost: float, whole: float) -> CrossingRow:
    share = cost / whole if whole else 0.0
    return CrossingRow(
        row.object, row.function, row.file, row.line, row.misses, row.sampled, row.latency, share
    )


def _place(row: CrossingRow) -> tuple[str, str, int]:
    return (row.file, row.function, row.line or 0)


def _counted(view: MissView) -> Iterator[tuple[float, CrossingRow]]:
    names = [view.name(number) for number in range(len(view.buckets))]

    def by(bucket: int, operation: int) -> tuple[str, Place]:
        return names[bucket], view.places.get(operation, ("?", "", None))

    for (name, place), sums in view.grouped(by, lambda *_: True).items():
        function, file, line = place
        row = CrossingRow(name, function, file, line, sums.misses, sums.sampled, sums.latency, 0.0)
        yield sums.latency or sums.misses / 1e6, row


def _live(view: LiveView) -> Iterator[tuple[float, CrossingRow]]:
    sums: dict[tuple[str, Place], list[float]] = collections.defaultdict(lambda: [0, 0.0])
    for f in view.found:
        if f.state == "memory":
            entry = sums[(f.object or (NO_ADDRESS,))[0], f.place]
            entry[0] += f.count
            entry[1] += f.cost
    for (name, place), (count, cost) in sums.items():
        yield cost, CrossingRow(name, *place, None, int(count), None, 0.0)


@dataclass(frozen=True)
class PivotRow:
    key: tuple[str | int | None, ...]
    misses: int | None
    sampled: int
    latency: int | None
    share: float  # of what the rows cost that were looked at


def pivot(
    rows: Sequence[CrossingRow], by: Sequence[str], where: Mapping[str, object] | None = None
) -> list[PivotRow]:
    """What comes together by some of the fields, of the rows with these values in others."""
    sums: dict[tuple[str | int | None, ...], list[int]] = collections.defaultdict(lambda: [0, 0, 0])
    for row in rows:
        if all(getattr(row, name) == value for name, value in (where or {}).items()):
            entry = sums[tuple(getattr(row, name) for name in by)]
            for i, value in enumerate((row.misses, row.sampled, row.latency)):
                entry[i] += value or 0
    counted = any(row.misses is not None for row in rows)
    whole = sum(entry[1 + counted] for entry in sums.values()) or 1
    found = [
        PivotRow(
            key=key,
            misses=entry[0] if counted else None,
            sampled=entry[1],
            latency=entry[2] if counted else None,
            share=entry[1 + counted] / whole,
        )
        for key, entry in sums.items()
    ]
    found.sort(key=lambda row: (-row.share, -(row.misses or 0), tuple(map(str, row.key))))
    return found
