# SPDX-License-Identifier: Apache-2.0
"""What programs wait for on many hosts, and what changed between two builds.

A change is looked for in two ways. On average: each host's share of time with one build and with
the other, and whether their differences over the hosts are more than chance (Student's test; where
the builds ran on different hosts, Welch's). On some hosts: whether a single host's difference is
more than chance, given how much recordings of one host and one build differ from each other, and
how much hosts differ that did not change. All these questions together are corrected for their
number (Holm), so that `alpha` is the chance of reporting anything where nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stallscope.analyses.significance import (
    holm,
    mean_interval,
    median,
    normal_tail,
    spread,
    student_tail,
)

ALPHA = 0.001
ALL = "<all memory>"  # waiting for whatever
LEAST_HOSTS = 3
LEAST_SAMPLES = 20  # waiting for an object, in both builds together


@dataclass(frozen=True)
class TopRow:
    program: str
    object: str | None  # None: by program
    hosts: int
    builds: int
    recordings: int
    samples: int
    wait: float  # seconds of processor time, in the recordings
    share: float  # of all waiting
    of_time: float  # of the time of the programs


@dataclass(frozen=True)
class FleetTop:
    fleet: str
    by: str
    hosts: int
    recordings: int
    first_day: str | None
    last_day: str | None
    rows: list[TopRow]


@dataclass(frozen=True)
class FleetObjectRow:
    program: str
    object: str
    kind: str
    hosts: int
    samples: int
    share: float  # of the program's time, over all hosts
    low: float  # of the mean over hosts, 95%
    high: float


@dataclass(frozen=True)
class FleetObjects:
    fleet: str
    program: str
    build: str | None
    recordings: int
    rows: list[FleetObjectRow]


@dataclass(frozen=True)
class DiffRow:
    program: str
    object: str
    kind: str
    verdict: str  # worse or better
    before: float  # share of time, mean over hosts
    after: float
    change: float
    low: float  # of the change, 95%
    high: float
    hosts: int  # that the comparison is about
    changed: int  # of them, with a change of their own that is no chance
    ratio_there: float | None  # after over before on those
    probability: float  # of seeing this where nothing changed, corrected
    since: str | None  # first day of the second build on the hosts that changed


@dataclass(frozen=True)
class FleetDiff:
    fleet: str
    program: str
    before: str  # build ids
    after: str
    paired: bool  # the same hosts ran both
    hosts: int
    recordings: int
    alpha: float
    compared: int  # objects
    rows: list[DiffRow]


@dataclass(frozen=True)
class HostSum:
    """Of one host and one build: recordings, samples, and its first day."""

    recordings: int
    every: int
    first_day: str


@dataclass(frozen=True)
class ObjectSum:
    """Of one object on one host with one build."""

    samples: int
    squares: float  # over the recordings: samples squared, by the samples in whatever state


Hosts = Mapping[str, HostSum]
Objects = Mapping[str, ObjectSum]  # by host
NOTHING = ObjectSum(0, 0.0)


@dataclass(frozen=True)
class _Change:
    object: tuple[str, str]
    by_host: dict[str, float]
    before: float
    after: float
    mean: float
    tail: float  # of the mean
    host_tails: dict[str, float]


def _share(of: Objects, hosts: Hosts, host: str) -> float:
    return of.get(host, NOTHING).samples / max(1, hosts[host].every)


def dispersion(parts: Sequence[tuple[Objects, Hosts]]) -> float:
    """How much more recordings of one host and build differ than drawing samples makes them."""
    found, expected = 0.0, 0.0
    for of, hosts in parts:
        for host, total in hosts.items():
            one = of.get(host, NOTHING)
            if total.recordings < 2 or not total.every:
                continue
            share = one.samples / total.every
            found += one.squares - one.samples * share
            expected += (total.recordings - 1) * share * (1 - share)
    return max(1.0, found / expected) if expected > 0 else 1.0


def _paired(
    key: tuple[str, str], old: Objects, new: Objects, hosts: tuple[Hosts, Hosts]
) -> _Change:
    common = [host for host in hosts[0] if host in hosts[1]]
    more = dispersion([(old, hosts[0]), (new, hosts[1])])
    before = [_share(old, hosts[0], host) for host in common]
    after = [_share(new, hosts[1], host) for host in common]
    by_host = {host: b - a for host, a, b in zip(common, before, after, strict=True)}
    mean = sum(by_host.values()) / len(common)
    scores = {h: by_host[h] / _error(old, new, hosts, h, more) for h in common}
    # What unchanged hosts differ by: most hosts are such, or the mean shows it.
    usual = max(1.0, spread(list(scores.values())))
    return _Change(
        key,
        by_host,
        sum(before) / len(common),
        sum(after) / len(common),
        mean,
        _mean_tail(list(by_host.values()), mean),
        {host: normal_tail(score / usual) for host, score in scores.items()},
    )


def _error(old: Objects, new: Objects, hosts: tuple[Hosts, Hosts], host: str, more: float) -> float:
    """Standard error of a host's difference, from both builds' samples."""
    counts = (hosts[0][host].every, hosts[1][host].every)
    samples = old.get(host, NOTHING).samples + new.get(host, NOTHING).samples
    share = (samples + 1) / (sum(counts) + 2)
    return math.sqrt(more * share * (1 - share) * (1 / max(1, counts[0]) + 1 / max(1, counts[1])))


def _mean_tail(values: Sequence[float], mean: float) -> float:
    if len(values) < LEAST_HOSTS:
        return 1.0
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    if variance == 0:
        return 1.0 if mean == 0 else 0.0
    return student_tail(mean / math.sqrt(variance / len(values)), len(values) - 1)


def _unpaired(
    key: tuple[str, str], old: Objects, new: Objects, hosts: tuple[Hosts, Hosts]
) -> _Change:
    before = [_share(old, hosts[0], host) for host in hosts[0]]
    after = {host: _share(new, hosts[1], host) for host in hosts[1]}
    means = (sum(before) / len(before), sum(after.values()) / len(after))
    by_host = {host: share - means[0] for host, share in after.items()}
    tail = _welch_tail(before, list(after.values()))
    return _Change(key, by_host, means[0], means[1], means[1] - means[0], tail, {})


def _welch_tail(a: Sequence[float], b: Sequence[float]) -> float:
    if min(len(a), len(b)) < LEAST_HOSTS:
        return 1.0
    means = [sum(values) / len(values) for values in (a, b)]
    errors = [
        sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
        for values, mean in zip((a, b), means, strict=True)
    ]
    if sum(errors) == 0:
        return 1.0 if means[0] == means[1] else 0.0
    parts = [error**2 / (len(v) - 1) for error, v in zip(errors, (a, b), strict=True)]
    return student_tail(
        (means[1] - means[0]) / math.sqrt(sum(errors)), sum(errors) ** 2 / sum(parts)
    )


def changes(
    program: str,
    hosts: tuple[Hosts, Hosts],
    objects: Mapping[tuple[str, str], tuple[Objects, Objects]],
    alpha: float = ALPHA,
    seed: int = 1,
) -> tuple[list[DiffRow], bool, int]:
    """What is worse or better, whether the same hosts are compared, and how many objects were."""
    paired = sum(host in hosts[1] for host in hosts[0]) >= LEAST_HOSTS
    compare = _paired if paired else _unpaired
    found = [
        compare(key, old, new, hosts)
        for key, (old, new) in objects.items()
        if sum(one.samples for part in (old, new) for one in part.values()) >= LEAST_SAMPLES
    ]
    corrected = iter(holm([p for one in found for p in (one.tail, *one.host_tails.values())]))
    rows = []
    for one in found:
        of_mean = next(corrected)
        of_hosts = {host: next(corrected) for host in one.host_tails}
        if min([of_mean, *of_hosts.values()]) < alpha:
            rows.append(
                _row(program, one, of_mean, of_hosts, hosts, objects[one.object], alpha, seed)
            )
    rows.sort(key=lambda row: (row.verdict != "worse", -abs(row.change), row.object))
    return rows, paired, len(found)


def _row(
    program: str,
    one: _Change,
    of_mean: float,
    of_hosts: Mapping[str, float],
    hosts: tuple[Hosts, Hosts],
    sums: tuple[Objects, Objects],
    alpha: float,
    seed: int,
) -> DiffRow:
    changed = [host for host, tail in of_hosts.items() if tail < alpha]
    there = changed or list(one.by_host)
    before = sum(_share(sums[0], hosts[0], host) for host in there if host in hosts[0])
    after = sum(_share(sums[1], hosts[1], host) for host in there)
    direction = median([one.by_host[host] for host in changed]) if changed else one.mean
    low, high = mean_interval(list(one.by_host.values()), seed=seed)
    return DiffRow(
        program=program,
        object=one.object[0],
        kind=one.object[1],
        verdict="worse" if direction > 0 else "better",
        before=one.before,
        after=one.after,
        change=one.mean,
        low=low,
        high=high,
        hosts=len(one.by_host),
        changed=len(changed),
        ratio_there=after / before if before and changed else None,
        probability=min([of_mean, *of_hosts.values()]),
        since=min((hosts[1][host].first_day for host in there), default=None),
    )
