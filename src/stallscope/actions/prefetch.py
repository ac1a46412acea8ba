# SPDX-License-Identifier: Apache-2.0
"""Runs a program and runs ahead of its misses, as long as that pays.

Stallscope stays beside the program: it samples what the program waits for, writes prefetch code
into memory that it shares with it, changes the program's code so that this is used, measures, and
takes back what does not pay. The program's file is not touched.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stallscope import _engine, tables
from stallscope.actions.launch import Started, launched
from stallscope.actions.region import Region
from stallscope.actions.sites import Candidate, candidates
from stallscope.actions.trial import (
    Budget,
    Ended,
    Gain,
    Trial,
    Watched,
    measure,
    processor_time,
)
from stallscope.record.life import FORWARDED, FROM_THE_KERNEL, exit_status, wait_for_signal

RATE = 499  # samples a second while it looks for loads
SAMPLE = 20e-6  # seconds that one costs
WINDOW = 0.3  # seconds of looking
LONGEST_WINDOW = 3.0  # between looks, at most
LEAST_SAMPLES = 12  # of a window, that make a load delinquent
LEAST_SHARE = 0.08  # of a window's samples
MARGIN = 1.02  # that the lower bound of the gain must exceed
UNMETERED = 1.06  # the same, where what is measured against is a loop with a counter in it
LEAST_LEFT = 100  # times a second that a loop must be left, for that to be a measure
QUICK, SURE = 6, 24  # pairs of intervals: to choose by, and to decide by
WATCHED = 2.0  # seconds between looks at what was kept
STARTING = 2.0  # seconds that the runtime has to appear


class SiteReport(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    pc: int
    function: str
    line: int | None
    kind: str
    delivery: str  # inline, assist or none
    distance: int
    slack: int
    state: str  # kept, rolled back, left alone
    reason: str
    gain: float | None
    low: float | None
    high: float | None
    pairs: int


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


@dataclass
class _Run:
    """One program with its runtime."""

    pid: int
    region: Region
    started: float
    always: bool = False  # sites are kept whether they pay or not
    control: bool = False  # sites bring nothing
    status: int | None = None
    cpu_seconds: float | None = None  # of the program alone
    samples: int = 0
    rows: dict[int, SiteReport] = field(default_factory=dict)
    kept: list[Candidate] = field(default_factory=list)
    patched_since: float | None = None
    patched: float = 0.0
    symbols: _engine.SymbolCache = field(default_factory=_engine.SymbolCache)

    @functools.cached_property
    def watched(self) -> Watched:
        return Watched(processor_time(self.pid), self.alive)

    @functools.cached_property
    def budget(self) -> Budget:
        return Budget(self.watched.used)

    def alive(self) -> bool:
        if self.status is None:
            info = wait_for_signal({*FORWARDED, signal.SIGCHLD}, 0)
            sent = info is not None and info.si_code != FROM_THE_KERNEL
            if info is not None and sent and info.si_signo in FORWARDED:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, info.si_signo)
            ended, status, usage = os.wait4(self.pid, os.WNOHANG)
            if ended:
                self.status = status
                self.cpu_seconds = usage.ru_utime + usage.ru_stime
        return self.status is None

    def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.alive() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.01))
        if self.status is not None:
            raise Ended

    def patch(self, rows: list[tuple[int, bytes, bytes]]) -> list[bool]:
        try:
            done, ended = _engine.patch_process(self.pid, rows)
        except _engine.EngineError:
            return [False] * len(rows)
        if ended is not None:
            self.status = ended
            raise Ended
        return done

    def same_program(self) -> bool:
        """An exec replaces everything; what was patched is gone with it."""
        try:
            with open(f"/proc/{self.pid}/maps") as maps:  # noqa: PTH123
                return "stallscope-ahead" in maps.read()
        except OSError:
            return False


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
    run = _Run(started.pid, region, started.moment, always, control)
    try:
        if started.is_static:
            run.rows[0] = _alone(0, "", None, "", "a static program loads no runtime")
        else:
            _accompany(run, slack, tuple(deliveries) or ("inline", "assist"))
        while run.alive():
            time.sleep(0.005)
    except Ended:
        pass
    region.stop()
    return _report(run, list(started.command))


def _accompany(run: _Run, slack: int | None, deliveries: tuple[str, ...]) -> None:
    """Looks, tries and watches until the program ends."""
    until = time.monotonic() + STARTING
    while not run.region.ready:
        run.sleep(0.005)
        if time.monotonic() > until:
            run.rows[0] = _alone(0, "", None, "", "the program did not load the runtime")
            return
    pause = WINDOW
    while True:
        if not run.same_program():
            run.region.stop()
            return
        found = _look(run)
        for load, count in found:
            if load not in run.rows:
                _help(run, load, count, slack, deliveries)
                pause = WINDOW
        if run.kept and not run.always:
            _check_kept(run)
        run.sleep(pause)
        pause = min(LONGEST_WINDOW, pause * 1.5)


def _look(run: _Run) -> list[tuple[int, dict[str, Any]]]:
    """Loads that the program was found waiting for, most first."""
    options = {
        "rate": RATE, "children": False, "loads": False, "min_latency": 0, "watch": 0, "seed": 1,
        "heap_logs": "",
    }  # fmt: skip
    try:
        live = _engine.Live.attach(run.pid, options, run.symbols)
    except _engine.EngineError:
        run.sleep(WINDOW)
        return []
    try:
        run.sleep(WINDOW)
        live.poll()
    finally:
        live.stop()
    images = live.images()
    if not images:
        return []
    columns = images[0]["tables"]
    samples = tables.to_arrow("live_sample", columns["live_sample"]).to_pylist()
    rows = tables.to_arrow("operation", columns["operation"]).to_pylist()
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
    return [(load, places[load]) for load in ordered if counts[load] >= least]


def _help(
    run: _Run, load: int, place: dict[str, Any], slack: int | None, deliveries: tuple[str, ...]
) -> None:
    """Tries what there is for a load, and keeps what pays best."""
    where = (load, place["function"], place["line"])
    kind, ways, reason = candidates(run.pid, run.region, load, slack, not run.control)
    ways = [way for way in ways if way.delivery in deliveries]
    run.rows[load] = _alone(*where, kind, reason or "no delivery is left")
    best: SiteReport | None = None
    for way in ways:
        if any(way.site.address == kept.site.address for kept in run.kept):
            run.rows[load] = _alone(*where, kind, "its loop has a site already")
            return
        report = _try(run, way, where, kind)
        if best is None or report.state == "kept":
            best = report
        run.rows[load] = best
        if report.state == "kept":
            break


def _try(run: _Run, way: Candidate, where: tuple[int, str, int | None], kind: str) -> SiteReport:
    def row(state: str, reason: str, gain: Gain | None) -> SiteReport:
        return SiteReport(
            *where,
            kind,
            way.delivery,
            way.distance,
            way.slack,
            state,
            reason,
            gain=gain.ratio if gain else None,
            low=gain.low if gain else None,
            high=gain.high if gain else None,
            pairs=gain.pairs if gain else 0,
        )

    way.install()
    if not _installed(run, way):
        return row("left alone", "its code is not what was read", None)
    if run.always:
        way.set(way.settings[0])
        return _keep(run, way, row("kept", "whether it pays was not asked", None))
    gain = _tuned(run, way)
    if gain is None:
        _undo(run, way)
        return row("rolled back", "the program does something else now", None)
    if gain.low < _margin(way):
        _undo(run, way)
        return row("rolled back", "it does not pay", gain)
    return _keep(run, way, row("kept", "", gain))


def _keep(run: _Run, way: Candidate, report: SiteReport) -> SiteReport:
    way.switch(True)
    run.kept.append(way)
    run.patched_since = run.patched_since or time.monotonic()
    return report


def _tuned(run: _Run, way: Candidate) -> Gain | None:
    """The gain of the best setting."""
    trial = _trial(run, way)
    best: tuple[Gain, Any] | None = None
    for setting in way.settings:
        way.set(setting)
        gain = measure(trial, run.watched, QUICK, 1.0)
        if gain is None:
            return None
        if best is None or gain.ratio > best[0].ratio:
            best = (gain, setting)
    assert best is not None
    if best[0].ratio < 1.0:
        return best[0]
    way.set(best[1])
    return measure(trial, run.watched, SURE, _margin(way))


def _margin(way: Candidate) -> float:
    return MARGIN if way.meter is not None else UNMETERED


def _trial(run: _Run, way: Candidate) -> Trial:
    def wait() -> None:
        way.switch(False)
        site = way.site
        if way.meter is None:
            run.patch([(site.address, site.patch, site.original)])
        while not run.budget.allows:
            run.sleep(0.02)
        if way.meter is None:
            run.patch([(site.address, site.original, site.patch)])

    return Trial(way.switch, way.progress, run.budget, wait)


def _installed(run: _Run, way: Candidate) -> bool:
    """Patches a site. With a meter beside it, off means that nothing of it is left in the loop."""
    site, meter = way.site, way.meter
    rows = [(site.address, site.original, site.patch)]
    if meter is not None:
        rows.append((meter.address, meter.original, meter.patch))
    done = run.patch(rows)
    if not all(done):
        run.patch([(row[0], row[2], row[1]) for row, one in zip(rows, done, strict=True) if one])
        return False
    if meter is None:
        return True
    if way.metered is not None:
        if not _often(run, way.metered):
            run.patch([(meter.address, meter.patch, meter.original)])
            way.meter = None
            return True
        way.progress = way.metered
    way.switch = _switch(run, way)
    return True


def _often(run: _Run, metered: Callable[[], int]) -> bool:
    """Whether a loop is left often enough to measure by that."""
    used = processor_time(run.pid)
    start, left = used(), metered()
    run.sleep(0.05)
    return metered() - left >= LEAST_LEFT * (used() - start) > 0


def _switch(run: _Run, way: Candidate) -> Callable[[bool], None]:
    """Puts the site in and takes it out."""
    site, inner, state = way.site, way.switch, [True]

    def switch(on: bool) -> None:
        if on != state[0]:
            before, after = (site.original, site.patch) if on else (site.patch, site.original)
            run.patch([(site.address, before, after)])
            state[0] = on
        inner(on)

    return switch


def _undo(run: _Run, way: Candidate) -> None:
    way.switch(False)
    if way.meter is None:
        run.patch([(way.site.address, way.site.patch, way.site.original)])
    else:
        run.patch([(way.meter.address, way.meter.patch, way.meter.original)])


def _check_kept(run: _Run) -> None:
    """What does not pay any more is taken back."""
    for way in list(run.kept):
        if time.monotonic() - way.looked_at < WATCHED:
            continue
        way.looked_at = time.monotonic()
        gain = measure(Trial(way.switch, way.progress, run.budget), run.watched, QUICK)
        way.switch(True)
        if gain is None or gain.high >= 1.0:
            continue
        _undo(run, way)
        run.kept.remove(way)
        old = next(row for row in run.rows.values() if row.pc == way.load)
        run.rows[way.load] = msgspec.structs.replace(
            old, state="rolled back", reason="it did not pay any more"
        )
    if not run.kept and run.patched_since is not None:
        run.patched += time.monotonic() - run.patched_since
        run.patched_since = None


def _alone(pc: int, function: str, line: int | None, kind: str, reason: str) -> SiteReport:
    return SiteReport(
        pc, function, line, kind, "none", 0, 0, "left alone", reason, None, None, None, 0
    )


def _report(run: _Run, command: list[str]) -> PrefetchReport:
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
        list(run.rows.values()),
    )
