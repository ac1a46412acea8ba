# SPDX-License-Identifier: Apache-2.0
"""Where a program waits and where it spends its time, as bars."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from stallscope.views.plots.live import live_picture
from stallscope.views.plots.picture import BarRow, Panel, Picture
from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.live import LivePlaceRow, LivePlaces

DRAWS = "LivePlaces"
COLUMNS = (
    ("function", "name"),
    ("file", "name"),
    ("line", "number"),
    ("waiting", "number"),
    ("share of waiting", "number"),
    ("samples", "number"),
    ("share of time", "number"),
)


def picture(result: LivePlaces, limit: int | None) -> Picture:
    on = f" for {clean(result.object)}" if result.object else ""
    return live_picture(
        result,
        limit,
        title=f"Which {clean(result.by)}s wait for memory{on}",
        panels=(
            Panel("share of the time waited for memory", "%", ("waiting",)),
            Panel("share of all time", "%", ("time",)),
        ),
        bar=_bar,
        columns=COLUMNS,
        numbers_of=_numbers,
    )


def _bar(row: LivePlaceRow) -> BarRow:
    file = clean(PurePath(row.file).name)
    place = f"{file}:{row.line}" if row.line else file
    return BarRow(
        label=clean(row.function) + (f"  {place}" if place else ""),
        group="code",
        values=((row.share,), (row.time_share,)),
        details=(
            ("waiting", f"{row.sampled:,} ({row.share:.2%})"),
            ("samples", f"{row.samples:,} ({row.time_share:.2%})"),
            ("file", clean(row.file) or "unknown"),
        ),
    )


def _numbers(row: LivePlaceRow) -> tuple[str, ...]:
    return (
        clean(row.function),
        clean(row.file),
        str(row.line or ""),
        f"{row.sampled:,}",
        f"{row.share:.2%}",
        f"{row.samples:,}",
        f"{row.time_share:.2%}",
    )
