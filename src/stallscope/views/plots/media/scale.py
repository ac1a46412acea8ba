# SPDX-License-Identifier: Apache-2.0
"""The axis that bars stand on: from zero to a little beyond the longest, with round ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stallscope.views.plots.picture import Bars, Lines, Panel
from stallscope.views.terminal.text import amount, size


@dataclass(frozen=True)
class Scale:
    end: float
    ticks: tuple[float, ...]
    unit: str
    begin: float = 0.0  # more than that: equal ratios are equally long

    def text(self, tick: float) -> str:
        if self.unit == "bytes":
            return size(tick)
        if self.unit == "CPI":
            return f"{tick:g}"
        if self.unit != "%":
            return amount(tick)
        return f"{tick * 100:g}%"

    def part(self, value: float) -> float:
        """Of the axis' length."""
        if self.begin:
            value = max(value, self.begin)
            return min(math.log(value / self.begin) / math.log(self.end / self.begin), 1.0)
        return min(max(value / self.end, 0.0), 1.0)


def scale(bars: Bars, number: int) -> Scale:
    panel = bars.panels[number]
    longest = max((_length(panel, row.values[number]) for row in bars.rows), default=0.0)
    if panel.unit == "%":
        longest = min(longest, 1.0)
    return scale_to(longest, panel.unit)


def scale_to(longest: float, unit: str) -> Scale:
    """From zero to this, or a little beyond."""
    if longest <= 0:
        longest = 1.0
    one = 1.0
    if unit == "bytes":  # round numbers of MiB, not of millions
        one = max(float(1 << power) for power in (0, 10, 20, 30) if 1 << power <= max(1, longest))
    step = _round_step(longest / one / 4) * one
    count = math.ceil(longest / step - 1e-9)
    ticks = tuple(round(i * step, 12) for i in range(count + 1))
    return Scale(ticks[-1], ticks, unit)


def scales(chart: Lines) -> tuple[Scale, Scale]:
    """Across and up."""
    points = [point for line in chart.lines for point in line.points]
    longest = max((x for x, _ in points), default=0.0)
    up = scale_to(max((y for _, y in points), default=0.0), chart.y_unit)
    if not chart.doubling:
        return scale_to(longest, chart.x_unit), up
    return _doubling(min((x for x, _ in points), default=1.0), longest, chart.x_unit), up


def _doubling(shortest: float, longest: float, unit: str) -> Scale:
    """From one power of two to another, with a tick at some of them."""
    first = math.floor(math.log2(max(shortest, 1.0)))
    last = max(first + 1, math.ceil(math.log2(max(longest, 1.0))))
    step = math.ceil((last - first) / 12)
    return Scale(
        2.0**last, tuple(2.0**p for p in range(first, last + 1, step)), unit, begin=2.0**first
    )


def _length(panel: Panel, values: tuple[float, ...]) -> float:
    return sum(values) if panel.stacked else max(values)


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * (1 - 1e-9))
