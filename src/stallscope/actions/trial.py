# SPDX-License-Identifier: Apache-2.0
"""Whether something pays, by switching it on and off while the program runs."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

INTERVAL = 0.004  # seconds of the program's processor time
SETTLE = 0.0005  # before each
PATIENCE = 0.1  # seconds by the clock in which it must have had them
IDLE = 25  # intervals without progress after which nothing is learnt any more
FEWEST = 3  # pairs after which something can be given up
SHARE = 0.005  # of its processor time that trying may cost a program
# Of Student's distribution, for 95%, by degrees of freedom; beyond the last it hardly changes.
_STUDENT = (
    12.7,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
)


@dataclass(frozen=True)
class Gain:
    """Progress with over progress without, with its 95% confidence interval."""

    ratio: float
    low: float
    high: float
    pairs: int

    @staticmethod
    def of(ratios: list[float]) -> Gain:
        logs = [math.log(one) for one in ratios]
        middle = statistics.fmean(logs)
        if len(logs) < 2:
            return Gain(math.exp(middle), 0.0, math.inf, len(logs))
        student = _STUDENT[min(len(logs) - 2, len(_STUDENT) - 1)]
        spread = student * statistics.stdev(logs) / math.sqrt(len(logs))
        return Gain(
            math.exp(middle), math.exp(middle - spread), math.exp(middle + spread), len(logs)
        )


class Ended(Exception):
    """The program is gone."""


@dataclass(frozen=True)
class Watched:
    """A program that is measured: its processor time in seconds, and whether it is still there."""

    used: Callable[[], float]
    alive: Callable[[], bool]


def processor_time(pid: int) -> Callable[[], float]:
    """Of a process with all of its threads, to the nanosecond. Others that want the processor do
    not matter in it."""
    clock = (~pid << 3) | 2  # what clock_getcpuclockid would give

    def used() -> float:
        try:
            return time.clock_gettime(clock)
        except OSError:
            raise Ended from None

    return used


@dataclass
class Budget:
    """The processor time that trying may cost a program: a small part of what it has used so far,
    as nobody knows how long it will go on. What trying gains may be spent again."""

    used: Callable[[], float]  # by the program, in seconds
    lost: float = 0.0  # by what was tried, so far

    @property
    def allows(self) -> bool:
        return self.lost <= SHARE * self.used()

    def charge(self, took: float, ratio: float) -> None:
        """The program ran for `took` seconds `ratio` times as fast as it would have."""
        self.lost += took * (1 - ratio)


@dataclass(frozen=True)
class Trial:
    """Something to be tried: how it is switched on and off, what counts the program's progress, how
    to wait, with nothing of it left in the program, until the budget allows more, and the seconds
    that counting one costs the program, whether it is switched on or not."""

    switch: Callable[[bool], None]
    progress: Callable[[], int]
    budget: Budget
    wait: Callable[[], None] = lambda: None
    toll: float = 0.0


def measure(
    trial: Trial, watched: Watched, pairs: int, hopeless: float = 0.0, seed: int = 1
) -> Gain | None:
    """`pairs` intervals with and without, in random order; None when the program does something
    else meanwhile. Ends early when the gain is surely below `hopeless`. The middle of the ratios
    counts: other programs disturb single ones."""
    choice = random.Random(seed)
    ratios: list[float] = []
    idle = 0
    while len(ratios) < pairs:
        if not trial.budget.allows:
            trial.wait()
        order = [True, False]
        choice.shuffle(order)
        rates = {on: _rate(trial, watched, on) for on in order}
        if not (rates[True] and rates[False]):
            idle += 1
            if idle > IDLE:
                return None
            continue
        ratios.append(rates[True] / rates[False])
        trial.budget.charge(INTERVAL + SETTLE, ratios[-1])
        if len(ratios) >= FEWEST and Gain.of(ratios).high < hopeless:
            break
    return Gain.of(_middle(ratios))


def _rate(trial: Trial, watched: Watched, on: bool) -> float:
    """Runs a second of processor time; 0 when the program does not run."""
    trial.switch(on)
    time.sleep(SETTLE)
    start, runs = watched.used(), trial.progress()
    until = time.monotonic() + PATIENCE
    left = INTERVAL
    while True:
        time.sleep(max(left, SETTLE))
        if not watched.alive():
            raise Ended
        took, made = watched.used() - start, trial.progress() - runs
        left = INTERVAL - took
        if left <= 0:
            trial.budget.lost += made * trial.toll
            return made / took
        if time.monotonic() > until:
            return 0.0


def _middle(ratios: list[float]) -> list[float]:
    cut = len(ratios) // 8
    return sorted(ratios)[cut : len(ratios) - cut]
