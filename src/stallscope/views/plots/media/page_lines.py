# SPDX-License-Identifier: Apache-2.0
"""Lines over a common axis on a page of page.py: a drawing that grows with the page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from stallscope.views.plots.media import palette
from stallscope.views.plots.media.scale import Scale, scales
from stallscope.views.plots.picture import Lines

WIDTH, HEIGHT = 1000, 400
LEFT, TOP, RIGHT, BOTTOM = 84, 30, 980, 350


def lines(chart: Lines) -> Iterator[str]:
    across, up = scales(chart)
    colours = palette.colours(line.name for line in chart.lines)
    yield '<ul class="legend" aria-label="what the colours mean">'
    for name, colour in colours.items():
        swatch = f'<rect width="100%" height="11" y="1" fill="{colour}"/>'
        yield f'<li><svg aria-hidden="true">{swatch}</svg>{escape(name)}</li>'
    yield "</ul>\n"
    yield '<figure class="axis" aria-label="lines; the table below has the same numbers">'
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
    yield from _axes(chart, across, up)
    for line in chart.lines:
        shape = " ".join(f"{_x(across, x):.2f},{_y(up, y):.2f}" for x, y in line.points)
        dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
        yield f'<polyline points="{shape}" fill="none" stroke="{colours[line.name]}" '
        yield f'stroke-width="2"{dashes}><title>{escape(line.name)}</title></polyline>'
    yield "</svg></figure>\n"


def _x(scale: Scale, value: float) -> float:
    return LEFT + (RIGHT - LEFT) * scale.part(value)


def _y(scale: Scale, value: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * scale.part(value)


def _axes(chart: Lines, across: Scale, up: Scale) -> Iterator[str]:
    for tick in up.ticks:
        y = f"{_y(up, tick):.2f}"
        yield f'<line class="tick" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 8}" y="{y}" text-anchor="end">{escape(up.text(tick))}</text>'
    for tick in across.ticks:
        x = f"{_x(across, tick):.2f}"
        yield f'<line class="tick" x1="{x}" x2="{x}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>'
        text = escape(across.text(tick))
        yield f'<text x="{x}" y="{BOTTOM + 18}" text-anchor="middle">{text}</text>'
    said = escape(f"{chart.y_axis} [{chart.y_unit}]")
    yield f'<text x="{LEFT}" y="{TOP - 12}">{said}</text>'
    said = escape(f"{chart.x_axis} [{chart.x_unit}]")
    yield f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 38}" text-anchor="middle">{said}</text>'
    for where, name in chart.marks:
        at = _x(across, where)
        side, shift = ("end", -6) if at > (LEFT + RIGHT) / 2 else ("start", 6)
        yield f'<line x1="{at:.2f}" x2="{at:.2f}" y1="{TOP}" y2="{BOTTOM}" '
        yield f'stroke="{palette.FRAME}" stroke-dasharray="6 4"/>'
        yield f'<text x="{at + shift:.2f}" y="{TOP + 12}" text-anchor="{side}">'
        yield f"{escape(name)}</text>"
