# SPDX-License-Identifier: Apache-2.0
"""A matrix of small grey cells on a page of page.py: a drawing that grows with the page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from stallscope.views.plots.picture import Matrix

WIDTH, NAMES, ROW = 1000, 140, 14


def matrix(chart: Matrix) -> Iterator[str]:
    cell = (WIDTH - NAMES) / chart.columns
    parts: list[str] = []
    y = 0.0
    for number, row in enumerate(chart.rows):
        if number and chart.rows[number - 1].group != row.group:
            y += ROW / 2
        place = f'x="{NAMES - 8}" y="{y + ROW - 3:g}" text-anchor="end"'
        parts.append(f"<text {place}>{escape(row.label)}</text>")
        for column, dark in row.cells:
            grey = round(217 * (1 - dark))
            parts.append(
                f'<rect x="{NAMES + column * cell:.2f}" y="{y + 1:g}" width="{cell:.2f}" '
                f'height="{ROW - 2}" fill="rgb({grey},{grey},{grey})"/>'
            )
        y += ROW
    yield f'<figure class="axis" aria-label="{escape(chart.columns_are)}">'
    yield f'<svg viewBox="0 0 {WIDTH} {y + 24:g}" aria-hidden="true">'
    yield from parts
    yield f'<text x="{NAMES}" y="{y + 18:g}">{escape(chart.columns_are)}</text>'
    yield "</svg></figure>\n"
