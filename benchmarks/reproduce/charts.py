# SPDX-License-Identifier: Apache-2.0
"""The few kinds of pictures that a page needs and the verbs do not draw: groups of bars, curves.
The same numbers give the same file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from stallscope.views.plots.media import palette

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")
MARKS = "os^Dv*P"
WIDTH, DOTS = 9.0, 100


def bars(
    path: Path, title: str, axis: str, groups: Mapping[str, Sequence[float]], series: Sequence[str]
) -> None:
    """A group of horizontal bars for each label, one bar a series; a bar begins at 0."""
    with matplotlib.rc_context():
        figure = _figure(0.9 + 0.14 * len(groups) * (len(series) + 0.8))
        axes = figure.add_subplot()
        step = len(series) + 0.8
        for number, name in enumerate(series):
            places = [-group * step - number for group in range(len(groups))]
            values = [values[number] for values in groups.values()]
            axes.barh(places, values, height=0.85, color=COLOURS[number], label=name)
        middle = (len(series) - 1) / 2
        axes.set_yticks([-group * step - middle for group in range(len(groups))], list(groups))
        axes.margins(y=0.01)
        _finish(figure, axes, title, axis, path)


def curves(
    path: Path,
    title: str,
    axis: str,
    across: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    linear: bool = False,
) -> None:
    """Both axes logarithmic, what is not above 0 left out; `linear`: upwards from 0."""
    with matplotlib.rc_context():
        figure = _figure(4.6)
        axes = figure.add_subplot()
        for number, (name, points) in enumerate(lines.items()):
            kept = [point for point in points if point[1] > 0]
            axes.plot(
                [x for x, _ in kept],
                [y for _, y in kept],
                marker=MARKS[number % len(MARKS)],
                color=COLOURS[number % len(COLOURS)],
                label=name,
            )
        axes.set_xscale("log")
        if linear:
            axes.set_ylim(bottom=0)
        else:
            axes.set_yscale("log")
        for scale in (axes.xaxis,) if linear else (axes.xaxis, axes.yaxis):
            scale.set_major_formatter(lambda value, _: _plain(value))
            scale.set_minor_formatter(NullFormatter())
        axes.set_ylabel(axis)
        _finish(figure, axes, title, across, path)


def _plain(value: float) -> str:
    """1,000 or 0.001, in full."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.6f}".rstrip("0")


def _figure(height: float) -> Figure:
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"font.size": 9, "text.parse_math": False})
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS, facecolor=palette.PAPER)
    FigureCanvasAgg(figure)
    return figure


def _finish(figure: Figure, axes: object, title: str, across: str, path: Path) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    axes.set_title(title, loc="left", weight="bold")
    axes.set_xlabel(across)
    axes.grid(color=palette.LINE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})
