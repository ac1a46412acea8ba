# SPDX-License-Identifier: Apache-2.0
"""A matrix of small grey cells on a sheet of static.py."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from matplotlib.patches import Rectangle

from stallscope.views.plots.media import palette

if TYPE_CHECKING:
    from stallscope.views.plots.picture import Matrix

ROW = 15  # height
NAMES = 150  # width
BELOW = 40


def height(chart: Matrix) -> float:
    groups = sum(a.group != b.group for a, b in pairwise(chart.rows))
    return ROW * (len(chart.rows) + groups / 2) + BELOW


def matrix(sheet: Any, chart: Matrix, place: tuple[float, float]) -> None:
    """`place`: the left edge and the width, in pixels."""
    edge, room = place
    left, width = edge + NAMES, room - NAMES
    cell, tall = width / chart.columns, height(chart) - BELOW
    axes = sheet.axes(left, sheet.y, width, tall)
    y = 0.0
    for number, row in enumerate(chart.rows):
        if number and chart.rows[number - 1].group != row.group:
            axes.plot([0, width], [y + ROW / 4, y + ROW / 4], color=palette.LINE, lw=0.8)
            y += ROW / 2
        sheet.text(left - 8, sheet.y + y + ROW - 4, row.label, align="right", room=NAMES - 8)
        for column, dark in row.cells:
            axes.add_patch(
                Rectangle((column * cell, y + 1), cell, ROW - 2, lw=0, color=str(0.85 * (1 - dark)))
            )
        y += ROW
    sheet.text(left, sheet.y + tall + 22, chart.columns_are, colour=palette.DIM)
    sheet.y += tall + BELOW
