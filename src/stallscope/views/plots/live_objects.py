# SPDX-License-Identifier: Apache-2.0
"""Which data a program waits for, as bars; and what it does with its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.live import live_picture
from stallscope.views.plots.picture import BarRow, Panel, Picture
from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.live import LiveObjectRow, LiveObjects

DRAWS = "LiveObjects"
COLUMNS = (
    ("object", "name"),
    ("kind", "word"),
    ("type", "name"),
    ("samples", "number"),
    ("share", "number"),
    ("confidence", "number"),
)


def picture(result: LiveObjects, limit: int | None) -> Picture:
    of = f" in {clean(result.function)}" if result.function else ""
    return live_picture(
        result,
        limit,
        title=f"Which data is waited for{of}",
        panels=(Panel("share of the time waited for memory", "%", ("samples",)),),
        bar=_bar,
        columns=COLUMNS,
        numbers_of=_numbers,
        group="kind of object",
    )


def _bar(row: LiveObjectRow) -> BarRow:
    return BarRow(
        label=clean(row.object) + (f"  {clean(row.type)}" if row.type else ""),
        group=clean(row.kind),
        values=((row.share,),),
        details=(
            ("samples", f"{row.sampled:,} ({row.share:.2%})"),
            ("sure", f"{row.confidence:.0%}"),
        ),
    )


def _numbers(row: LiveObjectRow) -> tuple[str, ...]:
    return (
        clean(row.object),
        clean(row.kind),
        clean(row.type),
        f"{row.sampled:,}",
        f"{row.share:.2%}",
        f"{row.confidence:.0%}",
    )
