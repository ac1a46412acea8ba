# SPDX-License-Identifier: Apache-2.0
"""Watches a host: samples its programs in turn, by the clock, within a budget of processor time.

Every recording is made beside its place and moved there when it is whole, so that whatever ends the
agent leaves nothing half done, and the next one clears away what is left. Time is counted by the
monotonic clock, and how old recordings are by how long the agent has run since: wall clocks that
jump change only the days that recordings say.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from stallscope import meta
from stallscope.errors import StallscopeError
from stallscope.recording import SUFFIX, Recording
from stallscope.scale.busy import Busy, Chooser
from stallscope.scale.slim import slim

STATE = "agent.json"
FRESH = ".new-"
DAY = 86_400.0
FIRST_PAUSE = 5.0  # seconds after something failed; then twice as long each time
LONGEST_PAUSE = 900.0


@dataclass(frozen=True)
class Settings:
    folder: Path
    host: str = ""  # the name of this machine when not told
    budget: float = 0.01  # of one processor
    duration: float = 2.0  # seconds of a recording
    rate: int = 97  # samples a second of processor time
    keep_days: float = 14.0
    most_bytes: int = 1 << 30
    least_free: int = 256 << 20  # bytes on the disk below which nothing is recorded
    programs: tuple[str, ...] = ()  # only these; all that are busy when there are none

    def check(self) -> None:
        if not 0 < self.budget <= 1:
            raise StallscopeError(f"--budget {self.budget:g}", "a share of a processor", "1%")
        for name in ("duration", "rate", "keep_days", "most_bytes"):
            if not getattr(self, name) > 0:
                raise StallscopeError(f"--{name.replace('_', '-')}: it must be more than 0")


class State(msgspec.Struct):
    """What outlives the agent: how long it has run, and how many recordings it ever began."""

    seconds: float = 0.0
    number: int = 0
    ages: dict[str, float] = {}  # of each recording: `seconds` when it was made


@dataclass
class Numbers:
    """For whoever scrapes them. Guarded by `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    started: float = field(default_factory=time.monotonic)
    recordings: dict[str, int] = field(default_factory=dict)  # by program
    samples: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    failures: int = 0
    removed: int = 0
    kept: int = 0
    kept_bytes: int = 0
    cpu: float = 0.0  # seconds of processor time that the agent took


class Agent:
    """One host's. `run` returns when `stop` is set, or after some rounds."""

    def __init__(self, settings: Settings, say: Callable[[str], None] = lambda text: None) -> None:
        settings.check()
        self.settings = settings
        self.numbers = Numbers()
        self.stop = threading.Event()
        self._say = say
        self._chooser = Chooser(settings.programs)
        self._host = settings.host or socket.gethostname()
        self._last = time.monotonic()
        self._failed = 0  # times in a row
        self._prepare()
        self._state = self._read_state()

    def _prepare(self) -> None:
        """A folder of ours, without what an agent that was killed left half done."""
        folder = self.settings.folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in folder.glob(f"{FRESH}*"):
                shutil.rmtree(left, ignore_errors=True)
        except OSError as error:
            raise StallscopeError(f"cannot use {folder}", error.strerror or "") from error
        if not os.access(folder, os.W_OK):
            raise StallscopeError(f"cannot write to {folder}", now="--folder FOLDER")

    def _read_state(self) -> State:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self.settings.folder / STATE).read_bytes(), type=State)
        return State(number=self._largest())

    def _largest(self) -> int:
        """Of the recordings there: numbers go on where a lost state left them."""
        parts = [path.stem.rpartition("-")[2] for path in self._recordings()]
        return max((int(part) for part in parts if part.isdigit()), default=0)

    def _recordings(self) -> list[Path]:
        return sorted(self.settings.folder.glob(f"*{SUFFIX}"))

    def _write_state(self) -> None:
        now = time.monotonic()
        self._state.seconds += now - self._last
        self._last = now
        fresh = self.settings.folder / f"{FRESH}{STATE}"
        with suppress(OSError):  # a full disk: the numbers are guessed again
            fresh.write_bytes(msgspec.json.encode(self._state))
            fresh.replace(self.settings.folder / STATE)

    def run(self, rounds: int | None = None) -> None:
        done = 0
        while not self.stop.is_set() and (rounds is None or done < rounds):
            before, start = _spent(), time.monotonic()
            worked = self._round()
            done += 1
            self._write_state()
            used = _spent() - before
            with self.numbers.lock:
                self.numbers.cpu += used
            if rounds is None or done < rounds:
                self.stop.wait(self._pause(worked, used, time.monotonic() - start))

    def _pause(self, worked: bool, used: float, took: float) -> float:
        """Until what the round cost is within the budget."""
        rest = max(0.0, used / self.settings.budget - took)
        if self._failed:
            rest = max(rest, min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failed - 1)))
        elif not worked:
            rest = max(rest, FIRST_PAUSE)
        return rest

    def _round(self) -> bool:
        """Makes room, chooses, records. Nothing that goes wrong ends the agent."""
        try:
            self._make_room()
            if self._free() < self.settings.least_free:
                raise StallscopeError("the disk is nearly full", str(self.settings.folder))
            chosen = self._chooser.next()
            if chosen is None:
                return False
            self._record(chosen)
        except (StallscopeError, OSError) as error:
            self._failed += 1
            with self.numbers.lock:
                self.numbers.failures += 1
            self._say(str(error).splitlines()[0])
            return False
        self._failed = 0
        return True

    def _free(self) -> int:
        return shutil.disk_usage(self.settings.folder).free

    def _record(self, chosen: Busy) -> None:
        from stallscope.record import record

        settings = self.settings
        self._state.number += 1
        name = f"{chosen.plain_name}-{self._state.number:08d}{SUFFIX}"
        fresh = settings.folder / f"{FRESH}{name}"
        try:
            record(
                source="clock",
                pid=chosen.pid,
                duration=settings.duration,
                rate=settings.rate,
                children=False,
                output=fresh,
            )
            slim(fresh)
            facts = meta.read(fresh)
            labelled = {**facts.options, "host": self._host}
            meta.write(msgspec.structs.replace(facts, options=labelled), fresh)
            self._count(chosen.name, Recording(fresh))
            fresh.rename(settings.folder / name)
            self._state.ages[name] = self._state.seconds
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _count(self, program: str, recording: Recording) -> None:
        states = recording.table("live_sample").column("state").to_pylist()
        with self.numbers.lock:
            for counts, more in (
                (self.numbers.recordings, 1),
                (self.numbers.samples, len(states)),
                (self.numbers.waiting, states.count("memory")),
            ):
                counts[program] = counts.get(program, 0) + more

    def _make_room(self) -> None:
        """The oldest go first: those past their time, then until the rest is small enough."""
        kept = [(path, _size(path)) for path in self._by_age()]
        limit = self._state.seconds - self.settings.keep_days * DAY
        whole = sum(size for _, size in kept)
        removed = 0
        while kept:
            path, size = kept[0]
            young = self._state.ages.get(path.name, 0.0) >= limit
            if young and whole <= self.settings.most_bytes:
                break
            shutil.rmtree(path, ignore_errors=True)
            self._state.ages.pop(path.name, None)
            kept.pop(0)
            whole -= size
            removed += 1
        with self.numbers.lock:
            self.numbers.removed += removed
            self.numbers.kept, self.numbers.kept_bytes = len(kept), whole

    def _by_age(self) -> list[Path]:
        """Recordings that the state does not know are the oldest."""

        def age(path: Path) -> tuple[float, str]:
            return (self._state.ages.get(path.name, -1.0), path.stem.rpartition("-")[2])

        found = sorted(self._recordings(), key=age)
        names = {path.name for path in found}
        self._state.ages = {n: age for n, age in self._state.ages.items() if n in names}
        return found


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total


def _spent() -> float:
    """Processor time of this process, its threads and the children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
