# SPDX-License-Identifier: Apache-2.0
"""Projected time under each replacement policy, over the size of memory or beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import (
    BarRow,
    Bars,
    Line,
    Lines,
    Panel,
    Picture,
    numbers,
    recording_name,
)
from stallscope.views.terminal.text import amount, size

if TYPE_CHECKING:
    from stallscope.analyses.page_replacement import PageReplacement, PolicyRow

DRAWS = "PageReplacement"
COLUMNS = (
    ("memory", "number"),
    ("policy", "word"),
    ("misses", "number"),
    ("projected time, cycles", "number"),
)


def picture(result: PageReplacement, limit: int | None) -> Picture:
    sizes = sorted({row.memory for row in result.rows})
    return Picture(
        title=f"Replacement policies: {recording_name(result.recording)}",
        facts=(
            f"footprint {size(result.footprint_pages * result.page_size)}",
            f"{amount(result.references)} references",
            f"{amount(result.latency)} cycles a fault",
        ),
        charts=(_bars(result) if len(sizes) == 1 else _lines(result),),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
    )


def _bars(result: PageReplacement) -> Bars:
    return Bars(
        panels=(
            Panel("misses", "misses", ("misses",)),
            Panel("projected time", "cycles", ("time",)),
        ),
        rows=tuple(
            BarRow(row.policy, "code", ((row.misses,), (row.projected_time,)))
            for row in result.rows
        ),
    )


def _lines(result: PageReplacement) -> Lines:
    points: dict[str, list[tuple[float, float]]] = {}
    for row in result.rows:
        points.setdefault(row.policy, []).append((row.memory_bytes, row.projected_time))
    return Lines(
        x_axis="memory",
        x_unit="bytes",
        y_axis="projected time",
        y_unit="cycles",
        lines=tuple(
            Line(policy, tuple(sorted(of)), dashed=policy == "belady")
            for policy, of in points.items()
        ),
    )


def _numbers(row: PolicyRow) -> tuple[str, ...]:
    return (size(row.memory_bytes), row.policy, f"{row.misses:,}", amount(row.projected_time))
