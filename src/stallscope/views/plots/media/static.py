# SPDX-License-Identifier: Apache-2.0
"""A picture as PNG or SVG, with matplotlib and without a display.

The same picture is the same file, byte for byte: no dates, no random ids. Text becomes outlines, so
that it looks the same where fonts differ. Formulas are off: a dollar sign is a dollar sign.
"""

from __future__ import annotations

import functools
import io
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.patches import Rectangle

from stallscope.views.plots.media import palette, static_lines, static_matrix
from stallscope.views.plots.media.scale import scale
from stallscope.views.plots.picture import Bars, HeatMap, Lines, Matrix, Picture, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS = 100  # an inch
WIDTH = 1200
EDGE = 24
FONT = "DejaVu Sans"  # comes with matplotlib
HEAD = 84  # title, facts
HEADING = 36  # of a chart among several
BETWEEN = 24  # charts
NOTE = 20
LABEL, BAR, GAP = 20, 13, 10  # heights of a row's parts
NAMES = 450  # width of the names beside a heat map
MARGIN = 116  # width of what stands beside a heat map
TEXT = 9.5  # points
SETTINGS: dict[Any, Any] = {
    "font.family": FONT,
    "font.size": TEXT,
    "svg.fonttype": "path",
    "svg.hashsalt": "stallscope",
    "text.parse_math": False,
    "text.usetex": False,
    "text.color": palette.INK,
    "path.sketch": None,
    "savefig.bbox": None,
}


def draw(picture: Picture, suffix: str) -> bytes:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user has set for other programs
        matplotlib.rcParams.update(SETTINGS)
        return _file(_Sheet(picture), picture, suffix)


def _file(sheet: _Sheet, picture: Picture, suffix: str) -> bytes:
    out = io.BytesIO()
    if suffix == ".png":
        sheet.figure.savefig(
            out,
            format="png",
            dpi=DOTS,
            metadata={"Title": picture.title},
            pil_kwargs={"optimize": True},
        )
        return out.getvalue()
    told = {"Title": picture.title, "Date": None, "Creator": "stallscope"}
    sheet.figure.savefig(out, format="svg", dpi=DOTS, metadata=told)
    # Readers of screens hear what the outlines of letters do not tell.
    spoken = quoteattr(". ".join((picture.title, *picture.facts)))
    return out.getvalue().replace(b"<svg ", f'<svg role="img" aria-label={spoken} '.encode(), 1)


