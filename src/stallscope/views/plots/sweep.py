# SPDX-License-Identifier: Apache-2.0
"""A sweep: misses of each level along a parameter, and the designs by size and speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import Line, Lines, Picture, numbers, recording_name, spread
from stallscope.views.terminal.sweep import design_text
from stallscope.views.terminal.text import clean, size

if TYPE_CHECKING:
    from stallscope.analyses.sweep import DesignRow, Sweep

DRAWS = "Sweep"
CURVES = 12  # of a level, when not told how many
COLUMNS = (("design", "name"), ("caches", "number"), ("cycles an access", "number"))


def picture(result: Sweep, limit: int | None) -> Picture:
    names = ", ".join(recording_name(path) for path in result.recordings)
    along = result.axis()
    return Picture(
        title=f"Misses by design: {names}",
        facts=(f"{len(result.designs):,} designs", *_best(result)),
        charts=(
            *(_surface(result, level, along, limit) for level in result.changing() if along),
            *_front(result),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.designs]),
        notes=(f"{result.failed:,} cells have no numbers.",) if result.failed else (),
        empty="no design could be simulated",
    )


def _best(result: Sweep) -> tuple[str, ...]:
    return (f"best: {design_text(result.best)}",) if result.best else ()


def _surface(result: Sweep, level: str, along: str, limit: int | None) -> Lines:
    curves = result.curves(level)
    shown = curves[: CURVES if limit is None else limit or None]
    more = len(curves) - len(shown)
    return Lines(
        x_axis=clean(along),
        x_unit="bytes" if along.endswith(".size") else clean(along.rpartition(".")[2]),
        y_axis="misses",
        y_unit="misses",
        lines=tuple(Line(clean(curve.name), spread(curve.points)) for curve in shown),
        doubling=True,
        title=clean(level),
        facts=f"{more:,} more lines are not drawn" if more else "",
    )


def _front(result: Sweep) -> tuple[Lines, ...]:
    front = sorted((row.bytes, row.latency) for row in result.designs if row.frontier)
    if len(front) < 2:
        return ()
    everything = sorted((row.bytes, row.latency) for row in result.designs)
    marks = ((float(result.best.bytes), "best"),) if result.best else ()
    return (
        Lines(
            x_axis="all caches",
            x_unit="bytes",
            y_axis="mean time of an access",
            y_unit="cycles",
            lines=(
                Line("none is smaller and faster", spread(front)),
                Line("every design", spread(everything), dashed=True),
            ),
            marks=marks,
            doubling=True,
            title="What size buys",
        ),
    )


def _numbers(row: DesignRow) -> tuple[str, ...]:
    return (design_text(row), size(row.bytes), f"{row.latency:.2f}")
