# SPDX-License-Identifier: Apache-2.0
"""From reuse times that were only partly seen to how many would be missed: the arithmetic.

A reuse time that was not seen to its end is known to be longer than that (censored). Because how
long we wait does not depend on what we wait for, the product-limit estimate (Kaplan and Meier 1958)
needs nothing else to be right. The step from reuse times to misses is the average eviction time of
Hu et al. (2016): a cache of c granules keeps one untouched for T where the mean number of distinct
granules touched in T is c, and a touch misses when its granule was away for longer.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    length: float  # or, when it is open, how long it was seen to last
    is_open: bool
    weight: float = 1.0


@dataclass(frozen=True)
class Survival:
    """The share of reuse times that are longer than t: 1 before the first step, and falling."""

    times: tuple[float, ...]
    shares: tuple[float, ...]  # from that time on

    def at(self, time: float) -> float:
        step = bisect.bisect_right(self.times, time)
        return self.shares[step - 1] if step else 1.0

    def shortest(self, share: float) -> float | None:
        """The time that this share of reuses is not longer than; None: longer than was seen."""
        for time, longer in zip(self.times, self.shares, strict=True):
            if longer <= 1 - share + 1e-12:
                return time
        return None


def product_limit(intervals: Iterable[Interval], never: float = 0.0) -> Survival:
    """`never` is the share of which only is known that it is longer than all that was seen."""
    ordered = sorted(intervals, key=lambda i: (i.length, i.is_open))
    at_risk = math.fsum(i.weight for i in ordered)
    share = 1.0
    steps: dict[float, float] = {}  # the last share of each time
    for interval in ordered:
        if not interval.is_open and at_risk > 0:
            share *= max(0.0, 1 - interval.weight / at_risk)
            steps[interval.length] = never + (1 - never) * share
        at_risk -= interval.weight
    return Survival(tuple(steps), tuple(steps.values()))


def mixture(parts: Sequence[tuple[float, Survival]]) -> Survival:
    """Of several groups, each with its weight."""
    whole = math.fsum(weight for weight, _ in parts)
    falls: list[tuple[float, float]] = []
    for weight, part in parts:
        before = 1.0
        for time, share in zip(part.times, part.shares, strict=True):
            falls.append((time, (before - share) * weight / whole))
            before = share
    share = 1.0
    steps: dict[float, float] = {}
    for time, fall in sorted(falls):
        share = max(0.0, share - fall)
        steps[time] = share
    return Survival(tuple(steps), tuple(steps.values()))


def inverse_chances(waited: Sequence[float], allowed: Sequence[float]) -> list[float]:
    """How many each of those stands for whose touch came after `waited`: one over the share of all
    watches that would have waited so long."""
    ordered = sorted(allowed)
    weights = []
    for time in waited:
        longer = len(ordered) - bisect.bisect_left(ordered, time)
        weights.append(len(ordered) / max(1, longer))
    return weights


def filled_after(survival: Survival, rate: float, longest: float) -> list[tuple[float, float]]:
    """(granules touched, time) at every step of the survival, up to `longest`; `rate` is touches
    for each unit of time."""
    filled, before, share = 0.0, 0.0, 1.0
    points = [(0.0, 0.0)]
    for time, after in zip(survival.times, survival.shares, strict=True):
        if time > longest:
            break
        filled += rate * share * (time - before)
        points.append((filled, time))
        before, share = time, after
    if longest > before:
        points.append((filled + rate * share * (longest - before), longest))
    return points


def evicted_after(points: Sequence[tuple[float, float]], granules: float) -> float | None:
    """How long a cache of so many keeps one that is not touched; None: longer than was seen."""
    at = bisect.bisect_left(points, (granules, -1.0))
    if at == len(points):
        return None
    if at == 0:
        return points[0][1]
    (filled, time), (next_filled, next_time) = points[at - 1], points[at]
    if next_filled <= filled:
        return next_time
    return time + (next_time - time) * (granules - filled) / (next_filled - filled)
