# SPDX-License-Identifier: Apache-2.0
"""Rounds as they end, for who follows a run: what comes later is not known yet, so each round's
logical counters are what its slices counted, scaled to the round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stallscope.analyses import pmu
from stallscope.analyses.pmu import FIXED, Group

OnRound = Callable[[dict[str, float]], None]


def scaled(counts: Sequence[Mapping[str, float]], clock: Sequence[float]) -> dict[str, float]:
    """A round's vector: what each event counted in its slices, times the round over those."""
    whole, seen, time = sum(clock), dict[str, float](), dict[str, float]()
    for one, length in zip(counts, clock, strict=True):
        for name, count in one.items():
            seen[name] = seen.get(name, 0.0) + count
            time[name] = time.get(name, 0.0) + length
    return {name: count * whole / time[name] if time[name] else 0.0 for name, count in seen.items()}


class Follower:
    """Is told every slice of a core, lets the group whose turn it is see it, and tells rounds."""

    def __init__(
        self,
        groups: Sequence[Group],
        units: int,
        *,
        seed: int,
        skip: int,
        paid: int,
        on_round: OnRound,
    ) -> None:
        """`units`: slices of a round. `paid`: cycles of each that switching took."""
        self._events = {group.group: list(group.events) for group in groups}
        self._turns = pmu.turns(groups, seed)
        self._units, self._paid, self._on_round = units, paid, on_round
        self._left = skip * units
        self._slices: list[dict[str, int]] = []

    def on_slice(self, counts: dict[str, int]) -> None:
        if self._left > 0:
            self._left -= 1
            return
        self._slices.append(counts)
        if len(self._slices) == self._units:
            self._on_round(self._round(next(self._turns)))
            self._slices = []

    def _round(self, order: Sequence[int]) -> dict[str, float]:
        always = {name: float(sum(one[name] for one in self._slices)) for name in FIXED}
        seen = [
            {event: float(one[event]) for event in self._events[group]}
            for group, one in zip(order, self._slices, strict=True)
        ]
        clock = [max(1.0, float(one["cycles"] - self._paid)) for one in self._slices]
        return always | scaled(seen, clock)
