# SPDX-License-Identifier: Apache-2.0
"""The axis that bars stand on: from zero to a little beyond the longest, with round ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stallscope.views.plots.picture import Bars, Panel
from stallscope.views.terminal.text import amount


@dataclass(frozen=True)
class Scale:
    end: float
    ticks: tuple[float, ...]
    unit: str

    def text(self, tick: float) -> str:
        if self.unit != "%":
            return amount(tick)
        return f"{tick * 100:g}%"

    def part(self, value: float) -> float:
        """Of the axis' length."""
        return min(max(value / self.end, 0.0), 1.0)


def scale(bars: Bars, number: int) -> Scale:
    panel = bars.panels[number]
    longest = max((_length(panel, row.values[number]) for row in bars.rows), default=0.0)
    if panel.unit == "%":
        longest = min(longest, 1.0)
    if longest <= 0:
        longest = 1.0
    step = _round_step(longest / 4)
    count = math.ceil(longest / step - 1e-9)
    ticks = tuple(round(i * step, 12) for i in range(count + 1))
    return Scale(ticks[-1], ticks, panel.unit)


def _length(panel: Panel, values: tuple[float, ...]) -> float:
    return sum(values) if panel.stacked else max(values)


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * (1 - 1e-9))
