# SPDX-License-Identifier: Apache-2.0
"""Which data misses: for each object the exact and the sampled share, and that of the waiting."""

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
from stallscope.views.terminal.text import amount, clean, size

if TYPE_CHECKING:
    from stallscope.analyses.objects import ObjectRow, Objects

DRAWS = "Objects"
COLUMNS = (
    ("object", "name"),
    ("kind", "word"),
    ("type", "name"),
    ("blocks", "number"),
    ("bytes", "number"),
    ("misses", "number"),
    ("share", "number"),
    ("sampled", "number"),
    ("sampled share", "number"),
    ("latency, cycles", "number"),
    ("share of latency", "number"),
)


def picture(result: Objects, limit: int | None) -> Picture:
    of = f" of {clean(result.function)}" if result.function else ""
    return Picture(
        title=f"Which data misses {clean(result.level)}{of}: {recording_name(result.recording)}",
        facts=(
            f"machine {clean(result.machine)}",
            f"{amount(result.misses)} misses of {clean(result.level)}",
            f"{result.samples:,} samples, one in about {result.period:,} misses",
            f"{len(result.rows):,} objects",
            *scope_facts(result),
        ),
        charts=(
            Bars(
                panels=(
                    Panel(f"share of {clean(result.level)} misses", "%", ("exact", "sampled")),
                    Panel("share of the cycles waited for", "%", ("latency",)),
                ),
                rows=_bars(*result.top(*rows_shown(limit))),
                group="kind of object",
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
        empty="no access missed",
    )


def _bars(shown: list[ObjectRow], rest: ObjectRow | None) -> tuple[BarRow, ...]:
    bars = [_bar(row, clean(row.kind)) for row in shown]
    return (*bars, _bar(rest, OTHERS)) if rest else tuple(bars)


def _bar(row: ObjectRow, group: str) -> BarRow:
    return BarRow(
        label=clean(row.object) + (f"  {clean(row.type)}" if row.type else ""),
        group=group,
        values=((row.share, row.sampled_share), (row.latency_share,)),
        details=(
            ("misses", f"{row.misses:,} ({row.share:.2%})"),
            ("samples", f"{row.sampled:,} ({row.sampled_share:.2%})"),
            ("latency", f"{row.latency:,} cycles ({row.latency_share:.2%})"),
            ("per miss", f"{row.latency_per_miss:.0f} cycles"),
            ("blocks", f"{row.blocks:,} of {size(row.bytes)} together"),
        ),
    )


def _numbers(row: ObjectRow) -> tuple[str, ...]:
    return (
        clean(row.object),
        clean(row.kind),
        clean(row.type),
        f"{row.blocks:,}",
        f"{row.bytes:,}",
        f"{row.misses:,}",
        f"{row.share:.2%}",
        f"{row.sampled:,}",
        f"{row.sampled_share:.2%}",
        f"{row.latency:,}",
        f"{row.latency_share:.2%}",
    )
