# SPDX-License-Identifier: Apache-2.0
"""Which threads share data: the result, and what it is made from."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stallscope.analyses.detection import Verdict
from stallscope.analyses.false_sharing import LineRow
from stallscope.analyses.shmaps import Maps
from stallscope.showing import Shown


@dataclass(frozen=True)
class ThreadRow:
    name: str
    thread: int
    cluster: int | None
    state: str  # clustered, alone, undecided or idle
    samples: int
    remote_misses: int
    chip: int  # where it would go
    processor: int
    map: dict[int, int]  # its shMap, by the counters that are not 0


@dataclass(frozen=True)
class LockRow:
    object: str
    address: int
    waits: int  # times that a thread slept for it
    threads: list[str]
    misses: int  # of its line, from cache to cache


@dataclass(frozen=True)
class Sharing(Shown):
    recording: str
    machine: str
    protocol: str
    seed: int
    threads: list[str]
    clusters: list[list[str]]
    undecided: list[str]
    alone: list[str]
    started: bool  # the share of remote stalls was above the limit
    remote_share: float  # of all cycles, waiting for other chips' caches
    above: float  # the limit
    samples: int  # until the verdict
    samples_wanted: float  # share of samples whose line had a wanted source
    verdict_instruction: int
    stable: bool
    rounds: int
    period: int
    overhead: float  # of taking samples, share of the cycles until the verdict
    remote_misses: int
    remote_misses_placed: int
    cycles: int
    cycles_placed: int
    busiest: int  # cycles of the hardware thread with most to do
    busiest_placed: int
    global_lines: int
    hierarchical: list[list[str]] | None  # by SciPy, where it is there
    thread_rows: list[ThreadRow]
    lines: list[LineRow]
    would_collide: list[LineRow]  # with other lines or another alignment, when asked for
    locks: list[LockRow]


@dataclass(frozen=True)
class SharingMatrix:
    """Misses from cache to cache that two threads have on lines that both use."""

    threads: list[str]
    misses: list[list[int]]


def sharing_matrix(found: Sharing, most: int) -> SharingMatrix:
    """Of the threads with most such misses, in the order of their clusters."""
    pairs: collections.Counter[tuple[str, str]] = collections.Counter()
    for line in found.lines:
        for one in line.uses:
            for other in line.uses:
                if one.thread != other.thread:
                    pairs[one.thread, other.thread] += one.misses + other.misses
    of_one: collections.Counter[str] = collections.Counter()
    for (thread, _), misses in pairs.items():
        of_one[thread] += misses
    chosen = {name for name, _ in of_one.most_common(most)}
    names = [row.name for row in found.thread_rows if row.name in chosen]
    return SharingMatrix(names, [[pairs[one, other] for other in names] for one in names])


def unique_names(threads: Sequence[Mapping[str, object]]) -> dict[int, str]:
    """A name for each thread; those that share one get their number behind it."""
    names = [str(row["name"] or "thread") for row in threads]
    return {
        int(str(row["thread"])): name if names.count(name) == 1 else f"{name}#{row['thread']}"
        for row, name in zip(threads, names, strict=True)
    }


def thread_rows(
    names: Mapping[int, str],
    verdict: Verdict,
    maps: Maps,
    samples: Mapping[int, int],
    remote: Mapping[int, int],
    placed: Mapping[int, int],
    chip_of: Mapping[int, int],
) -> list[ThreadRow]:
    """In the order of their clusters, as the picture shows them."""
    found = verdict.found
    cluster_of = {t: i for i, group in enumerate(found.clusters) for t in group}

    def state(thread: int) -> str:
        if thread in cluster_of:
            return "clustered"
        if thread in found.alone:
            return "alone"
        return "undecided" if samples.get(thread) else "idle"

    ordered = sorted(names, key=lambda t: (cluster_of.get(t, len(found.clusters)), t))
    return [
        ThreadRow(
            name=names[thread],
            thread=thread,
            cluster=cluster_of.get(thread),
            state=state(thread),
            samples=samples.get(thread, 0),
            remote_misses=remote.get(thread, 0),
            chip=chip_of.get(thread, 0),
            processor=placed.get(thread, 0),
            map=maps.columns(thread, found.global_lines),
        )
        for thread in ordered
    ]
