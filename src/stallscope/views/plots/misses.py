# SPDX-License-Identifier: Apache-2.0
"""How often each level misses, and why: cold, capacity and conflict on top of each other."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from stallscope.views.plots.picture import (
    OTHERS,
    BarRow,
    Bars,
    Panel,
    Picture,
    numbers,
    recording_name,
    rows_shown,
    scope_facts,
)
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.misses import Kinds, Misses, MissLevelRow, MissRow

DRAWS = "Misses"
KINDS = ("cold", "capacity", "conflict")
COLUMNS = (
    ("level", "word"),
    ("object or place", "name"),
    ("misses", "number"),
    ("of the level's", "number"),
    *((kind, "number") for kind in KINDS),
)
FEWER = 8  # bars for each of several levels, when not told how many


def picture(result: Misses, limit: int | None) -> Picture:
    levels = [clean(row.level) for row in result.levels]
    which = levels[0] if len(levels) == 1 else "each level"
    why = "Why" if result.classified else "How often"
    on = f" on {clean(result.object)}" if result.object else ""
    return Picture(
        title=f"{why} {which} misses{on}: {recording_name(result.recording)}",
        facts=(f"machine {clean(result.machine)}", *scope_facts(result)),
        charts=(_levels(result),) if result.by == "level" else _by_level(result, limit),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
        empty="no access missed",
    )


def _panel(result: Misses) -> Panel:
    if result.classified:
        return Panel("of each kind", "misses", KINDS, stacked=True)
    return Panel("how many", "misses", ("misses",))


def _values(row: Kinds, misses: int) -> tuple[float, ...]:
    if row.cold is None or row.capacity is None or row.conflict is None:
        return (misses,)
    return (row.cold, row.capacity, row.conflict)


def _details(row: Kinds, misses: int) -> tuple[tuple[str, str], ...]:
    shares = (row.cold_share, row.capacity_share, row.conflict_share)
    counts = _values(row, misses) if row.cold is not None else ()
    kinds = [
        (kind, f"{count:,} ({share:.2%})")
        for kind, count, share in zip(KINDS, counts, shares, strict=False)
    ]
    return (("misses", f"{misses:,}"), *kinds)


def _levels(result: Misses) -> Bars:
    return Bars(
        panels=(
            _panel(result),
            Panel("misses of all look-ups", "%", ("ratio",)),
        ),
        rows=tuple(_level_bar(row) for row in result.levels if row.accesses),
    )


def _level_bar(row: MissLevelRow) -> BarRow:
    looked_up = ("look-ups", f"{row.accesses:,}")
    return BarRow(
        label=clean(row.level),
        group="code",
        values=(_values(row, row.misses), (row.miss_ratio,)),
        details=(looked_up, *_details(row, row.misses)),
    )


def _by_level(result: Misses, limit: int | None) -> tuple[Bars, ...]:
    most, least = rows_shown(limit)
    if limit is None and len(result.levels) > 1:
        most = FEWER
    charts = []
    for level in result.levels:
        shown, rest = result.top(level.level, most, least)
        bars = [_bar(row, clean(row.kind or "code")) for row in shown]
        charts.append(
            Bars(
                panels=(_panel(result),),
                rows=(*bars, _bar(rest, OTHERS)) if rest else tuple(bars),
                group="" if result.classified or result.by != "object" else "kind of object",
                title=clean(level.level),
                facts=f"{amount(level.misses)} misses, {level.miss_ratio:.2%} of its look-ups",
            )
        )
    return tuple(charts)


def _bar(row: MissRow, group: str) -> BarRow:
    return BarRow(
        label=f"{_what(row)}  {row.share:.1%}",
        group=group,
        values=(_values(row, row.misses),),
        details=(*_details(row, row.misses), ("of the level's misses", f"{row.share:.2%}")),
    )


def _what(row: MissRow) -> str:
    if row.object is not None:
        return clean(row.object)
    place = clean(PurePath(row.file or "").name) + (f":{row.line}" if row.line else "")
    return f"{clean(row.function or '')}  {place}".strip()


def _numbers(row: MissRow) -> tuple[str, ...]:
    kinds = (row.cold, row.capacity, row.conflict)
    return (
        clean(row.level),
        _what(row),
        f"{row.misses:,}",
        f"{row.share:.2%}",
        *("" if count is None else f"{count:,}" for count in kinds),
    )
