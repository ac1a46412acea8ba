# SPDX-License-Identifier: Apache-2.0
"""Two programs at once in short turns, each frozen while the other runs.

What strangers do to a shared machine comes and goes in seconds: of two runs one after the other it
meets one more than the other; of two in turns it meets both alike.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TURN = 0.2  # seconds
PROCESSOR = 0  # that both programs run on: strangers may disturb one more than another
# A process puts itself into a group, which is frozen, and goes on as the program when it is thawed.
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Timed(NamedTuple):
    clock: float  # seconds of its turns
    used: float  # seconds of the processor, by all of its processes
    out: bytes


class NoGroups(SystemExit):
    """Groups of processes cannot be frozen here."""

    def __init__(self, why: str) -> None:
        super().__init__(f"processes cannot be frozen here, which takes root and cgroup2: {why}")


def both(
    program: str, commands: Sequence[Sequence[str]], given: Mapping[str, str]
) -> tuple[Timed, Timed]:
    """Runs two commands in turns until both have ended, with `given` in their environment. Both run
    `program`, by itself or not; that stays on one processor, what else they start may choose."""
    runs: list[_Run] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for command in commands:
                runs.append(_Run(program, command, given, Path(folder) / str(len(runs))))
            while any(run.status is None for run in runs):
                for run, other in (runs, runs[::-1]):
                    run.turn(TURN if other.status is None else None)
        finally:
            for run in runs:
                run.end()
        return runs[0].timed(), runs[1].timed()


class _Run:
    def __init__(
        self, program: str, command: Sequence[str], given: Mapping[str, str], out: Path
    ) -> None:
        self.status: int | None = None
        self._program: str | None = str(Path(program).resolve())  # until it has its processor
        self._command, self._out, self._clock = command, out, 0.0
        self._group = _root() / f"stallscope-{os.getpid()}-{out.name}"
        try:
            self._group.mkdir()
            self._freeze(True)
        except OSError as error:
            raise NoGroups(f"{self._group}: {error.strerror}") from None
        shell = ["sh", "-c", _ENTER, str(self._group), *command]
        with out.open("wb") as file:
            self._process = subprocess.Popen(shell, stdout=file, env={**os.environ, **given})
        self._ends = os.pidfd_open(self._process.pid)

    def _freeze(self, frozen: bool) -> None:
        (self._group / "cgroup.freeze").write_text(str(int(frozen)))

    def turn(self, most: float | None) -> None:
        """Lets it run for so long, or until it ends."""
        if self.status is not None:
            return
        began = time.perf_counter()
        self._freeze(False)
        if select.select([self._ends], [], [], most)[0]:
            self._clock += time.perf_counter() - began
            _, status, self._usage = os.wait4(self._process.pid, 0)
            self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
            return
        self._freeze(True)
        self._clock += time.perf_counter() - began
        if self._program is not None:
            self._pin(self._program)

    def _pin(self, program: str) -> None:
        for pid in sorted(map(int, (self._group / "cgroup.procs").read_text().split())):
            if str(Path(f"/proc/{pid}/exe").readlink()) == program:
                os.sched_setaffinity(pid, {PROCESSOR})
                self._program = None
                return

    def timed(self) -> Timed:
        if self.status != 0:
            raise SystemExit(f"{self._command[0]} ended with {self.status}")
        used = self._usage.ru_utime + self._usage.ru_stime
        return Timed(self._clock, used, self._out.read_bytes())

    def end(self) -> None:
        """Leaves nothing behind."""
        if self.status is None:
            (self._group / "cgroup.kill").write_text("1")
            self._freeze(False)
            self._process.wait()
        os.close(self._ends)
        until = time.monotonic() + 5  # what it left running may take a moment to end
        while (self._group / "cgroup.procs").read_text() and time.monotonic() < until:
            time.sleep(0.01)
        self._group.rmdir()


def _root() -> Path:
    """Where groups of version 2 are; their freezer needs no controller."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    raise NoGroups("no cgroup2 is mounted")
