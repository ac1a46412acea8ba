# SPDX-License-Identifier: Apache-2.0
"""What changed between two builds of a program on the hosts of a fleet.

A change is looked for in two ways. On average: each host's share of time with one build and with
the other, and whether their differences over the hosts are more than chance (Student's test; where
the builds ran on different hosts, Welch's). On some hosts: whether the scores of host_scores.py
are better explained by some of them having changed than by none. All these questions together are
corrected for their number (Holm), so that `alpha` bounds the chance of reporting anything where
nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stallscope.analyses.fleet import DiffRow
from stallscope.analyses.host_scores import Hosts, Objects, evidence, scores, share
from stallscope.analyses.significance import (
    benjamini_hochberg,
    holm,
    mean_interval,
    median,
    normal_tail,
    student_tail,
)

ALPHA = 1e-4  # a page compares up to 90 pairs of builds
ALL = "<all memory>"  # waiting for whatever
LEAST_HOSTS = 3
LEAST_SAMPLES = 20  # waiting for an object, in both builds together
STANDS_OUT = 0.05  # of the hosts that are said to have changed, by chance


@dataclass(frozen=True)
class _Change:
    object: tuple[str, str]
    by_host: dict[str, float]
    before: float
    after: float
    mean: float
    tails: tuple[float, float]  # of the mean, of some hosts
    scores: dict[str, float]


def _paired(
    key: tuple[str, str], old: Objects, new: Objects, hosts: tuple[Hosts, Hosts]
) -> _Change:
    common = [host for host in hosts[0] if host in hosts[1]]
    before = [share(old, hosts[0], host) for host in common]
    after = [share(new, hosts[1], host) for host in common]
    by_host = {host: b - a for host, a, b in zip(common, before, after, strict=True)}
    mean = sum(by_host.values()) / len(common)
    found = scores(common, old, new, hosts)
    return _Change(
        key,
        by_host,
        sum(before) / len(common),
        sum(after) / len(common),
        mean,
        (_mean_tail(list(by_host.values()), mean), evidence(list(found.values()))),
        found,
    )


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
    before = [share(old, hosts[0], host) for host in hosts[0]]
    after = {host: share(new, hosts[1], host) for host in hosts[1]}
    means = (sum(before) / len(before), sum(after.values()) / len(after))
    by_host = {host: value - means[0] for host, value in after.items()}
    tail = _welch_tail(before, list(after.values()))
    return _Change(key, by_host, means[0], means[1], means[1] - means[0], (tail, 1.0), {})


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
    corrected = holm([tail for one in found for tail in one.tails])
    rows = []
    for number, one in enumerate(found):
        probability = min(corrected[2 * number : 2 * number + 2])
        if probability < alpha:
            rows.append(_row(program, one, probability, hosts, objects[one.object], seed))
    rows.sort(key=lambda row: (row.verdict != "worse", -abs(row.change), row.object))
    return rows, paired, len(found)


def _standing_out(one: _Change) -> list[str]:
    """Hosts whose scores do, in the direction of the one that does most."""
    tails = benjamini_hochberg([normal_tail(score) for score in one.scores.values()])
    hosts = [host for host, tail in zip(one.scores, tails, strict=True) if tail < STANDS_OUT]
    if not hosts:
        return []
    up = max((one.scores[host] for host in hosts), key=abs) > 0
    return [host for host in hosts if (one.scores[host] > 0) == up]


def _row(
    program: str,
    one: _Change,
    probability: float,
    hosts: tuple[Hosts, Hosts],
    sums: tuple[Objects, Objects],
    seed: int,
) -> DiffRow:
    changed = _standing_out(one)
    there = changed or list(one.by_host)
    before = sum(share(sums[0], hosts[0], host) for host in there if host in hosts[0])
    after = sum(share(sums[1], hosts[1], host) for host in there)
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
        probability=probability,
        since=min((hosts[1][host].first_day for host in there), default=None),
    )
