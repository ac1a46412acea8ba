# SPDX-License-Identifier: Apache-2.0
"""The regions that a program marks: their shares of what is executed, missed and waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import (
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
    from stallscope.analyses.regions import RegionRow, Regions

DRAWS = "Regions"
COLUMNS = (
    ("region", "name"),
    ("inside", "name"),
    ("entered", "number"),
    ("instructions", "number"),
    ("share", "number"),
    ("accesses", "number"),
    ("misses", "number"),
    ("share of misses", "number"),
    ("latency, cycles", "number"),
    ("share of latency", "number"),
)


def picture(result: Regions, limit: int | None) -> Picture:
    level = clean(result.level)
    most, _ = rows_shown(limit)
    more = len(result.rows) - most
    return Picture(
        title=f"What happens in each region: {recording_name(result.recording)}",
        facts=(
            f"machine {clean(result.machine)}",
            f"{amount(result.instructions)} instructions",
            f"{amount(result.misses)} misses of {level}",
            *scope_facts(result),
        ),
        charts=(
            Bars(
                panels=(
                    Panel("share of the instructions", "%", ("instructions",)),
                    Panel(f"share of {level} misses", "%", ("misses",)),
                    Panel("share of the cycles waited for", "%", ("latency",)),
                ),
                rows=tuple(_bar(row) for row in result.rows[:most]),
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
        # They lie in each other, so that a sum of them would mean nothing.
        notes=(
            "A region has what the regions inside it have.",
            *([f"{more:,} more regions are not shown."] if more > 0 else []),
        ),
    )


def _bar(row: RegionRow) -> BarRow:
    inside = clean(", ".join(row.inside))
    return BarRow(
        label=clean(row.region) + (f"  in {inside}" if inside else ""),
        group="code",
        values=((row.instructions_share,), (row.share,), (row.latency_share,)),
        details=(
            ("entered", f"{row.entered:,} times"),
            ("instructions", f"{row.instructions:,} ({row.instructions_share:.2%})"),
            ("misses", f"{row.misses:,} ({row.share:.2%})"),
            ("latency", f"{row.latency:,} cycles ({row.latency_share:.2%})"),
        ),
    )


def _numbers(row: RegionRow) -> tuple[str, ...]:
    return (
        clean(row.region),
        clean(", ".join(row.inside)),
        f"{row.entered:,}",
        f"{row.instructions:,}",
        f"{row.instructions_share:.2%}",
        f"{row.accesses:,}",
        f"{row.misses:,}",
        f"{row.share:.2%}",
        f"{row.latency:,}",
        f"{row.latency_share:.2%}",
    )
