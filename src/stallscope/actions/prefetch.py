# SPDX-License-Identifier: Apache-2.0
"""Runs a program and runs ahead of its misses, as long as that pays.

Stallscope stays beside the program: it samples what the program waits for, writes prefetch code
into memory that it shares with it, changes the program's code so that this is used, measures, and
takes back what does not pay. The program's file is not touched.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stallscope import _engine, tables
from stallscope.actions.launch import Started, launched
from stallscope.actions.region import Region
from stallscope.actions.running import Run
from stallscope.actions.trial import Ended
from stallscope.actions.trying import SiteReport, Trying, left_alone
from stallscope.record.life import exit_status

RATE = 499  # samples a second while it looks for loads
SAMPLE = 20e-6  # seconds that one costs
WINDOW = 0.3  # seconds of the program's processor time, of looking
LONGEST_WINDOW = 3.0  # between looks, at most
LEAST_SAMPLES = 12  # of a window, that make a load delinquent
LEAST_SHARE = 0.08  # of a window's samples
STARTING = 2.0  # seconds that the runtime has to appear


@dataclass(frozen=True)
class PrefetchReport:
    command: list[str]
    status: int
    seconds: float
    cpu_seconds: float | None  # of the program, without the assist thread
    samples: int
    caught: int  # faults of inline code
    assist_faults: int
    patched_seconds: float  # in which at least one site was kept
    lost_seconds: float  # of the processor, by looking and trying; below 0 if that gained some
    rows: list[SiteReport]


def prefetch_run(
    command: Sequence[str],
    *,
    slack: int | None = None,
    deliveries: Sequence[str] = (),
    always: bool = False,
    control: bool = False,
) -> PrefetchReport:
    """Runs `command` to its end. Its outputs and its status are its own. `deliveries` limits how
    lines are brought: inline, assist. `always` keeps what is tried, whether it pays or not. With
    `control` the same code runs but for its prefetches: what it costs is all that is measured."""
    with launched(command) as started:
        return accompany(
            started, slack=slack, deliveries=deliveries, always=always, control=control
        )


def accompany(
    started: Started,
    *,
    slack: int | None = None,
    deliveries: Sequence[str] = (),
    always: bool = False,
    control: bool = False,
) -> PrefetchReport:
    """Stays with a program that was started with the runtime, to its end."""
    region = Region(started.file)
    run = Run(started.pid, region, started.moment, always, control)
    trying = Trying(run, slack, tuple(deliveries) or ("inline", "assist"))
    try:
        if started.is_static:
            trying.rows[0] = left_alone(0, "", None, "", "a static program loads no runtime")
        else:
            _accompany(run, trying)
        run.wait()
    except Ended:
        pass
    region.stop()
    return _report(run, list(started.command), list(trying.rows.values()))


def _accompany(run: Run, trying: Trying) -> None:
    """Looks, tries and watches until the program ends."""
    until = time.monotonic() + STARTING
    while not run.region.ready:
        run.sleep(0.005)
        if time.monotonic() > until:
            trying.rows[0] = left_alone(0, "", None, "", "the program did not load the runtime")
            return
    pause = WINDOW
    while True:
        if not run.same_program():
            run.region.stop()
            return
        found = _look(run)
        for load in trying.wanted(list(found)):
            trying.help(load, found[load])
            pause = WINDOW
        if run.kept and not run.always:
            trying.check_kept()
        run.let_run(pause)
        pause = min(LONGEST_WINDOW, pause * 1.5)


def _look(run: Run) -> dict[int, dict[str, Any]]:
    """Loads that the program was found waiting for, most first, with their places."""
    options = {
        "rate": RATE, "children": False, "loads": False, "min_latency": 0, "watch": 0, "seed": 1,
        "heap_logs": "",
    }  # fmt: skip
    try:
        live = _engine.Live.attach(run.pid, options, run.symbols)
    except _engine.EngineError:
        run.let_run(WINDOW)
        return {}
    try:
        run.let_run(WINDOW)
        live.poll()
    finally:
        live.stop()
    images = live.images()
    if not images:
        return {}
    columns = images[0]["tables"]
    samples = tables.to_rows("live_sample", columns["live_sample"])
    rows = tables.to_rows("operation", columns["operation"])
    operations = {row["operation"]: row for row in rows}
    run.samples += len(samples)
    run.budget.lost += SAMPLE * len(samples)
    counts: dict[int, int] = {}
    for sample in samples:
        row = operations.get(sample["operation"])
        if sample["state"] == "memory" and row is not None and row["kind"] != 1:
            counts[row["address"]] = counts.get(row["address"], 0) + 1
    least = max(LEAST_SAMPLES, LEAST_SHARE * len(samples))
    places = {row["address"]: row for row in rows}
    ordered = sorted(counts, key=lambda address: -counts[address])
    return {load: places[load] for load in ordered if counts[load] >= least}


def _report(run: Run, command: list[str], rows: list[SiteReport]) -> PrefetchReport:
    patched = run.patched
    if run.patched_since is not None:
        patched += time.monotonic() - run.patched_since
    header = run.region.header
    assert run.status is not None
    return PrefetchReport(
        command,
        exit_status(run.status),
        time.monotonic() - run.started,
        run.cpu_seconds,
        run.samples,
        header.caught,
        sum(slot.faults for slot in header.slots),
        patched,
        run.budget.lost,
        rows,
    )
