# SPDX-License-Identifier: Apache-2.0
"""From counts of some slices to counts of whole rounds.

linear          what was counted, times the cycles of the round over those that were counted
interpolation   rates between the slices that were counted, on a straight line
invariants      a slice that was not counted is taken to be like those that were counted near it and
                ran alike: cycles and instructions are known of every slice, so their ratio tells
                which phase it is in. How near and how alike is chosen for each event by what
                predicts its own slices best. Then parts and wholes that belong together are brought
                into line, what is least certain giving way most

Every estimate has an interval: from how far each counted slice lies from what the others let one
expect, as if the error were the same in all slices of a round.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NAMES = ("invariants", "linear", "interpolation")
Z95 = 1.96
NEAR = 4  # rounds on both sides that tell how certain a round is
LEVEL = 40  # the same, whose counts must come out right together
WINDOW = 6  # counted slices on both sides that are looked at
# How far they reach, in rounds, and how unlike they may be, in usual steps of instructions a cycle.
CHOICES = ((0.5, 1.0), (0.5, 4.0), (0.5, 1e6), (2.0, 0.5), (2.0, 1.0), (2.0, 4.0), (8.0, 1.0))
# What adds up: a whole, and its parts (True: all of them; False: there are others too).
INVARIANTS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("cycles", ("completion_cycles", "stall_cycles"), True),
    (
        "stall_cycles",
        (
            "stall_data_cache",
            "stall_translation",
            "stall_rejection",
            "stall_load_store",
            "stall_fpu",
            "stall_iu",
            "stall_other",
            "stall_branch_mispredict",
            "stall_inst_cache",
        ),
        True,
    ),
    ("stall_cycles", ("empty_cycles",), False),
    ("mispredicts", ("direction_mispredicts", "target_mispredicts"), True),
    ("l1d_load_misses", ("from_l2", "from_l3", "from_memory"), True),
    ("loads", ("l1d_load_misses",), False),
    ("stores", ("l1d_store_misses",), False),
    ("branches", ("conditional_branches", "calls", "returns"), False),
    ("branches", ("taken_branches",), False),
    ("branches", ("mispredicts",), False),
    ("erat_misses", ("tlb_misses",), False),
    ("icache_lines", ("icache_misses",), False),
    ("reissues", ("rejections",), False),
    (
        "micro_operations",
        ("iu_operations", "fpu_operations", "lsu_operations", "bu_operations"),
        False,
    ),
)


@dataclass
class Estimate:
    """Of one event, by round; with the variance of each round's."""

    rounds: list[float]
    variances: list[float]

    def total(self) -> float:
        return sum(self.rounds)

    def half_width(self) -> float:
        """Of the 95% interval of the total."""
        return Z95 * math.sqrt(sum(self.variances))


@dataclass(frozen=True)
class Seen:
    """One event: in which slices it was counted, and what came out."""

    slices: list[int]
    counts: list[float]


def estimate(
    name: str,
    seen: Mapping[str, Seen],
    exposures: Mapping[str, Sequence[float]],
    per_round: int,
) -> dict[str, Estimate]:
    """`exposures`: cycles and instructions of every slice. `per_round`: slices in a round."""
    if name == "linear":
        return {event: _linear(one, exposures["cycles"], per_round) for event, one in seen.items()}
    if name == "interpolation":
        return {event: _between(one, exposures["cycles"], per_round) for event, one in seen.items()}
    found = {event: _Alike(one, exposures, per_round).estimate() for event, one in seen.items()}
    _reconcile(found, exposures, per_round)
    return found


