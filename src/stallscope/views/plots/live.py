# SPDX-License-Identifier: Apache-2.0
"""What pictures of samples share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
from stallscope.views.terminal.live import STATES
from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.live import LiveObjects, LivePlaces


def live_picture(
    result: LiveObjects | LivePlaces,
    limit: int | None,
    *,
    title: str,
    panels: tuple[Panel, ...],
    bar: Callable[[Any], BarRow],
    columns: tuple[tuple[str, str], ...],
    numbers_of: Callable[[Any], tuple[str, ...]],
    group: str = "",
) -> Picture:
    most, least = rows_shown(limit)
    rows: list[Any] = [row for row in result.rows if row.share >= least][:most]
    states = [f"{row.share:.1%} {STATES[row.state]}" for row in result.states if row.samples]
    return Picture(
        title=f"{title}: {recording_name(result.recording)}",
        facts=(
            f"source {clean(result.source)}",
            f"{result.samples:,} samples",
            *states,
            *scope_facts(result),
        ),
        charts=(Bars(panels=panels, rows=tuple(bar(row) for row in rows), group=group),),
        numbers=numbers(columns, [numbers_of(row) for row in result.rows]),
        empty="no sample waits for memory",
    )
