# SPDX-License-Identifier: Apache-2.0
"""Recorded programs on a simulated system of several cores, with monitors beside them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import _engine, machines, processes, watch_targets
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.monitors import Monitor, load
from stallscope.monitors.compiler import when_name
from stallscope.monitors.watches import SIMULATED, Watches, check_place
from stallscope.recording import (
    STREAM,
    VALUES,
    Recording,
    is_sampled,
    newest,
    open_recording,
    values_kept,
)

__all__ = ["MonitorRow", "System", "SystemResult", "monitor_run", "newest"]
MACHINE = "four-core"
CORES = 4
PROTOCOLS = ("moesi", "dragon")
LINE_BITS = 6
MOST = 200_000_000  # accesses of one recording: 8 bytes each
CHIPS = {"coherent": "L1D", "shared": "L2", "peer_latency": 44}


@dataclass(frozen=True)
class MonitorRow:
    """What became of one monitor."""

    monitor: str
    signals: int
    dropped: int
    tasks: int
    instructions: int
    busy: float  # share of all cycles
    acts: int
    faults: int
    words: dict[str, int]
    unknown: int = 0  # accesses that it was not told of: what they read or wrote is not known


@dataclass(frozen=True)
class Act:
    cycle: int
    monitor: str
    feature: str
    a: int
    b: int


@dataclass(frozen=True)
class SystemResult:
    recordings: tuple[str, ...]
    machine: str
    cores: int
    protocol: str  # that it began with
    cycles: int
    ended: tuple[int, ...]  # cycles, by recording
    instructions: int
    accesses: int
    switches: int
    signals: int
    dropped: int
    monitor_busy: float
    interrupts: int
    counts: dict[str, int]
    rows: tuple[MonitorRow, ...]
    acts: tuple[Act, ...]
    faults: tuple[str, ...]
    values: tuple[str, ...] = ()  # memory whose values recordings kept, where they did not keep all


def monitor_row(
    monitor: Monitor, state: dict[str, Any], words: dict[str, int], acts: int
) -> MonitorRow:
    account = state["account"]
    busy = account["busy"] + account["starting"] + account["waking"]
    return MonitorRow(
        monitor=monitor.name,
        signals=account["signals"],
        dropped=account["dropped_high"] + account["dropped_low"],
        tasks=account["tasks"],
        instructions=account["instructions"],
        busy=busy / max(state["now"], 1),
        acts=acts,
        faults=account["faults"],
        words=words,
        unknown=account["unknown"],
    )


def faults_of(monitor: Monitor, state: dict[str, Any]) -> list[str]:
    return [f"{monitor.name}: cycle {cycle:,}: {what}" for what, cycle, *_ in state["faults"]]


class System:
    """Programs whose threads are loaded once and run as often as one likes."""

    def __init__(
        self,
        recordings: Sequence[Recording | str | Path],
        machine: str = MACHINE,
        watches: Watches | None = None,
    ) -> None:
        """`watches`: memory whose accesses monitors are told of, in what recordings call it."""
        self.watches = watches or Watches()
        self.valued = True  # all recordings know what memory held
        self.values: list[str] = []  # of these parts, where not of all
        self.machine_name = machine
        self.machine = machines.load(machine)
        self.paths: list[str] = []
        self._threads = _engine.Threads()
        for one in recordings:
            self._load(one if isinstance(one, Recording) else open_recording(one))

    def _load(self, opened: Recording) -> None:
        if is_sampled(opened.meta):
            raise StallscopeError(
                "a simulated system needs every access",
                f"{opened.path.name} was recorded by --source {opened.meta.source}",
                "stallscope record --trace -- PROGRAM",
            )
        images = [image for image in processes.choose(opened) if image.meta.trace]
        if len(images) != 1:
            what = "has no trace" if not images else f"has {len(images)} processes"
            raise StallscopeError(
                f"{opened.path.name} {what}",
                now="stallscope record --trace --no-children -- PROGRAM",
            )
        self.paths.append(str(opened.path))
        ranges, names = self._ranges(images[0])
        values = images[0].path / VALUES
        self.valued = self.valued and values.exists()
        self.values += values_kept(images[0])
        watches = self.watches
        kept = str(values) if watches.data and values.exists() else ""
        words = (ranges, names, watches.access, kept, watches.data)
        try:
            self._threads.load(str(images[0].path / STREAM), LINE_BITS, MOST, *words)
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error

    def _ranges(self, image: Recording) -> tuple[list[tuple[int, int, int]], list[int]]:
        ranges = []
        for number, text in enumerate(self.watches.targets):
            target = watch_targets.find(image, text)
            if target.heap is not None:
                raise StallscopeError(f"{text}: monitors watch addresses and variables")
            ranges += [(start, end, number) for start, end in target.ranges]
        return ranges, [when_name(text) for text in self.watches.targets]

    def _check(self, monitors: Sequence[Monitor]) -> None:
        check_place(monitors, SIMULATED)
        for one in monitors:
            missing = set(one.watch) - set(self.watches.targets)
            if missing or (one.looks_at_data and not self.watches.data):
                raise StallscopeError(
                    f"{one.name} watches what was not loaded",
                    now="System(recordings, watches=Watches.of(monitors)), or monitor_run",
                )
            if one.looks_at_data and not self.valued:
                raise StallscopeError(
                    f"{one.name} looks at what was read or written, and a recording has only "
                    "addresses",
                    now="stallscope record --trace --values TARGET -- PROGRAM",
                )

    def run(
        self,
        monitors: Sequence[Monitor | str] = (),
        *,
        protocol: str = "moesi",
        cores: int = CORES,
        **options: Any,
    ) -> SystemResult:
        """`options` are those of the system: sequential, slice, memory_bound, prefetch, check,
        bus_line, bus_word, bus_address, memory_line, store_buffer, context, protocols."""
        if protocol not in PROTOCOLS:
            raise StallscopeError(
                f"there is no protocol {protocol!r}",
                f"there is: {', '.join(PROTOCOLS)}",
                nearest(protocol, list(PROTOCOLS)),
            )
        if not 1 <= cores <= 64:
            raise StallscopeError(f"{cores} cores: between 1 and 64")
        loaded = [one if isinstance(one, Monitor) else load(one) for one in monitors]
        self._check(loaded)
        chips = {**CHIPS, "cores": cores, "protocol": protocol}
        images = [(one.image.to_engine(), dict(one.config)) for one in loaded]
        try:
            found = self._threads.run(self.machine.to_engine(), chips, options, images)
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error
        return self._result(found, loaded, protocol, cores)

    def _result(
        self, found: dict[str, Any], loaded: Sequence[Monitor], protocol: str, cores: int
    ) -> SystemResult:
        rows, faults = [], []
        for number, (monitor, state) in enumerate(zip(loaded, found["monitors"], strict=True)):
            words = {name: state["scratch"][at // 8] for name, at in monitor.image.words.items()}
            acts = sum(1 for act in found["acts"] if act[0] == number)
            rows.append(monitor_row(monitor, state, words, acts))
            faults += faults_of(monitor, state)
        counts = (
            "misses upgrades updates write_invalidates write_backs bus_busy bus_waits memory_busy "
            "memory_waits contexts together update_cycles illegal"
        )
        return SystemResult(
            recordings=tuple(self.paths),
            machine=self.machine_name,
            cores=cores,
            protocol=protocol,
            cycles=found["cycles"],
            ended=tuple(found["ended"]),
            instructions=found["instructions"],
            accesses=found["accesses"],
            switches=found["switches"],
            signals=sum(row.signals for row in rows),
            dropped=sum(row.dropped for row in rows),
            monitor_busy=max((row.busy for row in rows), default=0.0),
            interrupts=found["interrupts"],
            counts={name: found[name] for name in counts.split()},
            rows=tuple(rows),
            acts=tuple(
                Act(cycle, loaded[number].name, feature, a, b)
                for number, feature, a, b, cycle in found["acts"]
            ),
            faults=tuple(faults),
            values=tuple(dict.fromkeys(self.values)),
        )


def recorded(
    program: Sequence[str], machine: str = MACHINE, watches: Watches | None = None
) -> System:
    """A program that is run and recorded for this alone; nothing of the recording stays."""
    from stallscope.record import record

    with tempfile.TemporaryDirectory(prefix="stallscope-monitor-") as folder:
        made = record(
            program,
            output=Path(folder) / "program.stallscope",
            machine="none",
            trace=True,
            values="all" if watches is not None and watches.data else (),
            turn=200,
            children=False,
        )
        return System([made.recording], machine, watches)


def monitor_run(
    monitors: str | Monitor | Sequence[Monitor | str],
    recordings: Recording | str | Path | Sequence[Recording | str | Path] | None = None,
    *,
    machine: str = MACHINE,
    watch: Sequence[str] = (),
    **options: Any,
) -> SystemResult:
    """Recordings (the newest here when not told), one after the other, with monitors beside them;
    `watch` is memory that they are told of beside what they watch themselves; options are those of
    `System.run`."""
    named = [monitors] if isinstance(monitors, str | Monitor) else list(monitors)
    asked = [one if isinstance(one, Monitor) else load(one) for one in named]
    if recordings is None:
        recordings = [open_recording()]
    several = [recordings] if isinstance(recordings, Recording | str | Path) else list(recordings)
    return System(several, machine, Watches.of(asked, watch)).run(asked, sequential=True, **options)
