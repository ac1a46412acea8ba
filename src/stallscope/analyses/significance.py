# SPDX-License-Identifier: Apache-2.0
"""How sure a difference is: tails of distributions, corrections for many comparisons, intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

_STEPS = 300
_CLOSE = 1e-14
_TINY = 1e-300
_ROUNDS = 8
_WITHIN_TWO = 0.7737413  # variance of a normal value that lies within two standard deviations


def normal_tail(z: float) -> float:
    """Of both sides: the probability of a value further from 0 than this."""
    return math.erfc(abs(z) / math.sqrt(2))


def student_tail(t: float, degrees: float) -> float:
    """The same for Student's distribution."""
    if degrees <= 0:
        return 1.0
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


def normal_score(t: float, degrees: float) -> float:
    """The normal value that is as far out as this one of Student's distribution (Wallace 1959)."""
    if math.isinf(degrees):
        return t
    root = math.sqrt(degrees * math.log1p(t * t / degrees))
    return math.copysign((8 * degrees + 1) / (8 * degrees + 3) * root, t)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized one, by its continued fraction (Lentz's way of computing it)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return front * value


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def holm(values: Sequence[float]) -> list[float]:
    """Probabilities corrected so that any one below a limit comes by chance at most as often as the
    limit says, however many there are (Holm 1979)."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    corrected, largest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, values[index] * (len(values) - rank)))
        corrected[index] = largest
    return corrected


def benjamini_hochberg(values: Sequence[float]) -> list[float]:
    """Probabilities corrected so that, of those below a limit, that part comes by chance
    (Benjamini and Hochberg 1995)."""
    order = sorted(range(len(values)), key=lambda i: -values[i])
    corrected, least = [0.0] * len(values), 1.0
    for rank, index in enumerate(order):
        least = min(least, values[index] * len(values) / (len(values) - rank))
        corrected[index] = least
    return corrected


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return 0.0
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def spread(values: Sequence[float]) -> float:
    """A standard deviation that a tenth of outliers hardly changes."""
    centre = median(values)
    return 1.4826 * median([abs(value - centre) for value in values])


def middle_spread(values: Sequence[float]) -> float:
    """A standard deviation around 0 from values within two of it: a tenth of outliers changes it
    less than they change a median."""
    found = spread(values)
    for _ in range(_ROUNDS):
        inner = [value * value for value in values if abs(value) < 2 * found]
        if not inner:
            return found
        found = math.sqrt(sum(inner) / len(inner) / _WITHIN_TWO)
    return found


def mean_interval(
    values: Sequence[float], confidence: float = 0.95, rounds: int = 1000, seed: int = 1
) -> tuple[float, float]:
    """Of the mean, by drawing the values again and again (Efron's bootstrap)."""
    if not values:
        return (0.0, 0.0)
    draw, count = random.Random(seed), len(values)
    means = sorted(sum(draw.choices(values, k=count)) / count for _ in range(rounds))
    cut = (1 - confidence) / 2
    return (means[int(cut * rounds)], means[min(rounds - 1, int((1 - cut) * rounds))])
