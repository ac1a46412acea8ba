# SPDX-License-Identifier: Apache-2.0
"""Lines over a common axis on a sheet of static.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stallscope.views.plots.media import palette
from stallscope.views.plots.media.scale import scales

if TYPE_CHECKING:
    from stallscope.views.plots.picture import Lines

HEIGHT = 430  # with legend and axes
PLOT = 310
LEFT = 76  # width of the numbers beside the vertical axis
DASHES = (6.0, 4.0)


def lines(
    sheet: Any, chart: Lines, number: int, colours: dict[str, str], place: tuple[float, float]
) -> None:
    """`place`: the left edge and the width, in pixels."""
    edge, room = place
    left, width, top = edge + LEFT, room - LEFT - 30, sheet.y + 60
    across, up = scales(chart)
    sheet.text(edge, top - 18, f"{chart.y_axis} [{chart.y_unit}]", weight="bold")
    axes = sheet.axes(left, top, width, PLOT)
    for tick in up.ticks:
        y = PLOT * (1 - up.part(tick))
        axes.plot([0, width], [y, y], color=palette.LINE, lw=0.8, clip_on=False)
        words = {"colour": palette.DIM, "align": "right", "room": LEFT}
        sheet.text(left - 8, top + y + 4, up.text(tick), **words)
    for tick in across.ticks:
        x = width * across.part(tick)
        axes.plot([x, x], [PLOT, PLOT + 5], color=palette.DIM, lw=0.8, clip_on=False)
        words = {"colour": palette.DIM, "align": "center", "room": 90}
        sheet.text(left + x, top + PLOT + 20, across.text(tick), **words)
    title = f"{chart.x_axis} [{chart.x_unit}]"
    sheet.text(left + width / 2, top + PLOT + 42, title, weight="bold", align="center", room=width)
    for where, name in chart.marks:
        x = width * across.part(where)
        axes.plot([x, x], [0, PLOT], color=palette.FRAME, lw=1.2, dashes=DASHES)
        side = "right" if x > width / 2 else "left"
        shift = -6 if side == "right" else 6
        sheet.text(left + x + shift, top + 12, name, colour=palette.FRAME, align=side, room=300)
    for index, line in enumerate(chart.lines):
        axes.plot(
            [width * across.part(x) for x, _ in line.points],
            [PLOT * (1 - up.part(y)) for _, y in line.points],
            color=colours[line.name],
            lw=1.8,
            marker="o" if len(line.points) <= 24 else "",
            markersize=4,
            clip_on=False,
            gid=f"line-{number}-{index}",
            **({"dashes": DASHES} if line.dashed else {}),
        )
    sheet.y = top + PLOT + 60
