# SPDX-License-Identifier: Apache-2.0
"""Where inside of objects misses fall: for each field or part its share."""

from __future__ import annotations

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
    from stallscope.analyses.offsets import OffsetRow, Offsets

DRAWS = "Offsets"
COLUMNS = (
    ("object", "name"),
    ("offset", "number"),
    ("bytes", "number"),
    ("field", "name"),
    ("type", "name"),
    ("function", "name"),
    ("misses", "number"),
    ("share", "number"),
    ("latency, cycles", "number"),
    ("share of latency", "number"),
)


def picture(result: Offsets, limit: int | None) -> Picture:
    level = clean(result.level)
    return Picture(
        title=f"Where misses of {level} fall: {recording_name(result.recording)}",
        facts=(
            *((f"in {clean(result.object)}",) if result.object else ()),
            f"machine {clean(result.machine)}",
            f"{amount(result.misses)} misses of {level}",
            f"{len(result.rows):,} places",
            *scope_facts(result),
        ),
        charts=(
            Bars(
                panels=(
                    Panel(f"share of {level} misses", "%", ("exact",)),
                    Panel("share of the cycles waited for", "%", ("latency",)),
                ),
                rows=_bars(result, *result.top(*rows_shown(limit))),
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
        empty="no access missed",
    )


def _bars(result: Offsets, shown: list[OffsetRow], rest: OffsetRow | None) -> tuple[BarRow, ...]:
    bars = [_bar(row, _label(row, result.object is None), "place") for row in shown]
    return (*bars, _bar(rest, clean(rest.field), OTHERS)) if rest else tuple(bars)


def _label(row: OffsetRow, has_object: bool) -> str:
    parts = [f"+{row.offset}", clean(row.field), clean(row.function or "")]
    if has_object:
        parts.append(clean(row.object))
    return "  ".join(part for part in parts if part)


def _bar(row: OffsetRow, label: str, group: str) -> BarRow:
    return BarRow(
        label=label,
        group=group,
        values=((row.share,), (row.latency_share,)),
        details=(
            ("misses", f"{row.misses:,} ({row.share:.2%})"),
            ("latency", f"{row.latency:,} cycles ({row.latency_share:.2%})"),
            ("per miss", f"{row.latency_per_miss:.0f} cycles"),
            ("type", clean(row.type) or "unknown"),
            ("object", clean(row.object)),
        ),
    )


def _numbers(row: OffsetRow) -> tuple[str, ...]:
    return (
        clean(row.object),
        str(row.offset),
        str(row.size),
        clean(row.field),
        clean(row.type),
        clean(row.function or ""),
        f"{row.misses:,}",
        f"{row.share:.2%}",
        f"{row.latency:,}",
        f"{row.latency_share:.2%}",
    )
