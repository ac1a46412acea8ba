# SPDX-License-Identifier: Apache-2.0
"""Which code misses: for each function or line the exact and the sampled share."""

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
    from stallscope.analyses.objects import PlaceRow, Places

DRAWS = "Places"
COLUMNS = (
    ("function", "name"),
    ("file", "name"),
    ("line", "number"),
    ("misses", "number"),
    ("share", "number"),
    ("sampled", "number"),
    ("sampled share", "number"),
    ("latency, cycles", "number"),
    ("share of latency", "number"),
)


def picture(result: Places, limit: int | None) -> Picture:
    level, noun = clean(result.level), clean(result.by)
    on = f" on {clean(result.object)}" if result.object else ""
    return Picture(
        title=f"Which {noun}s miss {level}{on}: {recording_name(result.recording)}",
        facts=(
            f"machine {clean(result.machine)}",
            f"{amount(result.misses)} misses of {level}",
            f"{result.samples:,} samples",
            f"{len(result.rows):,} {noun}s",
            *scope_facts(result),
        ),
        charts=(
            Bars(
                panels=(
                    Panel(f"share of {level} misses", "%", ("exact", "sampled")),
                    Panel("share of the cycles waited for", "%", ("latency",)),
                ),
                rows=_bars(*result.top(*rows_shown(limit))),
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
        empty="no access missed",
    )


def _bars(shown: list[PlaceRow], rest: PlaceRow | None) -> tuple[BarRow, ...]:
    bars = [_bar(row, "code") for row in shown]
    return (*bars, _bar(rest, OTHERS)) if rest else tuple(bars)


def _bar(row: PlaceRow, group: str) -> BarRow:
    file = clean(PurePath(row.file).name)
    place = f"{file}:{row.line}" if row.line else file
    return BarRow(
        label=clean(row.function) + (f"  {place}" if place else ""),
        group=group,
        values=((row.share, row.sampled_share), (row.latency_share,)),
        details=(
            ("misses", f"{row.misses:,} ({row.share:.2%})"),
            ("samples", f"{row.sampled:,} ({row.sampled_share:.2%})"),
            ("latency", f"{row.latency:,} cycles ({row.latency_share:.2%})"),
            ("file", clean(row.file) or "unknown"),
        ),
    )


def _numbers(row: PlaceRow) -> tuple[str, ...]:
    return (
        clean(row.function),
        clean(row.file),
        str(row.line or ""),
        f"{row.misses:,}",
        f"{row.share:.2%}",
        f"{row.sampled:,}",
        f"{row.sampled_share:.2%}",
        f"{row.latency:,}",
        f"{row.latency_share:.2%}",
    )
