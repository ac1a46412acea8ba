# SPDX-License-Identifier: Apache-2.0
"""How far off multiplexed counts are, beside how far off they say that they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import (
    MOST_ROWS,
    BarRow,
    Bars,
    Panel,
    Picture,
    numbers,
    recording_name,
)
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.counters import CounterRow, Counters

DRAWS = "Counters"
EVENTS = 40  # when not told how many
COLUMNS = (
    ("event", "name"),
    ("full", "number"),
    ("estimate", "number"),
    ("from", "number"),
    ("to", "number"),
    ("error", "number"),
    ("KL", "number"),
)


def picture(result: Counters, limit: int | None) -> Picture:
    counted = sorted(
        (row for row in result.rows if row.group is not None and row.estimate > 0),
        key=lambda row: -row.rate,
    )
    shown = counted[: EVENTS if limit is None else min(limit or MOST_ROWS, MOST_ROWS)]
    return Picture(
        title=f"Many events on {result.counters} counters: {recording_name(result.recording)}",
        facts=(
            f"machine {clean(result.machine)}",
            f"{len(result.groups)} groups",
            f"{result.rounds:,} rounds of {result.ratio} slices of {amount(result.slice)}",
            f"estimator {clean(result.estimator)}",
        ),
        charts=(
            Bars(
                panels=(
                    Panel("off the full count", "%", ("error",)),
                    Panel("95% interval, half of it", "%", ("interval",)),
                ),
                rows=tuple(_bar(row) for row in shown),
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
        notes=("Frequent events stand first. Events that always count are not drawn.",),
        empty="no event took turns with others",
    )


def _bar(row: CounterRow) -> BarRow:
    return BarRow(
        label=clean(row.event),
        group="event",
        values=((row.error or 0.0,), ((row.high - row.low) / 2 / row.estimate,)),
        details=(
            ("full", "" if row.full is None else f"{row.full:,}"),
            ("estimate", f"{row.estimate:,.0f}"),
            ("interval", f"{row.low:,.0f} to {row.high:,.0f}"),
        ),
    )


def _numbers(row: CounterRow) -> tuple[str, ...]:
    return (
        clean(row.event),
        "" if row.full is None else f"{row.full:,}",
        f"{row.estimate:,.0f}",
        f"{row.low:,.0f}",
        f"{row.high:,.0f}",
        "" if row.error is None else f"{row.error:.2%}",
        "" if row.kl is None else f"{row.kl:.4f}",
    )
