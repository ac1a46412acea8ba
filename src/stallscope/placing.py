# SPDX-License-Identifier: Apache-2.0
"""Where threads should run, and their pages lie, with what that would save."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import clustering
from stallscope.analyses.placement import PlacedThread, cpu_list, processors
from stallscope.clustering import Detection, Threads
from stallscope.cores import CoresProbe, CoresRun, Pairs
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.recording import Recording
from stallscope.showing import Shown

MOSTLY = 0.5  # of a page's lines that one chip must fetch for it to move there
FEW_LINES = 8  # of a page, below which it is not worth moving


@dataclass(frozen=True)
class PageAdvice:
    page: int  # address
    object: str
    home: int  # chip
    to: int
    lines: int  # that came from its memory
    share: float  # of them, to chip `to`


@dataclass(frozen=True)
class Placement(Shown):
    recording: str
    machine: str
    clusters: list[list[str]]
    remote_misses: int
    remote_misses_placed: int
    cycles: int
    cycles_placed: int
    predicted_gain: float  # of the cycles
    remote_memory: int  # lines from the memory of other chips
    remote_memory_placed: int
    cycles_with_pages: int | None  # with the pages moved as well
    taskset: list[str]  # one command a thread; TID stands for its number
    omp_places: str
    cpuset: dict[str, str]  # chip -> processors
    rows: list[PlacedThread]
    pages: list[PageAdvice]


def place(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | Machine = clustering.MACHINE,
    process: str | int | None = None,
    period: int = 10,
    seed: int = 1,
    grain: int = 10,
    placement: str | None = None,
    pages: bool = False,
    host: bool = False,
) -> Placement:
    """The clusters of a recording's threads on the chips of a machine, or a placement that is
    given."""
    probe = CoresProbe(seed=seed, grain=grain)
    threads = clustering.open_threads(recording, machine, process, probe)
    clusters: list[list[str]] = []
    if placement is None:
        detected = Detection(threads, period, True, True)
        where: Pairs = detected.placement
        groups = detected.verdict.found.clusters
        clusters = [detected.named(group) for group in groups]
        cluster_of = {thread: i for i, group in enumerate(groups) for thread in group}
    else:
        where, cluster_of = given(placement, threads), {}
    after = threads.run(placement=where)
    advice = page_advice(threads, after)
    moved = tuple((row.page, row.to) for row in advice)
    with_pages = threads.run(placement=where, pages=moved).cycles if pages and moved else None
    return _placement(threads, after, where, clusters, cluster_of, advice, with_pages, host)


def _placement(
    threads: Threads,
    after: CoresRun,
    where: Pairs,
    clusters: list[list[str]],
    cluster_of: dict[int, int],
    advice: list[PageAdvice],
    with_pages: int | None,
    host: bool,
) -> Placement:
    base, chips = threads.base, threads.machine.chips
    rows = [
        PlacedThread(
            thread=thread,
            name=threads.names[thread],
            cluster=cluster_of.get(thread),
            chip=chips.chip_of(processor),
            processor=processor,
        )
        for thread, processor in where
        if thread in threads.names
    ]
    if host:
        rows = on_host(rows, threads.weights)
    of_chip: dict[int, list[int]] = {}
    for row in rows:
        of_chip.setdefault(row.chip, []).append(row.processor)
    best = after.cycles if with_pages is None else with_pages
    return Placement(
        recording=str(threads.recording.path),
        machine=threads.machine_name,
        clusters=clusters,
        remote_misses=base.remote_misses,
        remote_misses_placed=after.remote_misses,
        cycles=base.cycles,
        cycles_placed=after.cycles,
        predicted_gain=(base.cycles - best) / max(1, base.cycles),
        remote_memory=base.count("remote memory"),
        remote_memory_placed=after.count("remote memory"),
        cycles_with_pages=with_pages,
        taskset=[f"taskset -cp {row.processor} TID  # {_comment(row.name)}" for row in rows],
        omp_places=",".join(f"{{{row.processor}}}" for row in rows),
        cpuset={str(chip): cpu_list(found) for chip, found in sorted(of_chip.items())},
        rows=rows,
        pages=advice,
    )


def _comment(name: str) -> str:
    """Nothing in a thread's name can end the comment behind a command."""
    return "".join(c if c.isprintable() else "?" for c in name)


def on_host(rows: Sequence[Any], weights: dict[int, int]) -> list[PlacedThread]:
    """The same chips, as far as this machine has as many processors: numbers that exist. `rows`
    have a thread with its name, cluster and chip."""
    usable = sorted(os.sched_getaffinity(0))
    chips = sorted({row.chip for row in rows})
    parts = {
        chip: usable[i * len(usable) // len(chips) : (i + 1) * len(usable) // len(chips)]
        or [usable[i % len(usable)]]
        for i, chip in enumerate(chips)
    }
    placed: list[PlacedThread] = []
    for chip in chips:
        here = [row for row in rows if row.chip == chip]
        slots = processors({row.thread: 0 for row in here}, weights, len(parts[chip]), 1)
        placed += [
            PlacedThread(row.thread, row.name, row.cluster, chip, parts[chip][slots[row.thread]])
            for row in here
        ]
    return sorted(placed, key=lambda row: row.thread)


def given(text: str, threads: Threads) -> Pairs:
    """THREAD=CPU,… by name or number."""
    numbers = {name: thread for thread, name in threads.names.items()}
    contexts = threads.machine.chips.contexts
    found: dict[int, int] = {}
    for part in filter(None, text.split(",")):
        name, equals, cpu = part.rpartition("=")
        thread = numbers.get(name, int(name) if name.isdigit() else None)
        if not equals or thread not in threads.names:
            raise StallscopeError(
                f"--placement {part}: there is no such thread",
                f"there is: {', '.join(sorted(numbers))}",
                "--placement worker-0=3,worker-1=5",
            )
        if not cpu.isdigit() or int(cpu) >= contexts:
            raise StallscopeError(
                f"--placement {part}: there is no such processor",
                f"{threads.machine_name} has {contexts}, from 0 to {contexts - 1}",
            )
        found[int(thread)] = int(cpu)
    if not found:
        raise StallscopeError("--placement names no thread", now="--placement worker-0=3")
    return tuple(sorted(found.items()))


def page_advice(threads: Threads, run: CoresRun) -> list[PageAdvice]:
    """Pages whose memory is read mostly by another chip than their own."""
    by_page: dict[int, list[dict[str, int]]] = {}
    for row in run.table("shared_page").to_pylist():
        by_page.setdefault(row["page"], []).append(row)
    buckets = {row["bucket"]: row for row in run.table("bucket").to_pylist()}
    advice = []
    for page, rows in sorted(by_page.items()):
        total = sum(row["count"] for row in rows)
        most = max(rows, key=lambda row: row["count"])
        if most["chip"] == most["home"] or total < FEW_LINES or most["count"] <= MOSTLY * total:
            continue
        bucket = buckets[most["bucket"]]
        name = str(bucket["name"] or bucket["kind"])
        share = most["count"] / total
        advice.append(PageAdvice(page, name, most["home"], most["chip"], total, share))
    return sorted(advice, key=lambda row: (-row.lines, row.page))
