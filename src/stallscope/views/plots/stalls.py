# SPDX-License-Identifier: Apache-2.0
"""Where cycles went: CPI by cause over time, causes on top of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import (
    BarRow,
    Bars,
    Panel,
    Picture,
    numbers,
    recording_name,
)
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.stalls import Stalls, TimeRow

DRAWS = "Stalls"
STEPS = 40  # of time, when not told how many
MOST_STEPS = 100


def picture(result: Stalls, limit: int | None) -> Picture:
    causes = tuple(row.cause for row in result.causes)
    series = ("completion", *causes)
    steps = result.over_time(STEPS if limit is None else min(limit or MOST_STEPS, MOST_STEPS))
    columns = (("from cycle", "name"), ("CPI", "number"), *((name, "number") for name in series))
    return Picture(
        title=f"What the processor waited for: {recording_name(result.recording)}",
        facts=(
            f"machine {clean(result.machine)}",
            f"mode {clean(result.mode)}",
            f"{amount(result.instructions)} instructions",
            f"{amount(result.cycles)} cycles",
            f"CPI {result.cpi:.3f}",
        ),
        charts=(
            Bars(
                panels=(Panel("cycles an instruction, by cause", "CPI", series, stacked=True),),
                rows=tuple(_bar(row, series) for row in steps),
            ),
        ),
        numbers=numbers(columns, [_numbers(row) for row in steps]),
        notes=("Time goes down; a bar is as long as the CPI of its stretch of time.",),
    )


def _bar(row: TimeRow, series: tuple[str, ...]) -> BarRow:
    parts = row.cpi()
    return BarRow(
        label=f"cycle {amount(row.start)}",
        group="time",
        values=(parts,),
        details=tuple((name, f"{part:.3f}") for name, part in zip(series, parts, strict=True)),
    )


def _numbers(row: TimeRow) -> tuple[str, ...]:
    parts = row.cpi()
    return (f"{row.start:,}", f"{sum(parts):.3f}", *(f"{part:.3f}" for part in parts))
