# SPDX-License-Identifier: Apache-2.0
"""Monitors beside a live process: their cores are simulated as ever, and told what a process lets
one see without counters. A cycle is a nanosecond."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope.errors import StallscopeError
from stallscope.monitors import Monitor, load
from stallscope.monitors.assembler import events
from stallscope.monitors.compiler import when_name
from stallscope.monitors.simulator import Simulator
from stallscope.monitors.watches import LIVE, Watches, check_place
from stallscope.record.attached import AttachedWatch
from stallscope.record.clock import command_of
from stallscope.record.counted import FAULTS, SWITCHES, TIME, Counted, from_usage
from stallscope.record.life import check_ours, environment, exit_status, has_ended
from stallscope.record.preflight import preflight
from stallscope.record.watch import LiveEntries, start
from stallscope.record.watch_spec import range_lines
from stallscope.systems import Act, MonitorRow, faults_of, monitor_row

POLL_SECONDS = 0.01
BUSY_POLL_SECONDS = 0.0002  # while watched memory is accessed
MOST_PIECES = 10_000  # in which the events of one poll are told
WATCHED, STOPS = "watched", "interrupt"


@dataclass(frozen=True)
class LiveRun:
    command: tuple[str, ...]
    pid: int
    seconds: float
    status: int | None  # of a program that was started: as a shell shows it
    watched_by: str
    stopped: bool  # by a monitor
    told: dict[str, int]  # events, by name
    signals: int
    dropped: int
    monitor_busy: float
    rows: tuple[MonitorRow, ...]
    acts: tuple[Act, ...]
    faults: tuple[str, ...]


def monitor_live(
    monitors: str | Monitor | Sequence[Monitor | str],
    command: Sequence[str] = (),
    *,
    pid: int | None = None,
    watch: Sequence[str] = (),
    duration: float | None = None,
    on_act: Callable[[Act], object] | None = None,
) -> LiveRun:
    """Runs `command`, or looks at process `pid`, with monitors beside it until it ends, a monitor
    stops it (action `interrupt`), or `duration` seconds are over. `on_act` is called for each act,
    while the process goes on, or, of `interrupt`, while it is stopped."""
    asked = [monitors] if isinstance(monitors, str | Monitor) else list(monitors)
    loaded = [one if isinstance(one, Monitor) else load(one) for one in asked]
    check_place(loaded, LIVE)
    watches = Watches.of(loaded, watch)
    if pid is not None:
        return _attached(loaded, watches, pid, duration, on_act)
    return _started(loaded, watches, command, duration, on_act)


def _attached(
    monitors: Sequence[Monitor],
    watches: Watches,
    pid: int,
    duration: float | None,
    on_act: Callable[[Act], object] | None,
) -> LiveRun:
    check_ours(pid)
    if any(_stalls(one) for one in monitors):
        raise StallscopeError(
            "a process that runs is not held up at its accesses (stall = true)",
            now="stallscope monitor run MONITOR --live -- PROGRAM",
        )
    if watches.data and watches.targets:
        raise StallscopeError(
            "what memory of a process that runs held at an access is not known",
            now="stallscope monitor run MONITOR --live -- PROGRAM",
        )
    entries = _Outside(pid, watches) if watches.targets else None
    beside = _Beside(monitors, watches, pid, tuple(command_of(pid)), entries, on_act)
    beside.counted.read()  # what was before is not told
    with contextlib.suppress(KeyboardInterrupt):
        while beside.goes_on(duration) and not has_ended(pid):
            time.sleep(POLL_SECONDS)
            beside.look()
    return beside.result(None)


class _Outside:
    """As LiveEntries, of a process that runs already."""

    mode = "breakpoints, from outside"

    def __init__(self, pid: int, watches: Watches) -> None:
        self._watch = AttachedWatch(pid, watches.targets, watches.access)

    def take(self) -> Iterator[tuple[int, int, int, int]]:
        for hit in self._watch.take():
            yield hit.time, hit.word.watch, hit.thread, 0


def _started(
    monitors: Sequence[Monitor],
    watches: Watches,
    command: Sequence[str],
    duration: float | None,
    on_act: Callable[[Act], object] | None,
) -> LiveRun:
    target = preflight(command, native=True)
    words = tuple(map(str, command))
    with tempfile.TemporaryDirectory(prefix="stallscope-live-") as made:
        folder = Path(made)
        if not watches.targets:
            pid = os.posix_spawn(target.argv[0], target.argv, environment())
            return _followed(_Beside(monitors, watches, pid, words, None, on_act), duration)
        if target.is_static:
            raise StallscopeError(
                f"{target.command[0]} is linked statically", "nothing can be preloaded into it"
            )
        program = Path(os.fsdecode(target.argv[0]))
        lines = range_lines(program, watches.targets, watches.access)
        waits = int(any(_stalls(one) for one in monitors))
        lines.append(f"reader {os.getpid()} {waits}")
        (folder / "spec").write_text("\n".join(lines) + "\n")
        pid = start(target, folder)
        entries = LiveEntries(folder)
        return _followed(_Beside(monitors, watches, pid, words, entries, on_act), duration)


def _stalls(monitor: Monitor) -> bool:
    return any(one.stalls and events()[one.event] == WATCHED for one in monitor.image.detectors)


def _followed(beside: _Beside, duration: float | None) -> LiveRun:
    """To the end of a program of ours."""
    try:
        while True:
            ended, status, usage = os.wait4(beside.pid, os.WNOHANG)
            if ended:
                beside.look(from_usage(usage))
                return beside.result(exit_status(status))
            busy = beside.look()
            if not beside.goes_on(duration):
                break
            time.sleep(BUSY_POLL_SECONDS if busy else POLL_SECONDS)
    finally:
        with contextlib.suppress(OSError):
            os.kill(beside.pid, signal.SIGKILL)
    os.waitpid(beside.pid, 0)
    return beside.result(None)


class _Beside:
    """Monitors, and a process that they are told of."""

    def __init__(
        self,
        monitors: Sequence[Monitor],
        watches: Watches,
        pid: int,
        command: tuple[str, ...],
        entries: LiveEntries | _Outside | None,
        on_act: Callable[[Act], object] | None,
    ) -> None:
        self.pid = pid
        self.counted = Counted(pid)
        self._monitors = monitors
        self._names = [when_name(text) for text in watches.targets]
        self._command = command
        self._entries = entries
        self._on_act = on_act
        self._began = time.monotonic_ns()
        self._simulator = Simulator(*monitors)
        self._simulator.boot()
        self._now = max(self._simulator.state(i)["now"] for i in range(len(monitors)))
        self._every = _every(monitors)
        self._threads: dict[int, int] = {}
        self._acts: list[Act] = []
        self.told = dict.fromkeys((WATCHED, TIME, FAULTS, SWITCHES), 0)
        self.stopped = False

    def goes_on(self, duration: float | None) -> bool:
        over = duration is not None and time.monotonic_ns() - self._began > duration * 1e9
        return not self.stopped and not over

    def look(self, totals: dict[str, int] | None = None) -> bool:
        """Tells what happened since the last look, `totals` at the end; whether memory that is
        watched was accessed."""
        any_hit = False
        for when, watch, thread, value in self._entries.take() if self._entries else ():
            any_hit = True
            core = self._threads.setdefault(thread, len(self._threads))
            self._tell(WATCHED, when, core=core, address=self._names[watch], data=value)
            if self.stopped:
                return True
        until = time.monotonic_ns() - self._began
        for event, count in self.counted.read(totals).items():
            self._tell_many(event, count, until)
        return any_hit

    def _tell_many(self, event: str, count: int, until: int) -> None:
        """Spread over the time since the last look, as they may have come."""
        if count == 0:
            return
        if event not in self._every:
            self.told[event] += count
            return
        pieces = min(max(count // self._every[event], 1), MOST_PIECES)
        start = self._now
        for piece in range(1, pieces + 1):
            share = count * piece // pieces - count * (piece - 1) // pieces
            when = start + max(until - start, 0) * piece // pieces
            self._tell(event, when, count=share)

    def _tell(self, event: str, when: int, **payload: int) -> None:
        self._now = max(self._now, when)
        self.told[event] += payload.get("count", 1)
        self._simulator.notify(event, self._now, **payload)
        self._simulator.boot()  # to the end of its tasks, which take nanoseconds
        self._take_acts()

    def _take_acts(self) -> None:
        for number, feature, a, b, cycle in self._simulator.acts_from(len(self._acts)):
            act = Act(cycle, self._monitors[number].name, feature, a, b)
            self._acts.append(act)
            stops = feature == STOPS
            if stops:
                os.kill(self.pid, signal.SIGSTOP)
            if self._on_act is not None:
                self._on_act(act)
            if stops:
                self.stopped = True
                os.kill(self.pid, signal.SIGCONT)

    def result(self, status: int | None) -> LiveRun:
        rows, faults = [], []
        for number, monitor in enumerate(self._monitors):
            state: dict[str, Any] = self._simulator.state(number)
            words = {
                name: self._simulator.word(name, number=number) for name in monitor.image.words
            }
            acts = sum(1 for act in self._acts if act.monitor == monitor.name)
            rows.append(monitor_row(monitor, state, words, acts))
            faults += faults_of(monitor, state)
        return LiveRun(
            command=self._command,
            pid=self.pid,
            seconds=(time.monotonic_ns() - self._began) / 1e9,
            status=status,
            watched_by=self._entries.mode if self._entries else "",
            stopped=self.stopped,
            told=self.told,
            signals=sum(row.signals for row in rows),
            dropped=sum(row.dropped for row in rows),
            monitor_busy=max((row.busy for row in rows), default=0.0),
            rows=tuple(rows),
            acts=tuple(self._acts),
            faults=tuple(faults),
        )


def _every(monitors: Sequence[Monitor]) -> dict[str, int]:
    """The smallest mask of each event that somebody listens to."""
    found: dict[str, int] = {}
    for monitor in monitors:
        for one in monitor.image.detectors:
            name = events()[one.event]
            found[name] = min(found.get(name, one.every), one.every)
    return found
