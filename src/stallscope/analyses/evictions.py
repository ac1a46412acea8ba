# SPDX-License-Identifier: Apache-2.0
"""Who throws whom out of the cache: the matrix of evictions by object, function and line; and how
much of each object stays."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any

from stallscope.analyses.objects import LevelRow, MissView, Process, Sums
from stallscope.showing import Shown


@dataclass(frozen=True)
class EvictionRow:
    level: str
    evicted: str
    by: str
    function: str | None
    line: int | None
    count: int
    share: float  # of the victim's evictions at this level
    share_all: float  # of all evictions at this level
    sampled: int | None  # at the sampled level only
    sampled_share: float | None


@dataclass(frozen=True)
class ResidentRow:
    """One object in one cache, on average over the instructions of the run or of the region."""

    level: str
    object: str
    kind: str
    resident_lines: float  # of which it holds most
    resident_bytes: float
    resident_share: float | None  # of its bytes, as long as it had any; None where nobody knows
    evictions: int  # of its lines, by data
    self_share: float | None  # of those, by lines of its own; None where there are none


@dataclass(frozen=True)
class EvictionMatrix:
    """One level: rows are victims, columns culprits, both in the order of `names`."""

    level: str
    misses: int
    evictions: int  # of data
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[float, ...], ...]  # of the victim's evictions
    weights: tuple[float, ...]  # share of the victim's evictions in all of the level
    resident: tuple[float | None, ...]  # of its bytes, on average; None where nobody knows


@dataclass(frozen=True)
class Evictions(Shown):
    recording: str
    machine: str
    samples: int
    period: int
    processes: list[Process]
    levels: list[LevelRow]
    rows: list[EvictionRow]
    region: str | None = None
    objects: list[ResidentRow] = field(default_factory=list)

    def matrices(self, most: int, least: float = 0.0) -> list[EvictionMatrix]:
        """One for each level that rows tell of, with at most so many objects, of those that have a
        part in at least this share of the evictions; where there are more, the last are they."""
        rows: dict[str, list[EvictionRow]] = collections.defaultdict(list)
        for row in self.rows:
            rows[row.level].append(row)
        resident = {(row.level, row.object): row.resident_share for row in self.objects}
        return [
            _matrix(level, rows[level.level], most, least, resident)
            for level in self.levels
            if rows[level.level]
        ]


def evictions(view: MissView, *, level: str | None = None, by_line: bool = False) -> Evictions:
    """Rows by count; every cache level unless one is named. Instruction misses are left out."""
    chosen = view.level_number(level)
    counts: collections.Counter[tuple[Any, ...]] = collections.Counter()
    sampled: dict[tuple[Any, ...], Sums] = collections.defaultdict(Sums)
    for row in view.rows("eviction"):
        counts[
            _key(view, row["level"], row["victim"], row["culprit"], row["operation"], by_line)
        ] += row["count"]
    for row in view.samples if view.code is None else ():
        if row["victim"] is not None:
            key = _key(view, view.event, row["victim"], row["bucket"], row["operation"], by_line)
            sampled[key] += Sums(sampled=1, weight=row["weight"])
    rows = [
        row
        for row in _rows(view, counts, sampled)
        if chosen is None or row.level == view.levels[chosen]["name"]
    ]
    result = view.replay.result
    return Evictions(
        str(view.replay.recording.path),
        result.machine_name,
        len(view.samples),
        view.sampling().period,
        view.processes(),
        view.level_rows(),
        rows,
        view.region,
        _residents(view, chosen, counts),
    )


def _residents(
    view: MissView, chosen: int | None, counts: collections.Counter[tuple[Any, ...]]
) -> list[ResidentRow]:
    """Objects by level and by the room that they take."""
    evicted: collections.Counter[tuple[int, str]] = collections.Counter()
    by_itself: collections.Counter[tuple[int, str]] = collections.Counter()
    for (level, victim, culprit, *_), count in counts.items():
        evicted[level, victim] += count
        by_itself[level, victim] += count if victim == culprit else 0
    sums: dict[tuple[int, str, str], list[float]] = collections.defaultdict(lambda: [0.0] * 3)
    for row in view.rows("resident"):
        if chosen is None or row["level"] == chosen:
            kind = view.buckets[row["bucket"]]["kind"]
            group = sums[row["level"], view.name(row["bucket"]), kind]
            for i, number in enumerate(("lines", "bytes", "live")):
                group[i] += row[number]
    time = max(1, view.instructions)
    ordered = sorted(sums.items(), key=lambda item: (item[0][0], -item[1][0], item[0]))
    return [
        ResidentRow(
            level=view.levels[level]["name"],
            object=name,
            kind=kind,
            resident_lines=lines / time,
            resident_bytes=size / time,
            resident_share=size / live if live else None,
            evictions=evicted[level, name],
            self_share=by_itself[level, name] / evicted[level, name]
            if evicted[level, name]
            else None,
        )
        for (level, name, kind), (lines, size, live) in ordered
    ]


def _key(
    view: MissView, level: int, victim: int, culprit: int, operation: int, by_line: bool
) -> tuple[Any, ...]:
    place: tuple[str | None, int | None] = (None, None)
    if by_line:
        function, _, line = view.places.get(operation, ("?", "", None))
        place = (function, line)
    return (level, view.name(victim), view.name(culprit), *place)


def _rows(
    view: MissView,
    counts: collections.Counter[tuple[Any, ...]],
    sampled: dict[tuple[Any, ...], Sums],
) -> list[EvictionRow]:
    of_victim: collections.Counter[tuple[int, str]] = collections.Counter()
    of_level: collections.Counter[int] = collections.Counter()
    sampled_victim: collections.Counter[str] = collections.Counter()
    for (level, victim, *_), count in counts.items():
        of_victim[level, victim] += count
        of_level[level] += count
    for (_, victim, *_), sums in sampled.items():
        sampled_victim[victim] += sums.weight
    rows = []
    for key, count in counts.items():
        level, victim, culprit, function, line = key
        here = level == view.event and view.code is None
        told = sampled.get(key, Sums()) if here else None
        rows.append(
            EvictionRow(
                level=view.levels[level]["name"],
                evicted=victim,
                by=culprit,
                function=function,
                line=line,
                count=count,
                share=count / of_victim[level, victim],
                share_all=count / of_level[level],
                sampled=None if told is None else told.sampled,
                sampled_share=(
                    None if told is None else told.weight / max(1, sampled_victim[victim])
                ),
            )
        )
    return sorted(rows, key=lambda row: (row.level, -row.count, row.evicted, row.by, row.line or 0))


def _matrix(
    level: LevelRow,
    rows: list[EvictionRow],
    most: int,
    least: float,
    resident: dict[tuple[str, str], float | None],
) -> EvictionMatrix:
    part: collections.Counter[str] = collections.Counter()
    for row in rows:
        part[row.evicted] += row.count
        if row.by != row.evicted:
            part[row.by] += row.count
    enough = least * sum(row.count for row in rows)
    # Ties in the order of names, so that the same rows always give the same matrix.
    ordered = sorted(part, key=lambda name: (-part[name], name))
    names = [name for name in ordered if part[name] >= enough]
    if len(ordered) > min(len(names), most):
        names = names[: most - 1]
    place = {name: number for number, name in enumerate(names)}
    if len(ordered) > len(names):
        names = [*names, f"{len(ordered) - len(names):,} others"]
    counts = [[0] * len(names) for _ in names]
    for row in rows:
        counts[place.get(row.evicted, -1)][place.get(row.by, -1)] += row.count
    everything = sum(map(sum, counts))
    return EvictionMatrix(
        level=level.level,
        misses=level.misses,
        evictions=everything,
        names=tuple(names),
        counts=tuple(map(tuple, counts)),
        shares=tuple(tuple(count / max(1, sum(line)) for count in line) for line in counts),
        weights=tuple(sum(line) / max(1, everything) for line in counts),
        resident=tuple(resident.get((level.level, name)) for name in names),
    )
