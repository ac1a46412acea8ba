# SPDX-License-Identifier: Apache-2.0
"""How much each host's share of time for an object changed, in units of chance, and what all hosts'
scores say together.

Samples of a program are not drawn independently: recordings of one host and build differ more than
that, and days may differ more than recordings of one day. So the variance of an object's share is
measured in units of the binomial one (its dispersion) between the recordings and between the days
of each host and build, and the larger counts. Hosts may be wilder than others: each host's own
dispersion is drawn towards that of all hosts by how much hosts differ in it (empirical Bayes), and
what remains uncertain makes its score smaller (Student). What all hosts drifted by between the
builds widens every score too.

Not modelled: what changed everywhere at once for another reason than the build.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stallscope.analyses.significance import middle_spread, normal_score

# Alternatives to "no host changed": so many of the hosts moved by so many standard errors.
FRACTIONS = (0.03, 0.1)
SHIFTS = (2.0, 3.0)
FURTHEST = 4.0  # a score counts no more than this: one host alone is no change of a build
# What a host's score may speak for a change on average where there is none. Scores are not quite
# normal, and thousands of hosts would add up whatever small thing they are not.
SLACK = 0.02


@dataclass(frozen=True)
class HostSum:
    """Of one host and one build: recordings, days with any, samples, and its first day."""

    recordings: int
    days: int
    every: int
    first_day: str


@dataclass(frozen=True)
class ObjectSum:
    """Of one object on one host with one build. Squares: of the samples of each recording or day,
    by its samples in whatever state."""

    samples: int
    by_recording: float
    by_day: float


Hosts = Mapping[str, HostSum]
Objects = Mapping[str, ObjectSum]  # by host
NOTHING = ObjectSum(0, 0.0, 0.0)


def share(of: Objects, hosts: Hosts, host: str) -> float:
    return of.get(host, NOTHING).samples / max(1, hosts[host].every)


@dataclass(frozen=True)
class Excess:
    """Of one host, over both builds: squared deviations of its recordings or days from its shares,
    those that drawing samples makes, and how many they come from."""

    found: float
    expected: float
    degrees: int


def _excess(host: str, parts: Sequence[tuple[Objects, Hosts]], days: bool) -> Excess:
    found, expected, degrees = 0.0, 0.0, 0
    for of, hosts in parts:
        total, one = hosts[host], of.get(host, NOTHING)
        units = total.days if days else total.recordings
        if units < 2 or not total.every:
            continue
        at = one.samples / total.every
        found += (one.by_day if days else one.by_recording) - one.samples * at
        expected += (units - 1) * at * (1 - at)
        degrees += units - 1
    return Excess(found, expected, degrees)


def dispersions(
    hosts: Sequence[str], parts: Sequence[tuple[Objects, Hosts]]
) -> dict[str, tuple[float, float]]:
    """Of each host, and the degrees of freedom that it is known with."""
    kinds = [{host: _excess(host, parts, days) for host in hosts} for days in (False, True)]
    return _shrunk(max(kinds, key=lambda kind: _overall(kind.values())))


def _overall(excesses: Iterable[Excess]) -> float:
    both = [(one.found, one.expected) for one in excesses]
    expected = sum(one for _, one in both)
    return max(1.0, sum(one for one, _ in both) / expected) if expected > 0 else 1.0


def _shrunk(kind: Mapping[str, Excess]) -> dict[str, tuple[float, float]]:
    overall = _overall(kind.values())
    known = {
        host: (one.found / one.expected / overall, one.degrees)
        for host, one in kind.items()
        if one.expected > 0
    }
    degrees = sum(count for _, count in known.values())
    # By how much hosts differ beyond what so few recordings make them differ.
    beyond = sum(count * ((ratio - 1) ** 2 - 2 / count) for ratio, count in known.values())
    prior = 2 * degrees / beyond if beyond > 0 else math.inf
    if prior >= degrees:
        return dict.fromkeys(kind, (overall, float(degrees or math.inf)))
    own = {
        host: (overall * (prior + ratio * count) / (prior + count), prior + count)
        for host, (ratio, count) in known.items()
    }
    return {host: own.get(host, (overall, prior)) for host in kind}


def scores(
    hosts: Sequence[str], old: Objects, new: Objects, sums: tuple[Hosts, Hosts]
) -> dict[str, float]:
    """Standard normal where nothing changed: above zero where the object's share grew."""
    more = dispersions(hosts, [(old, sums[0]), (new, sums[1])])
    found = {}
    for host in hosts:
        factor, degrees = more[host]
        root = _signed_root(
            (old.get(host, NOTHING).samples, sums[0][host].every),
            (new.get(host, NOTHING).samples, sums[1][host].every),
        )
        found[host] = normal_score(root / math.sqrt(factor), degrees)
    # What unchanged hosts differ by: most hosts are such, or the mean shows it.
    usual = max(1.0, middle_spread(list(found.values())))
    return {host: score / usual for host, score in found.items()}


def _signed_root(old: tuple[int, int], new: tuple[int, int]) -> float:
    """Of the likelihood ratio of two shares against one: nearer to a normal score at small counts
    than the difference by its standard error."""
    if not old[1] or not new[1]:
        return 0.0
    common = (old[0] + new[0]) / (old[1] + new[1])
    twice = 0.0
    for samples, every in (old, new):
        for count, at in ((samples, common), (every - samples, 1 - common)):
            if count:
                twice += 2 * count * math.log(count / every / at)
    return math.copysign(math.sqrt(max(0.0, twice)), new[0] / new[1] - old[0] / old[1])


def evidence(found: Sequence[float]) -> float:
    """At most the probability of such scores where no host changed.

    Each alternative is a likelihood ratio whose mean is 1 where no host changed, so the mean of
    all alternatives is too, and by Markov's inequality it is x or more at most one time in x. That
    holds for all scores whose likelihood ratio is exp(SLACK) or less on average, normal or not.
    """
    capped = [max(-FURTHEST, min(FURTHEST, score)) for score in found]
    logs = [
        sum(math.log1p(part * math.expm1(shift * (score - shift / 2))) for score in capped)
        for part in FRACTIONS
        for size in SHIFTS
        for shift in (size, -size)
    ]
    most = max(logs)
    mean = most + math.log(sum(math.exp(one - most) for one in logs) / len(logs))
    return math.exp(-max(0.0, mean - SLACK * len(capped)))
