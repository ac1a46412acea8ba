# SPDX-License-Identifier: Apache-2.0
"""Overhead against the frequency of switching, with intervals, from many short windows.

A window on a machine that others use too is off by several percent, now and then by far more. The
median of hundreds is not; its interval comes from the binomial distribution, whatever that of the
windows is. Each switch does the same work, so overhead is the cost of one times their number, and
what counting at all costs: a line, fitted to the medians, each weighted by how sure it is.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
RESAMPLES = 1000


@dataclass(frozen=True)
class CostRow:
    frequency: float  # asked for
    switches: float  # a second of the program's processor time
    overhead: float  # median, share of the processor time without switches
    low: float
    high: float
    windows: int


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SwitchingCost:
    rows: list[CostRow]
    seconds: Estimate  # that one switch costs
    counting: Estimate  # share of the time that counting costs without any
    under: Estimate  # switches a second at which all of it costs `limit`
    limit: float


Windows = dict[float, list[tuple[float, float]]]  # by frequency: switches a second, overhead


def switching_cost(
    windows: Sequence[tuple[float, float, float]], limit: float = 0.02
) -> SwitchingCost:
    """`windows`: frequency asked for, switches a second done, overhead."""
    by: Windows = {}
    for frequency, switches, overhead in windows:
        by.setdefault(frequency, []).append((switches, overhead))
    rows = [_row(frequency, by[frequency]) for frequency in sorted(by)]
    widths = {row.frequency: max(row.high - row.low, 1e-9) for row in rows}
    draw = random.Random(1)
    drawn = [
        _line({f: draw.choices(found, k=len(found)) for f, found in by.items()}, widths, limit)
        for _ in range(RESAMPLES)
    ]
    out = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    estimates = []
    for value, values in zip(_line(by, widths, limit), zip(*drawn, strict=True), strict=True):
        ordered = sorted(values)
        estimates.append(Estimate(value, ordered[out], ordered[-1 - out]))
    seconds, counting, under = estimates
    return SwitchingCost(rows, seconds, counting, under, limit)


def _row(frequency: float, found: Sequence[tuple[float, float]]) -> CostRow:
    overheads = sorted(overhead for _, overhead in found)
    out = _left_out(len(overheads))
    return CostRow(
        frequency=frequency,
        switches=statistics.median(switches for switches, _ in found),
        overhead=statistics.median(overheads),
        low=overheads[out],
        high=overheads[-1 - out],
        windows=len(overheads),
    )


def _left_out(number: int) -> int:
    """How many of the smallest and of the largest values lie outside the median's interval: so many
    that fewer tosses of a coin are heads with a chance of less than half of what is left over."""
    ways = 0
    for heads in range(number):
        ways += math.comb(number, heads)
        if 2 * ways > (1 - CONFIDENCE) * 2**number:
            return max(0, heads - 1)
    return 0


def _line(by: Windows, widths: dict[float, float], limit: float) -> tuple[float, float, float]:
    """Cost of a switch, cost of none, and the switches that cost the limit."""
    points = [
        (
            widths[frequency] ** -2,
            statistics.median(switches for switches, _ in found),
            statistics.median(overhead for _, overhead in found),
        )
        for frequency, found in by.items()
    ]
    weight = sum(w for w, _, _ in points)
    middle_x = sum(w * x for w, x, _ in points) / weight
    middle_y = sum(w * y for w, _, y in points) / weight
    spread = sum(w * (x - middle_x) ** 2 for w, x, _ in points)
    slope = sum(w * (x - middle_x) * (y - middle_y) for w, x, y in points) / spread if spread else 0
    none = middle_y - slope * middle_x
    return slope, none, (limit - none) / slope if slope > 0 else math.inf
