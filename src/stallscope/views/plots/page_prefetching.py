# SPDX-License-Identifier: Apache-2.0
"""Faults and I/O with each prefetcher, over the size of memory or beside each other."""

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
    from stallscope.analyses.page_prefetching import PagePrefetching, PrefetchRow

DRAWS = "PagePrefetching"
COLUMNS = (
    ("memory", "number"),
    ("prefetcher", "word"),
    ("faults", "number"),
    ("removed", "number"),
    ("precision", "number"),
    ("pages in", "number"),
    ("pages out", "number"),
)


def picture(result: PagePrefetching, limit: int | None) -> Picture:
    several = len({row.memory for row in result.rows}) > 1
    return Picture(
        title=f"Prefetching pages: {recording_name(result.recording)}",
        facts=(
            f"footprint {size(result.footprint_pages * result.page_size)}",
            f"{amount(result.references)} references",
        ),
        charts=(
            _lines(result, "faults", "faults"),
            _lines(result, "pages read", "pages_in"),
            _lines(result, "pages written", "pages_out"),
        )
        if several
        else (_bars(result),),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
    )


def _bars(result: PagePrefetching) -> Bars:
    return Bars(
        panels=(
            Panel("faults", "faults", ("faults",)),
            Panel("pages read and written", "pages", ("in", "out"), stacked=True),
        ),
        rows=tuple(
            BarRow(row.prefetcher, "code", ((row.faults,), (row.pages_in, row.pages_out)))
            for row in result.rows
        ),
    )


def _lines(result: PagePrefetching, axis: str, field: str) -> Lines:
    points: dict[str, list[tuple[float, float]]] = {}
    for row in result.rows:
        points.setdefault(row.prefetcher, []).append((row.memory_bytes, getattr(row, field)))
    return Lines(
        x_axis="memory",
        x_unit="bytes",
        y_axis=axis,
        y_unit="pages",
        lines=tuple(Line(name, tuple(sorted(of))) for name, of in points.items()),
        title=axis,
    )


def _numbers(row: PrefetchRow) -> tuple[str, ...]:
    return (
        size(row.memory_bytes),
        row.prefetcher,
        f"{row.faults:,}",
        f"{row.faults_removed:.2%}",
        f"{row.precision:.2%}",
        f"{row.pages_in:,}",
        f"{row.pages_out:,}",
    )
