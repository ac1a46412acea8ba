# SPDX-License-Identifier: Apache-2.0
"""A picture as one page that needs nothing else: no network, no script, no library.

What is pointed at or reached with the tab key tells its numbers; below is a table of all of them.
The page's own rules let nothing run and nothing load, so a name could not act even if it were no
text; widths are attributes of drawings and colours are classes, which such rules allow.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape

from stallscope.views.plots.media import page_lines, page_matrix, palette
from stallscope.views.plots.media.scale import Scale, scale
from stallscope.views.plots.picture import (
    BarRow,
    Bars,
    Cell,
    HeatMap,
    Lines,
    Matrix,
    Numbers,
    Picture,
    value_text,
)

LONGEST = 400  # letters of a name in the picture
LONGEST_CELL = 2000  # in the table
STYLE = f"""
* {{ box-sizing: border-box; }}
body {{ margin: 1.5rem auto; padding: 0 1.5rem; max-width: 75rem; color: {palette.INK};
  background: {palette.PAPER}; font: 15px/1.4 system-ui, sans-serif; }}
h1 {{ font-size: 1.35rem; margin: 0; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.1rem; margin: 1.6rem 0 .2rem; }}
.facts {{ color: {palette.DIM}; margin: .2rem 0 1rem; }}
.facts li {{ display: inline; }} .facts li + li::before {{ content: " · "; }}
ul, ol {{ list-style: none; padding: 0; margin: 0; }}
.legend {{ display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin-bottom: .6rem; }}
.legend svg {{ width: 1.6rem; height: .8rem; margin-right: .35rem; }}
.panels {{ display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 2rem; }}
.axis text {{ font-size: 12px; fill: {palette.DIM}; }}
.axis p {{ margin: 0; font-weight: 600; }}
figure {{ margin: 0; }} figure > .panels {{ padding: 0 .3rem; }}
svg {{ display: block; width: 100%; overflow: visible; }}
.legend svg, .bar svg {{ display: inline-block; vertical-align: middle; }}
.tick {{ stroke: {palette.LINE}; }}
.row {{ position: relative; padding: .25rem .3rem; border-top: 1px solid #eeeeee; }}
.row:hover, .row:focus {{ background: #f3f6fa; outline: 2px solid #0072b2; z-index: 1; }}
.name {{ overflow-wrap: anywhere; }}
.bar {{ display: grid; grid-template-columns: 1fr 4rem; gap: .4rem; align-items: center;
  font-size: 13px; line-height: 15px; }}
.bar span {{ font-variant-numeric: tabular-nums; }}
.tip {{ display: none; position: absolute; z-index: 2; top: 100%; left: 1rem; max-width: 40rem;
  width: max-content; padding: .4rem .7rem; background: {palette.INK}; color: {palette.PAPER};
  border-radius: 4px; font-size: 13px; text-align: left; overflow-wrap: anywhere; }}
.tip b {{ font-weight: 600; }} .tip i {{ font-style: normal; color: #c9d6e3; }}
:hover > .tip, :focus > .tip {{ display: block; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 14px; }}
caption {{ text-align: left; font-weight: 600; padding: .3rem 0; }}
th, td {{ padding: .2rem .5rem; text-align: left; vertical-align: top; }}
thead th {{ border-bottom: 2px solid {palette.LINE}; }}
.all td {{ border-bottom: 1px solid #eeeeee; }} .all th {{ white-space: nowrap; }}
.all .number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.all .name {{ min-width: 4rem; max-width: 30rem; }} .all .name:first-child {{ min-width: 14rem; }}
.heat {{ font-size: 13px; }}
.heat td {{ position: relative; min-width: 3.1rem; height: 2.4rem; text-align: center;
  vertical-align: middle; border: 1px solid {palette.PAPER}; }}
.heat tbody th {{ vertical-align: middle; font-weight: 400; max-width: 26rem;
  overflow-wrap: anywhere; }}
.heat thead th {{ text-align: center; vertical-align: bottom; border: 0; }}
.heat thead th:first-child {{ text-align: left; }}
.heat .self {{ outline: 3px solid {palette.FRAME}; outline-offset: -3px; }}
.heat .none {{ color: #767676; }}
.right > .tip {{ left: auto; right: 0; }}
.key {{ display: flex; flex-wrap: wrap; align-items: center; gap: .4rem; color: {palette.DIM};
  font-size: 13px; margin: .4rem 0; }}
.key svg {{ width: 12rem; height: .9rem; display: inline-block; }}
.key .frame {{ display: inline-block; width: 1.2rem; height: .9rem;
  border: 3px solid {palette.FRAME}; }}
summary {{ cursor: pointer; font-weight: 600; margin: 1.5rem 0 .4rem; }}
""" + "".join(
    f".h{number} {{ background: {palette.ramp(number)}; color: {palette.ink_on(number)}; }}\n"
    for number in range(palette.STEPS + 1)
)


def draw(picture: Picture, suffix: str) -> bytes:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'sha256-{digest}'"
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n',
        '<meta name="viewport" content="width=device-width">\n',
        f"<title>{escape(picture.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        f"<main>\n<h1>{escape(picture.title)}</h1>\n",
        _list("facts", picture.facts),
        *_charts(picture),
        *(f"<p>{escape(note)}</p>\n" for note in picture.notes),
        *_numbers(picture.numbers),
        "</main>\n</body>\n</html>\n",
    ]
    return "".join(parts).encode()


def _list(name: str, items: Iterable[str]) -> str:
    return f'<ul class="{name}">' + "".join(f"<li>{escape(i)}</li>" for i in items) + "</ul>\n"


def _charts(picture: Picture) -> Iterator[str]:
    for chart in picture.charts:
        if isinstance(chart, HeatMap):
            yield from _heat_map(chart)
        elif isinstance(chart, Matrix):
            yield from page_matrix.matrix(chart)
        elif isinstance(chart, Lines):
            if chart.title:
                yield _heading(chart.title, chart.facts)
            yield from page_lines.lines(chart)
        elif chart.rows:
            yield from _bars(chart)
    if not any(isinstance(c, HeatMap) or c.rows for c in picture.charts):
        yield f"<p>{escape(picture.empty)}</p>\n"


def _heading(title: str, facts: str) -> str:
    return f'<h2>{escape(title)}</h2>\n<p class="facts">{escape(facts)}</p>\n'


def _bars(bars: Bars) -> Iterator[str]:
    colours = palette.colours(row.group for row in bars.rows)
    scales = [scale(bars, number) for number in range(len(bars.panels))]
    if bars.title:
        yield _heading(bars.title, bars.facts)
    yield from _legend(bars, colours)
    yield '<figure class="chart" aria-label="bars; the table below has the same numbers">\n'
    yield '<div class="panels">'
    for panel, axis in zip(bars.panels, scales, strict=True):
        yield f'<div class="axis"><p>{escape(panel.axis)}{_unit(axis)}</p>{_axis(axis)}</div>'
    yield "</div>\n<ol>\n"
    for row in bars.rows:
        yield from _row(bars, row, scales, colours)
    yield "</ol>\n</figure>\n"


def _unit(axis: Scale) -> str:
    return f" [{escape(axis.unit)}]"


def _axis(axis: Scale) -> str:
    marks = "".join(
        f'<line class="tick" x1="{place}" x2="{place}" y1="15" y2="20"/><text x="{place}" y="12" '
        f'text-anchor="{"middle" if tick else "start"}">{escape(axis.text(tick))}</text>'
        for tick in axis.ticks
        for place in (f"{axis.part(tick):.2%}",)
    )
    return f'<div class="bar"><svg height="20" aria-hidden="true">{marks}</svg></div>'


def _rect(x: float, width: float, colours: tuple[str, str]) -> str:
    fill, line = colours
    return (
        f'<rect x="{x:.3%}" width="{width:.3%}" height="11" y="1" fill="{fill}" stroke="{line}"/>'
    )


def _row(bars: Bars, row: BarRow, scales: list[Scale], colours: dict[str, str]) -> Iterator[str]:
    said = "; ".join(f"{name} {value}" for name, value in row.details)
    yield f'<li class="row" tabindex="0" aria-label="{escape(_cut(row.label))}: {escape(said)}">'
    yield f'<div class="name">{escape(_cut(row.label))}</div><div class="panels">'
    fills = palette.fills(bars, colours[row.group])
    for panel, axis, values, series in zip(bars.panels, scales, row.values, fills, strict=True):
        yield "<div>"
        if panel.stacked:
            yield _stack(values, axis, series)
        else:
            for value, fill in zip(values, series, strict=True):
                yield _bar(_rect(0, axis.part(value), fill), value_text(value, axis.unit))
        yield "</div>"
    yield f"</div>{_tip(row.label, row.details)}</li>\n"


def _bar(shape: str, text: str) -> str:
    drawn = f'<svg height="13" aria-hidden="true">{shape}</svg>'
    return f'<div class="bar">{drawn}<span>{escape(text)}</span></div>'


def _stack(values: tuple[float, ...], axis: Scale, series: list[tuple[str, str]]) -> str:
    shapes, begin = "", 0.0
    for value, fill in zip(values, series, strict=True):
        shapes += _rect(axis.part(begin), axis.part(value), fill)
        begin += value
    return _bar(shapes, value_text(begin, axis.unit))


def _tip(label: str, details: tuple[tuple[str, str], ...]) -> str:
    lines = "".join(f"<br><i>{escape(name)}</i> {escape(value)}" for name, value in details)
    head = f"<b>{escape(_cut(label))}</b>" if label else ""
    return f'<span class="tip" aria-hidden="true">{head}{lines}</span>'


def _cut(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def _legend(bars: Bars, colours: dict[str, str]) -> Iterator[str]:
    yield '<ul class="legend" aria-label="what the colours mean">'
    if bars.group:
        yield f"<li>{escape(bars.group)}:</li>"
    for name, fill in palette.legend(bars, colours):
        yield f'<li><svg aria-hidden="true">{_rect(0, 1, fill)}</svg>{escape(name)}</li>'
    yield "</ul>\n"


def _heat_map(chart: HeatMap) -> Iterator[str]:
    yield _heading(chart.title, chart.facts)
    yield from _key(chart)
    yield '<table class="heat">\n<caption>'  # nothing around it that would cut off what pops up
    yield f"rows: {escape(chart.rows_are)}; columns, numbered like the rows: "
    yield escape(chart.columns_are)
    yield '</caption>\n<thead><tr><th scope="col">'
    yield f"{escape(chart.rows_are)}</th>"
    for number, label in enumerate(chart.labels, 1):
        shown = escape(_cut(label))
        yield f'<th scope="col" aria-label="{shown}" title="{shown}">{number}</th>'
    for name, _ in chart.margins:
        yield f'<th scope="col">{escape(name)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for number, (label, cells) in enumerate(zip(chart.labels, chart.cells, strict=True)):
        yield f'<tr><th scope="row">{number + 1}&ensp;{escape(_cut(label))}</th>'
        for column, cell in enumerate(cells):
            yield _cell(cell, number == column, column >= len(cells) / 2)
        for _, texts in chart.margins:
            yield f"<td>{escape(texts[number])}</td>"
        yield "</tr>\n"
    yield "</tbody>\n</table>\n"


def _cell(cell: Cell | None, on_diagonal: bool, right: bool) -> str:
    mark = " self" if on_diagonal else ""
    if cell is None:
        return f'<td class="none{mark}">·</td>'
    side = " right" if right else ""
    step = palette.step(cell.share)
    tip = _tip("", cell.details).replace("<br>", "", 1)
    return f'<td class="h{step}{mark}{side}">{_share(cell.share)}{tip}</td>'


def _share(share: float) -> str:
    return "&lt;1%" if 0 < share < 0.005 else f"{share:.0%}"


def _key(chart: HeatMap) -> Iterator[str]:
    width = 1 / (palette.STEPS + 1)
    steps = "".join(
        f'<rect x="{number * width:.3%}" width="{width:.3%}" height="100%" '
        f'fill="{palette.ramp(number)}"/>'
        for number in range(palette.STEPS + 1)
    )
    yield f'<div class="key">{escape(chart.share_is)}: 0% <svg aria-hidden="true">{steps}</svg>'
    yield f' 100% &emsp;<span class="frame"></span> {escape(chart.diagonal_is)}</div>\n'


def _numbers(numbers: Numbers) -> Iterator[str]:
    count = len(numbers.rows) + numbers.left_out
    yield f"<details open><summary>All numbers: {count:,} rows</summary>\n"
    yield '<div class="scroll"><table class="all">\n<thead><tr>'
    classes = [f' class="{kind}"' for _, kind in numbers.columns]
    for (name, _), kind in zip(numbers.columns, classes, strict=True):
        yield f'<th scope="col"{kind}>{escape(name)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for row in numbers.rows:
        cells = zip(row, classes, strict=True)
        shown = (f"<td{kind}>{escape(_cut(text, LONGEST_CELL))}</td>" for text, kind in cells)
        yield f"<tr>{''.join(shown)}</tr>\n"
    yield "</tbody>\n</table></div>\n"
    if numbers.left_out:
        yield f"<p>{numbers.left_out:,} more rows are left out; --json and --csv have all.</p>\n"
    yield "</details>\n"