class _Sheet:
    """A figure whose parts are placed from the top down, in pixels."""

    def __init__(self, picture: Picture) -> None:
        charts = [c for c in picture.charts if isinstance(c, HeatMap) or c.rows]
        inside = sum(map(_height, charts)) + BETWEEN * len(charts[1:])
        self.height = HEAD + EDGE + (inside or 60) + NOTE * len(picture.notes)
        self.figure = Figure(
            figsize=(WIDTH / DOTS, self.height / DOTS), dpi=DOTS, facecolor=palette.PAPER
        )
        FigureCanvasAgg(self.figure)
        self.y = 0.0
        self.text(EDGE, 30, picture.title, size=14, weight="bold")
        self.text(EDGE, 54, " · ".join(picture.facts), colour=palette.DIM)
        self.y = HEAD
        for number, chart in enumerate(charts):
            self.y += BETWEEN if number else 0
            if isinstance(chart, HeatMap):
                _heat_map(self, chart, number)
            elif isinstance(chart, Lines):
                _lines(self, chart, number)
            elif isinstance(chart, Matrix):
                static_matrix.matrix(self, chart, (EDGE, WIDTH - 2 * EDGE))
            else:
                _bars(self, chart)
        if not charts:
            self.text(EDGE, self.y + 20, picture.empty)
            self.y += 60
        for note in picture.notes:
            self.y += NOTE
            self.text(EDGE, self.y, note, colour=palette.DIM)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = TEXT,
        weight: str = "normal",
        colour: str = palette.INK,
        align: str = "left",
        room: float | None = None,
        name: str | None = None,
    ) -> None:
        fitting = _fit(_drawable(text), WIDTH - EDGE - x if room is None else room, size, weight)
        self.figure.text(
            x / WIDTH,
            1 - y / self.height,
            fitting,
            size=size,
            weight=weight,
            color=colour,
            ha=align,
            va="baseline",
            gid=name,
        )

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes whose units are pixels, counted from their left upper corner."""
        place = (x / WIDTH, 1 - (y + height) / self.height, width / WIDTH, height / self.height)
        axes = self.figure.add_axes(place)
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        return axes


def _height(chart: Bars | HeatMap | Lines | Matrix) -> float:
    if isinstance(chart, Matrix):
        return static_matrix.height(chart)
    if isinstance(chart, Lines):
        return (HEADING if chart.title else 0) + static_lines.HEIGHT
    if isinstance(chart, HeatMap):
        return 88 + _cell_size(chart) * len(chart.labels) + 36
    return (HEADING if chart.title else 0) + _above(chart) + _row_height(chart) * len(chart.rows)


def _heading(sheet: _Sheet, chart: Bars | HeatMap | Lines) -> None:
    sheet.text(EDGE, sheet.y + 18, chart.title, size=12, weight="bold")
    x = EDGE + _width(_drawable(chart.title), 12, "bold") + 24
    sheet.text(x, sheet.y + 18, chart.facts, colour=palette.DIM)


def _lines(sheet: _Sheet, chart: Lines, number: int) -> None:
    if chart.title:
        _heading(sheet, chart)
        sheet.y += HEADING
    colours = palette.colours(line.name for line in chart.lines)
    _legend(sheet, "", [(name, (colour, colour)) for name, colour in colours.items()])
    static_lines.lines(sheet, chart, number, colours, (EDGE, WIDTH - 2 * EDGE))


# --- bars


def _above(chart: Bars) -> float:
    """Height of the legend, where there is one, and the axes."""
    groups = palette.colours(row.group for row in chart.rows)
    return 84 if chart.group or palette.legend(chart, groups) else 48


def _row_height(chart: Bars) -> float:
    lines = max(1 if panel.stacked else len(panel.series) for panel in chart.panels)
    return LABEL + BAR * lines + GAP


def _bars(sheet: _Sheet, chart: Bars) -> None:
    if chart.title:
        _heading(sheet, chart)
        sheet.y += HEADING
    groups = palette.colours(row.group for row in chart.rows)
    _legend(sheet, chart.group, palette.legend(chart, groups))
    top, row_height = sheet.y + _above(chart), _row_height(chart)
    columns = len(chart.panels)
    width = (WIDTH - 2 * EDGE - 40 * (columns - 1)) / columns
    for number, row in enumerate(chart.rows):
        sheet.text(EDGE, top + number * row_height + 14, row.label, name=f"label-{number}")
    for panel in range(columns):
        left = EDGE + panel * (width + 40)
        _panel(sheet, chart, panel, (left, top, width, row_height * len(chart.rows)), groups)
    sheet.y = top + row_height * len(chart.rows)


def _legend(sheet: _Sheet, title: str, entries: list[tuple[str, palette.Fill]]) -> None:
    x = float(EDGE)
    axes = sheet.axes(0, sheet.y, WIDTH, 24)
    if title:
        sheet.text(x, sheet.y + 15, f"{title}:")
        x += _width(f"{title}:", TEXT, "normal") + 16
    for name, (fill, line) in entries:
        axes.add_patch(Rectangle((x, 4), 22, 12, facecolor=fill, edgecolor=line))
        sheet.text(x + 28, sheet.y + 15, name)
        x += 28 + _width(name, TEXT, "normal") + 24


def _panel(
    sheet: _Sheet,
    chart: Bars,
    number: int,
    place: tuple[float, float, float, float],
    groups: dict[str, str],
) -> None:
    left, top, width, height = place
    panel, axis = chart.panels[number], scale(chart, number)
    room = width - 56  # beside the bars stand their numbers
    sheet.text(left, top - 32, f"{panel.axis} [{panel.unit}]", weight="bold", room=width)
    axes = sheet.axes(left, top, width, height)
    row_height = _row_height(chart)
    for tick in axis.ticks:
        x = axis.part(tick) * room
        for row in range(len(chart.rows)):  # not through the labels
            begin = row * row_height + LABEL
            axes.plot([x, x], [begin, begin + row_height - LABEL - 4], color=palette.LINE, lw=0.8)
        align = "left" if tick == 0 else "center"
        sheet.text(left + x, top - 8, axis.text(tick), colour=palette.DIM, align=align, room=80)
    for row, entry in enumerate(chart.rows):
        y, begin = row * row_height + LABEL, 0.0
        fills = palette.fills(chart, groups[entry.group])[number]
        for series, value in enumerate(entry.values[number]):
            fill, line = fills[series]
            axes.add_patch(
                Rectangle(
                    (axis.part(begin) * room, y),
                    axis.part(value) * room,
                    BAR - 2,
                    facecolor=fill,
                    edgecolor=line,
                    lw=0.8,
                    zorder=3,
                    gid=f"bar-{number}-{series}-{row}",
                )
            )
            if panel.stacked:
                begin += value
            if not panel.stacked or series == len(panel.series) - 1:
                end = axis.part(begin if panel.stacked else value) * room
                shown = value_text(begin if panel.stacked else value, panel.unit)
                sheet.text(left + end + 5, top + y + BAR - 3, shown, size=8.5, room=60)
            y += 0 if panel.stacked else BAR


# --- heat map


def _cell_size(chart: HeatMap) -> float:
    room = WIDTH - 2 * EDGE - NAMES - MARGIN * len(chart.margins) - 14
    return min(54.0, room / len(chart.labels))


def _heat_map(sheet: _Sheet, chart: HeatMap, chart_number: int) -> None:
    side, count = _cell_size(chart), len(chart.labels)
    _heading(sheet, chart)
    top = sheet.y + 88
    sheet.text(EDGE, top - 8, f"{chart.rows_are} (rows)", weight="bold")
    sheet.text(EDGE + NAMES, top - 30, f"{chart.columns_are} (columns)", weight="bold")
    right = EDGE + NAMES + side * count + 14
    for number, (name, _) in enumerate(chart.margins):
        sheet.text(right + number * MARGIN, top - 30, name, weight="bold", size=8.5)
    axes = sheet.axes(EDGE + NAMES, top, side * count, side * count)
    for row, label in enumerate(chart.labels):
        middle = top + (row + 0.5) * side
        sheet.text(EDGE, middle + 4, f"{row + 1}", weight="bold")
        _label(sheet, EDGE + 26, middle, label, NAMES - 34, side, row)
        x = EDGE + NAMES + (row + 0.5) * side
        sheet.text(x, top - 8, f"{row + 1}", weight="bold", align="center", room=60)
        for number, (_, texts) in enumerate(chart.margins):
            sheet.text(right + number * MARGIN, middle + 4, texts[row], room=80)
        _cells(axes, chart, chart_number, row, side)
    for number in range(count):
        axes.add_patch(
            Rectangle(
                (number * side + 1.5, number * side + 1.5),
                side - 3,
                side - 3,
                fill=False,
                edgecolor=palette.FRAME,
                lw=2,
                zorder=4,
                clip_on=False,
                gid=f"self-{chart_number}-{number}",
            )
        )
    _key(sheet, chart, top + side * count + 12)
    sheet.y = top + side * count + 36


def _label(
    sheet: _Sheet, x: float, middle: float, label: str, room: float, side: float, row: int
) -> None:
    """On two lines where there is room for them and one is not enough."""
    text = _drawable(label)
    if _width(text, TEXT, "normal") <= room or side < 30:
        sheet.text(x, middle + 4, label, room=room, name=f"row-{row}")
        return
    first = _beginning(text, room)
    sheet.text(x, middle - 3, first, room=room + 20, name=f"row-{row}")
    sheet.text(x, middle + 11, text[len(first) :].lstrip(), room=room)


def _cells(axes: Axes, chart: HeatMap, chart_number: int, row: int, side: float) -> None:
    for column, cell in enumerate(chart.cells[row]):
        step = 0 if cell is None else palette.step(cell.share)
        axes.add_patch(
            Rectangle(
                (column * side, row * side),
                side,
                side,
                facecolor="#f2f2f2" if cell is None else palette.ramp(step),
                edgecolor=palette.PAPER,
                lw=1,
                gid=f"cell-{chart_number}-{row}-{column}",
            )
        )
        if cell is not None and side >= 30:
            shown = "<1%" if 0 < cell.share < 0.005 else f"{cell.share:.0%}"
            axes.text(
                (column + 0.5) * side,
                (row + 0.5) * side,
                shown,
                color=palette.ink_on(step),
                size=8.5,
                ha="center",
                va="center",
            )


def _key(sheet: _Sheet, chart: HeatMap, y: float) -> None:
    axes = sheet.axes(EDGE, y, WIDTH - 2 * EDGE, 16)
    said = f"{chart.share_is}: 0%"
    x = _width(said, TEXT, "normal") + 8
    sheet.text(EDGE, y + 12, said, colour=palette.DIM)
    for number in range(palette.STEPS + 1):
        axes.add_patch(Rectangle((x + number * 8, 1), 8, 13, facecolor=palette.ramp(number)))
    x += 8 * (palette.STEPS + 1) + 6
    sheet.text(EDGE + x, y + 12, "100%", colour=palette.DIM)
    x += 70
    axes.add_patch(Rectangle((x, 2), 18, 11, fill=False, edgecolor=palette.FRAME, lw=2))
    sheet.text(EDGE + x + 26, y + 12, chart.diagonal_is, colour=palette.DIM)


# --- text that fits


@functools.cache
def _font(weight: str) -> FT2Font:
    return FT2Font(findfont(FontProperties(family=FONT, weight=weight)))


@functools.cache
def _letters() -> frozenset[int]:
    return frozenset(_font("normal").get_charmap())


def _drawable(text: str) -> str:
    """Letters that the font lacks are shown by their number."""
    return "".join(c if ord(c) in _letters() else ascii(c)[1:-1] for c in text)


@functools.lru_cache(4096)
def _width(text: str, size: float, weight: str) -> float:
    """In pixels."""
    font = _font(weight)
    font.set_size(size, DOTS)
    font.set_text(text, 0.0)
    return font.get_width_height()[0] / 64


def _fit(text: str, room: float, size: float, weight: str) -> str:
    """The text, or its beginning and end with the middle left out."""
    if _width(text, size, weight) <= room:
        return text
    low, high = 0, min(len(text), 1000)
    while low < high:
        kept = (low + high + 1) // 2
        if _width(_middle_out(text, kept), size, weight) <= room:
            low = kept
        else:
            high = kept - 1
    return _middle_out(text, low)


def _middle_out(text: str, kept: int) -> str:
    tail = kept // 3
    return f"{text[: kept - tail]} … {text[len(text) - tail :]}"


def _beginning(text: str, room: float) -> str:
    """As much as fits on a line, up to the end of a word where there is one."""
    count = len(text)
    while count > 1 and _width(text[:count], TEXT, "normal") > room:
        count = min(count - 1, int(count * room / _width(text[:count], TEXT, "normal")))
    space = text.rfind(" ", 0, count)
    return text[: space if space > count // 2 else count]
