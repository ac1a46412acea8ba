# SPDX-License-Identifier: Apache-2.0
"""What is to be seen in a picture, whatever it is drawn with: text, bars, a heat map, a table.

All text is clean here: nothing in a name can steer a terminal, a page or a drawing library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from stallscope.views.terminal.text import amount, clean

ROWS = 20  # when not told how many
MOST_ROWS = 100  # of bars; more would be no picture
CELLS = 12  # rows and columns of a heat map when not told how many
MOST_CELLS = 24
LEAST = 0.001  # a smaller share than this has no bar of its own, unless rows are asked for
TABLE_ROWS = 2000  # of the numbers below the picture on a page
OTHERS = "others"  # the group of what is added up


@dataclass(frozen=True)
class Panel:
    """Bars that share an axis, one for each series and row."""

    axis: str  # what it shows
    unit: str  # "%" for shares, else a noun
    series: tuple[str, ...]
    stacked: bool = False  # series on top of each other, coloured by series and not by group


@dataclass(frozen=True)
class BarRow:
    label: str
    group: str  # decides the colour
    values: tuple[tuple[float, ...], ...]  # by panel and series
    details: tuple[tuple[str, str], ...] = ()  # shown when pointed at


@dataclass(frozen=True)
class Bars:
    panels: tuple[Panel, ...]
    rows: tuple[BarRow, ...]
    group: str = ""  # what the colours stand for; empty when there is only one
    title: str = ""  # where a picture has several charts
    facts: str = ""


@dataclass(frozen=True)
class Cell:
    share: float  # of its row
    details: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HeatMap:
    """Rows and columns have the same labels in the same order."""

    title: str
    facts: str
    rows_are: str
    columns_are: str
    labels: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]  # None: never
    margins: tuple[tuple[str, tuple[str, ...]], ...]  # what else is known of the rows
    share_is: str
    diagonal_is: str


@dataclass(frozen=True)
class Line:
    name: str
    points: tuple[tuple[float, float], ...]  # by x
    dashed: bool = False


@dataclass(frozen=True)
class Lines:
    """Lines over a common axis: from zero, both ways, unless its ratios are what counts."""

    x_axis: str
    x_unit: str  # "bytes", else a noun
    y_axis: str
    y_unit: str  # "%", "bytes", else a noun
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, str], ...] = ()  # places on the x axis that have a name
    doubling: bool = False  # the x axis: each power of two is as far from the next
    title: str = ""  # where a picture has several charts
    facts: str = ""

    @property
    def rows(self) -> tuple[Line, ...]:
        """What there is to draw."""
        return self.lines


@dataclass(frozen=True)
class MatrixRow:
    label: str
    group: str  # rows of one group stand together
    cells: tuple[tuple[int, float], ...]  # columns that are not white, and how dark they are


@dataclass(frozen=True)
class Matrix:
    """Small grey cells, darker where there is more."""

    columns: int
    columns_are: str
    rows: tuple[MatrixRow, ...]
    title: str = ""
    facts: str = ""


@dataclass(frozen=True)
class Numbers:
    """The same as a table, with cells as people read them."""

    columns: tuple[tuple[str, str], ...]  # and what is in them: name, word or number
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


@dataclass(frozen=True)
class Picture:
    title: str
    facts: tuple[str, ...]
    charts: tuple[Bars | HeatMap | Lines | Matrix, ...]
    numbers: Numbers
    notes: tuple[str, ...] = field(default=())
    empty: str = "there is nothing to show"


POINTS = 400  # of a line; more could not be seen


def spread(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """As many of them as can be seen; where the line falls or rises most they stay."""
    if len(points) <= POINTS:
        return tuple(points)
    last = len(points) - 1
    even = {round(i * last / (POINTS // 2)) for i in range(POINTS // 2 + 1)}
    steps = sorted(range(1, last + 1), key=lambda i: -abs(points[i][1] - points[i - 1][1]))
    steep = {place for i in steps[: POINTS // 4] for place in (i - 1, i)}
    return tuple(points[i] for i in sorted(even | steep))


def value_text(value: float, unit: str) -> str:
    if unit == "CPI":
        return f"{value:.2f}"
    return f"{value:.1%}" if unit == "%" else amount(value)


def recording_name(path: str) -> str:
    return clean(PurePath(path).name)


def scope_facts(result: Any) -> tuple[str, ...]:
    """What of the recording the numbers are about, when that is not one whole run."""
    count, region = len(result.processes), getattr(result, "region", None)
    facts = [f"region {clean(region)}"] if region else []
    return (*facts, f"{count} processes together") if count > 1 else tuple(facts)


def numbers(columns: Sequence[tuple[str, str]], rows: Sequence[tuple[str, ...]]) -> Numbers:
    shown = tuple(rows[:TABLE_ROWS])
    return Numbers(tuple(columns), shown, len(rows) - len(shown))


def rows_shown(limit: int | None) -> tuple[int, float]:
    """How many bars, and what a bar must at least come to."""
    return (ROWS, LEAST) if limit is None else (min(limit or MOST_ROWS, MOST_ROWS), 0.0)


def cells_shown(limit: int | None) -> tuple[int, float]:
    """How many rows and columns, and what they must at least come to."""
    return (CELLS, LEAST) if limit is None else (min(limit or MOST_CELLS, MOST_CELLS), 0.0)
