# SPDX-License-Identifier: Apache-2.0
"""What programs that share memory have and miss over time, in each way of sharing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import BarRow, Bars, Line, Lines, Panel, Picture, numbers
from stallscope.views.terminal.text import amount, clean, size

if TYPE_CHECKING:
    from stallscope.analyses.page_allocation import AllocationRow, PageAllocation

DRAWS = "PageAllocation"
COLUMNS = (
    ("sharing", "word"),
    ("program", "name"),
    ("memory", "number"),
    ("misses", "number"),
    ("per million cycles", "number"),
    ("time, cycles", "number"),
)


def picture(result: PageAllocation, limit: int | None) -> Picture:
    return Picture(
        title=f"Programs that share {size(result.memory_bytes)}",
        facts=(*map(clean, result.recordings), f"{amount(result.latency)} cycles a fault"),
        charts=(_sums(result), *_over_time(result)),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
    )


def _label(sharing: str, adapts: bool) -> str:
    if sharing == "global":
        return sharing
    return f"{sharing}, every epoch" if adapts else f"{sharing}, limits"


def _sums(result: PageAllocation) -> Bars:
    return Bars(
        panels=(
            Panel("projected time of all", "cycles", ("time",)),
            Panel("misses of all", "misses", ("misses",)),
        ),
        rows=tuple(
            BarRow(
                f"{_label(row.sharing, row.adapts)}  {row.gain:+.1%}",
                "code",
                ((row.projected_time,), (row.misses,)),
            )
            for row in result.sharings
        ),
        title="In all",
        facts="against global LRU",
    )


def _over_time(result: PageAllocation) -> list[Lines]:
    charts = []
    for sharing in dict.fromkeys(row.sharing for row in result.epochs):
        has: dict[str, list[tuple[float, float]]] = {}
        for row in result.epochs:
            if row.sharing == sharing:
                point = (row.epoch, row.pages * result.page_size)
                has.setdefault(clean(row.program), []).append(point)
        charts.append(
            Lines(
                x_axis="time",
                x_unit="epochs",
                y_axis="memory",
                y_unit="bytes",
                lines=tuple(Line(name, tuple(points)) for name, points in has.items()),
                title=sharing,
                facts=f"epochs of {amount(result.epoch)} references",
            )
        )
    return charts


def _numbers(row: AllocationRow) -> tuple[str, ...]:
    return (
        _label(row.sharing, row.adapts),
        clean(row.program),
        size(row.bytes),
        f"{row.misses:,}",
        f"{row.miss_rate:,.2f}",
        amount(row.projected_time),
    )