def _linear(one: Seen, cycles: Sequence[float], per_round: int) -> Estimate:
    rounds = len(cycles) // per_round
    counted = [0.0] * rounds
    over = [0.0] * rounds
    for at, count in zip(one.slices, one.counts, strict=True):
        counted[at // per_round] += count
        over[at // per_round] += cycles[at]
    whole = [sum(cycles[i * per_round : (i + 1) * per_round]) for i in range(rounds)]
    usual = sum(counted) / sum(over) if sum(over) else 0.0  # where nothing at all was seen
    rates = [c / o if o else usual for c, o in zip(counted, over, strict=True)]
    made = [rate * length for rate, length in zip(rates, whole, strict=True)]
    # Between neighbours, half the squared difference is the variance of a slice's rate.
    steps = [(b - a) ** 2 / 2 for a, b in itertools.pairwise(rates)]
    variance = sum(steps) / len(steps) if steps else 0.0
    left = [length - o for length, o in zip(whole, over, strict=True)]
    return Estimate(
        made,
        [
            variance * part * length + _poisson(rate, part)
            for part, length, rate in zip(left, whole, rates, strict=True)
        ],
    )


def _poisson(rate: float, over: float) -> float:
    """Of what was not counted: that much it varies at least."""
    return rate * over


def _rates(one: Seen, exposure: Sequence[float]) -> list[float]:
    return [
        count / exposure[at] if exposure[at] else 0.0
        for at, count in zip(one.slices, one.counts, strict=True)
    ]


def _left_out(one: Seen, rates: Sequence[float], exposure: Sequence[float]) -> list[float]:
    """How far each counted slice lies from the line between its neighbours, in counts."""
    found = []
    for i in range(1, len(rates) - 1):
        before, at, after = one.slices[i - 1], one.slices[i], one.slices[i + 1]
        share = (at - before) / (after - before)
        expected = rates[i - 1] * (1 - share) + rates[i + 1] * share
        found.append((rates[i] - expected) * exposure[at])
    return found


def _local(one: Seen, errors: Sequence[float], per_round: int, rounds: int) -> list[float]:
    """Mean squared error of a slice, by round: of the slices around it, and a little of all."""
    if not errors:
        return [0.0] * rounds
    everywhere = sum(e * e for e in errors) / len(errors)
    sums, counts = [0.0] * rounds, [0] * rounds
    for at, error in zip(one.slices, errors, strict=True):
        sums[at // per_round] += error * error
        counts[at // per_round] += 1
    found = []
    for i in range(rounds):
        near = range(max(0, i - NEAR), min(rounds, i + NEAR + 1))
        count = sum(counts[k] for k in near)
        mean = sum(sums[k] for k in near) / count if count else everywhere
        found.append(0.85 * mean + 0.15 * everywhere)
    return found


def _levelled(values: Sequence[float], level: Sequence[float]) -> list[float]:
    """Rounds with the shape of one estimate and the level of another. Expecting what is usual
    misses bursts; over many rounds that must not add up."""
    found = []
    for i, value in enumerate(values):
        window = slice(max(0, i - LEVEL), i + LEVEL + 1)
        below = sum(values[window])
        found.append(value * min(5.0, sum(level[window]) / below) if below > 0 else level[i])
    return found


def _made(
    one: Seen, expected: Sequence[float], errors: Sequence[float], per_round: int
) -> Estimate:
    """From what every slice is expected to have, and how far off that was where it is known."""
    rounds = len(expected) // per_round
    values = list(expected)
    for at, count in zip(one.slices, one.counts, strict=True):
        values[at] = count
    seen = [0] * rounds
    for at in one.slices:
        seen[at // per_round] += 1
    local = _local(one, errors, per_round, rounds)
    made, variances = [], []
    for i in range(rounds):
        made.append(sum(values[i * per_round : (i + 1) * per_round]))
        missing = per_round - seen[i]
        variances.append(local[i] * missing * per_round + _poisson(made[i] / per_round, missing))
    return Estimate(made, variances)


def _between(one: Seen, cycles: Sequence[float], per_round: int) -> Estimate:
    rates = _rates(one, cycles)
    errors = _left_out(one, rates, cycles)
    errors = [*errors[:1], *errors, *errors[-1:]] if errors else [0.0] * len(rates)
    after, expected = 0, []
    for at in range(len(cycles) // per_round * per_round):
        while after < len(one.slices) and one.slices[after] < at:
            after += 1
        expected.append(_rate_at(one.slices, rates, after, at) * cycles[at])
    return _made(one, expected, errors, per_round)


def _rate_at(slices: Sequence[int], rates: Sequence[float], after: int, at: int) -> float:
    if not slices:
        return 0.0
    if after == 0:
        return rates[0]
    if after == len(slices):
        return rates[-1]
    first, last = slices[after - 1], slices[after]
    share = (at - first) / (last - first)
    return rates[after - 1] * (1 - share) + rates[after] * share


class _Alike:
    """Slices that were counted, weighted by how near and how alike they are to another."""

    def __init__(self, one: Seen, exposures: Mapping[str, Sequence[float]], per_round: int) -> None:
        cycles, instructions = exposures["cycles"], exposures["instructions"]
        self._one, self._cycles, self._per_round = one, cycles, per_round
        self._speed = [i / c if c else 0.0 for i, c in zip(instructions, cycles, strict=True)]
        self._rates = _rates(one, cycles)
        steps = [abs(b - a) for a, b in itertools.pairwise(self._speed)]
        self._scale = sum(steps) / len(steps) if steps else 0.0

    def expect(self, at: int, first: int, reach: float, width: float, leave: int = -1) -> float:
        """The count of slice `at`; `first`: index of the first counted slice behind it."""
        slices, rates, speed = self._one.slices, self._rates, self._speed
        scale = max(self._scale * width, 1e-9)
        total = weight = 0.0
        for k in range(max(0, first - WINDOW), min(len(slices), first + WINDOW)):
            if k == leave:
                continue
            far = abs(slices[k] - at) / (self._per_round * reach)
            unlike = (speed[slices[k]] - speed[at]) / scale
            w = math.exp(-far - min(unlike * unlike / 2, 30.0)) + 1e-12
            w *= self._cycles[slices[k]]
            total += w * rates[k]
            weight += w
        return total / weight * self._cycles[at] if weight else 0.0

    def errors(self, reach: float, width: float) -> list[float]:
        pairs = zip(self._one.slices, self._one.counts, strict=True)
        return [count - self.expect(at, k, reach, width, k) for k, (at, count) in enumerate(pairs)]

    def estimate(self) -> Estimate:
        tried = [(self.errors(*choice), choice) for choice in CHOICES]
        errors, (reach, width) = min(tried, key=lambda t: sum(e * e for e in t[0]))
        first, expected = 0, []
        for at in range(len(self._cycles) // self._per_round * self._per_round):
            while first < len(self._one.slices) and self._one.slices[first] < at:
                first += 1
            expected.append(self.expect(at, first, reach, width))
        made = _made(self._one, expected, errors, self._per_round)
        line = _between(self._one, self._cycles, self._per_round)
        return Estimate(_levelled(made.rounds, line.rounds), line.variances)


def _reconcile(
    found: dict[str, Estimate], exposures: Mapping[str, Sequence[float]], per_round: int
) -> None:
    """Round by round. What always counts is certain."""
    rounds = len(exposures["cycles"]) // per_round
    certain = {
        name: [sum(values[i * per_round : (i + 1) * per_round]) for i in range(rounds)]
        for name, values in exposures.items()
    }
    for _ in range(2):  # wholes that are parts of others move once more
        for whole, parts, exact in INVARIANTS:
            here = [found[part] for part in parts if part in found]
            if len(here) < len(parts) or not (whole in found or whole in certain):
                continue
            for i in range(rounds):
                top = found.get(whole)
                value = top.rounds[i] if top else certain[whole][i]
                spread = top.variances[i] if top else 0.0
                gap = value - sum(part.rounds[i] for part in here)
                if not exact and gap >= 0:
                    continue
                _share(gap, top, here, i, spread)
    for one in found.values():
        one.rounds = [max(0.0, value) for value in one.rounds]


def _share(gap: float, top: Estimate | None, parts: list[Estimate], i: int, spread: float) -> None:
    """Moves whole and parts until they fit, each by its share of the variance."""
    whole = spread + sum(part.variances[i] for part in parts)
    if whole <= 0:
        return
    if top is not None:
        top.rounds[i] = max(0.0, top.rounds[i] - gap * spread / whole)
    for part in parts:
        before = part.variances[i]
        part.rounds[i] = max(0.0, part.rounds[i] + gap * before / whole)
    # What is still too much because nothing may be negative goes from the parts in proportion.
    if top is not None:
        total = sum(part.rounds[i] for part in parts)
        if total > top.rounds[i] and total > 0:
            for part in parts:
                part.rounds[i] *= top.rounds[i] / total


def kl(true: Sequence[float], estimated: Sequence[float]) -> float:
    """Distance in bits between two distributions over rounds, half a count added to each."""
    p = [value + 0.5 for value in true]
    q = [max(0.0, value) + 0.5 for value in estimated]
    over_p, over_q = sum(p), sum(q)
    return sum(
        a / over_p * math.log2((a / over_p) / (b / over_q)) for a, b in zip(p, q, strict=True)
    )
