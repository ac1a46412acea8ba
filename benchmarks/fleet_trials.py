# SPDX-License-Identifier: Apache-2.0
"""What `fleet diff` says of many simulated fleets, from the sums that it reads, without the files:
the same distributions as fleet_sim.py writes, drawn all at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.fleet_sim import CONCENTRATION, MOST_DOUBLED, SAMPLES, Base, Plant, Simulated
from stallscope.analyses.fleet import DiffRow
from stallscope.analyses.fleet_changes import ALL, changes
from stallscope.analyses.host_scores import HostSum, ObjectSum

LEAST_SHARE = 0.03  # of the time, of an object whose share is doubled


def shares(base: Base) -> dict[str, float]:
    """Of the time, waiting for each object."""
    whole = sum(base.weights.values())
    found: dict[str, float] = {}
    for (state, bucket), count in base.weights.items():
        if state == "memory":
            name = base.names[bucket]
            found[name] = found.get(name, 0.0) + count / whole
    return found


def plant_of(bases: Sequence[Base], hosts: int, seed: int) -> Plant:
    draw = random.Random(seed)
    base = draw.choice(bases)
    of = shares(base)
    fitting = [name for name, share in of.items() if LEAST_SHARE <= share <= MOST_DOUBLED]
    chosen = draw.choice(fitting or [max(of, key=lambda name: of[name])])
    return planted_in(base, chosen, hosts, seed)


def planted_in(base: Base, name: str, hosts: int, seed: int) -> Plant:
    """On a tenth of the hosts."""
    chosen = random.Random(f"hosts {seed}").sample(range(hosts), hosts // 10)
    return Plant(base.program, name, frozenset(chosen))


@dataclass(frozen=True)
class Shape:
    hosts: int
    days: int
    each: int  # recordings of a host a day, over all programs

    def fleet(self, bases: Sequence[Base], seed: int, plant: Plant | None = None) -> Simulated:
        return Simulated(list(bases), self.hosts, self.days, self.each, seed, plant)


def drawn(fleet: Simulated, base: Base) -> tuple[np.ndarray, np.ndarray]:
    """Of every recording of a program: host and day, and samples by state and bucket."""
    at = np.array([(host, day) for of, host, day, _ in fleet.runs() if of is base])
    by_host = np.array(
        [
            list(fleet.weights(base, host, day).values())
            for day in (0, fleet.days)
            for host in range(fleet.hosts)
        ]
    )
    second = at[:, 1] >= fleet.days // 2
    weights = by_host[at[:, 0] + fleet.hosts * second]
    draw = np.random.default_rng([fleet.seed, *base.program.encode()])
    gammas = draw.gamma(CONCENTRATION * weights / weights.sum(axis=1, keepdims=True))
    return at, draw.multinomial(SAMPLES, gammas / gammas.sum(axis=1, keepdims=True))


def _sums(fleet: Simulated, at: np.ndarray, counts: np.ndarray, build: int) -> dict[str, ObjectSum]:
    """Of one object, by host, in one build."""
    own = (at[:, 1] >= fleet.days // 2) == bool(build)
    host, day = at[own, 0], at[own, 1]
    count = counts[own].astype(float)
    daily = np.bincount(host * fleet.days + day, count, fleet.hosts * fleet.days)
    every = np.bincount(host * fleet.days + day, minlength=fleet.hosts * fleet.days) * SAMPLES
    by_day = (daily**2 / np.maximum(every, 1)).reshape(fleet.hosts, fleet.days).sum(axis=1)
    samples = np.bincount(host, count, fleet.hosts)
    squares = np.bincount(host, count**2 / SAMPLES, fleet.hosts)
    return {
        str(index): ObjectSum(int(samples[index]), float(squares[index]), float(by_day[index]))
        for index in range(fleet.hosts)
        if samples[index]
    }


def compared(fleet: Simulated, base: Base) -> list[DiffRow]:
    """What `fleet diff` reports of a program."""
    at, counts = drawn(fleet, base)
    hosts: tuple[dict[str, HostSum], dict[str, HostSum]] = ({}, {})
    for index in range(fleet.hosts):
        days = at[at[:, 0] == index, 1]
        for build in (0, 1):
            own = days[(days >= fleet.days // 2) == bool(build)]
            if len(own):
                name = str(index)
                hosts[build][name] = HostSum(
                    len(own), len(set(own)), len(own) * SAMPLES, f"day {min(own)}"
                )
    named: dict[str, np.ndarray] = {}
    for column, (state, bucket) in enumerate(base.weights):
        if state == "memory":
            for name in (base.names[bucket], ALL):
                named[name] = named.get(name, 0) + counts[:, column]
    objects = {
        (name, ""): (_sums(fleet, at, of, 0), _sums(fleet, at, of, 1)) for name, of in named.items()
    }
    return changes(base.program, hosts, objects)[0]


def regression_found(bases: Sequence[Base], plant: Plant, shape: Shape, seed: int) -> bool:
    base = next(one for one in bases if one.program == plant.program)
    rows = compared(shape.fleet(bases, seed, plant), base)
    return any(row.object == plant.object and row.verdict == "worse" for row in rows)


def reported(bases: Sequence[Base], shape: Shape, seed: int) -> int:
    """Of how many programs anything is, better or worse, where nothing changed."""
    fleet = shape.fleet(bases, seed)
    return sum(bool(compared(fleet, base)) for base in bases)
