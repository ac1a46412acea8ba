# SPDX-License-Identifier: Apache-2.0
"""From samples of remote misses to clusters of threads that stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stallscope.analyses.shmaps import Filter, Maps
from stallscope.analyses.thread_clusters import Clusters, cluster


@dataclass(frozen=True)
class Verdict:
    """What detection found, and when it was sure."""

    found: Clusters
    samples: int  # taken until then
    instruction: int  # at which the last of them was taken
    stable: bool  # or the samples ran out
    rounds: int  # of detection, each with a filter of its own


STEADY = 3  # looks in a row that must agree, over a rotation at least
FIRST_LOOK = 8  # samples a thread
ROUND = 60  # samples a thread after which another filter is filled
PATIENCE = 8  # rounds and rotations until a thread that is like nobody is believed to be alone


def detect(
    samples: Sequence[tuple[int, int, int]],
    threads: Sequence[int],
    line: int,
    busy: Mapping[int, int] | None = None,
    rotation: int = 0,
) -> tuple[Verdict, Maps]:
    """`samples`: instruction, thread, address. `busy` threads are waited for until they are decided
    or end, at the instruction that is given with each. After `rotation` instructions every two
    threads were apart: no verdict comes before that, nor from looks that span less.
    Looks at the clusters now and then, and ends when they stay the same. Threads that the filter
    starved get another chance: while some are undecided and samples are left, a new one is
    filled."""
    maps = Maps(Filter(line))
    last, agreed, since, fresh = None, 0, 0, 0
    look = FIRST_LOOK * len(threads)
    for number, (instruction, thread, address) in enumerate(samples, 1):
        maps.add(thread, address)
        if number < look or instruction < rotation:
            continue
        look = number + max(FIRST_LOOK * len(threads) // 2, min(number, ROUND * len(threads)) // 4)
        found = cluster(maps, threads)
        if found.clusters != last or not found.clusters:
            agreed, since = 0, instruction
        agreed, last = agreed + 1, found.clusters
        patient = maps.rounds < PATIENCE or instruction < PATIENCE * rotation
        unsure = {*found.undecided, *(found.alone if patient else ())}
        waits = any(instruction < end for one, end in (busy or {}).items() if one in unsure)
        if agreed >= STEADY and instruction - since >= rotation and not waits:
            return Verdict(found, number, instruction, True, maps.rounds), maps
        if number - fresh > ROUND * len(threads):
            fresh = number
            maps.begin_round(Filter(line, maps.rounds))
    ended = samples[-1][0] if samples else 0
    return Verdict(cluster(maps, threads), len(samples), ended, False, maps.rounds), maps
