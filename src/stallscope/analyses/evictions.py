# SPDX-License-Identifier: Apache-2.0
"""Who throws whom out of the cache: the matrix of evictions by object, function and line."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

from stallscope.analyses.objects import MissView
from stallscope.errors import StallscopeError


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
class Evictions:
    recording: str
    machine: str
    samples: int
    period: int
    rows: list[EvictionRow]


def evictions(view: MissView, *, level: str | None = None, by_line: bool = False) -> Evictions:
    """Rows by count; every cache level unless one is named. Instruction misses are left out."""
    names = [row["name"] for row in view.levels]
    if level is not None and level.lower() not in [name.lower() for name in names]:
        raise StallscopeError(f"the machine has no level {level}", f"it has: {', '.join(names)}")
    counts: collections.Counter[tuple[Any, ...]] = collections.Counter()
    sampled: collections.Counter[tuple[Any, ...]] = collections.Counter()
    for row in view.replay.table("eviction").to_pylist():
        counts[
            _key(view, row["level"], row["victim"], row["culprit"], row["operation"], by_line)
        ] += row["count"]
    for row in view.samples:
        if row["victim"] is not None:
            key = _key(view, view.event, row["victim"], row["bucket"], row["operation"], by_line)
            sampled[key] += 1
    rows = [
        row
        for row in _rows(view, counts, sampled)
        if level is None or row.level.lower() == level.lower()
    ]
    result = view.replay.result
    return Evictions(
        str(view.replay.recording.path),
        result.machine_name,
        len(view.samples),
        result.sample_period,
        rows,
    )


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
    sampled: collections.Counter[tuple[Any, ...]],
) -> list[EvictionRow]:
    of_victim: collections.Counter[tuple[int, str]] = collections.Counter()
    of_level: collections.Counter[int] = collections.Counter()
    sampled_victim: collections.Counter[str] = collections.Counter()
    for (level, victim, *_), count in counts.items():
        of_victim[level, victim] += count
        of_level[level] += count
    for (_, victim, *_), count in sampled.items():
        sampled_victim[victim] += count
    rows = []
    for key, count in counts.items():
        level, victim, culprit, function, line = key
        here = level == view.event
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
                sampled=sampled[key] if here else None,
                sampled_share=sampled[key] / max(1, sampled_victim[victim]) if here else None,
            )
        )
    return sorted(rows, key=lambda row: (row.level, -row.count, row.evicted, row.by, row.line or 0))
