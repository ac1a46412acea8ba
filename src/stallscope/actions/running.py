# SPDX-License-Identifier: Apache-2.0
"""A program with the prefetch runtime in it, from outside."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from dataclasses import dataclass, field

from stallscope import _engine
from stallscope.actions.region import Region
from stallscope.actions.sites import Place
from stallscope.actions.trial import Budget, Ended, Watched, processor_time
from stallscope.actions.ways import Way
from stallscope.record.life import FORWARDED, FROM_THE_KERNEL, wait_for_signal

LONGEST_WAIT = 60.0  # seconds in which a signal is waited for
PATIENCE = 10  # times as long by the clock, in which a program must have used its processor time
SHORTEST = 0.001  # seconds between looks at it


@dataclass
class Run:
    """One program with its runtime."""

    pid: int
    region: Region
    started: float
    always: bool = False  # sites are kept whether they pay or not
    control: bool = False  # sites bring nothing
    status: int | None = None
    cpu_seconds: float | None = None  # of the program alone
    samples: int = 0
    kept: list[Way] = field(default_factory=list)
    patched_since: float | None = None
    patched: float = 0.0
    symbols: _engine.SymbolCache = field(default_factory=_engine.SymbolCache)

    @property
    def place(self) -> Place:
        spots = [spot for way in self.kept for spot in way.spots]
        return Place(self.pid, self.region, self.patch, spots)

    @functools.cached_property
    def watched(self) -> Watched:
        return Watched(processor_time(self.pid), self.alive)

    @functools.cached_property
    def budget(self) -> Budget:
        return Budget(self.watched.used)

    def alive(self, within: float = 0) -> bool:
        """Passes on what arrives in so many seconds; returns as soon as the program has ended."""
        if self.status is None:
            info = wait_for_signal({*FORWARDED, signal.SIGCHLD}, within)
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
        while (left := until - time.monotonic()) > 0 and self.alive(left):
            pass
        if not self.alive():
            raise Ended

    def let_run(self, seconds: float) -> None:
        """Until the program has had so much processor time, whoever else wanted the processor, or
        hardly wants any itself."""
        enough = self.watched.used() + seconds
        until = time.monotonic() + PATIENCE * seconds
        while (left := enough - self.watched.used()) > 0 and time.monotonic() < until:
            self.sleep(max(left, SHORTEST))

    def wait(self) -> None:
        """Until the program has ended."""
        while self.alive(LONGEST_WAIT):
            pass

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
