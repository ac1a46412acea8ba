# SPDX-License-Identifier: Apache-2.0
"""Runs a program in several ways, turn by turn, so that a slow minute of the machine hits them all;
what is reported are medians."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.programs import FOLDER, Program
from stallscope.recording import open_recording

STALLSCOPE = str(Path(sys.executable).with_name("stallscope"))
RECORDING = FOLDER / "bench.stallscope"
_RECORD = [STALLSCOPE, "record", "-q", "-f", "-o", str(RECORDING), "--machine"]
PREFIXES: dict[str, list[str]] = {
    "native": [],
    "count": [*_RECORD, "none", "--"],
    "trace": [*_RECORD, "none", "--trace", "--"],
    "machine": [*_RECORD, "default", "--"],
    "no heap": [*_RECORD, "default", "--no-heap", "--"],
    "cachegrind": ["valgrind", "--tool=cachegrind", "--cachegrind-out-file=/dev/null"],
    "none": ["valgrind", "--tool=none"],
}
SAMPLE_SECONDS = 0.02


class BenchmarkError(Exception):
    pass


@dataclass(frozen=True)
class Trace:
    """What one kept trace cost."""

    accesses: int
    bytes: int

    @property
    def bytes_per_access(self) -> float:
        return self.bytes / self.accesses


@dataclass
class Measured:
    """All runs of one program."""

    name: str
    command: list[str]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    peak_bytes: int = 0  # of the recorder itself, over all runs with a trace
    trace: Trace | None = None

    def median(self, way: str) -> float:
        return statistics.median(self.seconds[way])

    def ratio(self, way: str, to: str) -> float:
        return self.median(way) / self.median(to)

    def processor_ratio(self, way: str, to: str) -> float:
        """By processor time of all processes together, which others on the machine disturb less."""
        return statistics.median(self.processor[way]) / statistics.median(self.processor[to])


@dataclass(frozen=True)
class Run:
    seconds: float
    processor: float  # seconds of the process and all below it
    peak_bytes: int  # of the process alone


def _peak_bytes(pid: int) -> int:
    """The largest resident size so far of one process without its children; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def timed(words: Sequence[str]) -> Run:
    peak = 0
    ended = threading.Event()
    started = time.perf_counter()
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )

    def watch() -> None:
        nonlocal peak
        while not ended.wait(SAMPLE_SECONDS):
            peak = max(peak, _peak_bytes(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace").strip()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    ended.set()
    watcher.join()
    if process.returncode != 0:
        raise BenchmarkError(f"{' '.join(words)} ended with {process.returncode}: {said}")
    return Run(seconds, used.ru_utime + used.ru_stime, peak)


def _trace() -> Trace:
    images = list(open_recording(RECORDING).processes())
    return Trace(
        accesses=sum(image.meta.loads + image.meta.stores for image in images),
        bytes=sum((image.path / "stream.ss").stat().st_size for image in images),
    )


def measure(program: Program, runs: int, on_run: Callable[[str], None]) -> Measured:
    measured = Measured(program.name, program.command())
    for turn in range(runs):
        for way in program.ways:
            on_run(f"{program.name}: {way}, {turn + 1} of {runs}")
            run = timed([*PREFIXES[way], *measured.command])
            measured.seconds.setdefault(way, []).append(run.seconds)
            measured.processor.setdefault(way, []).append(run.processor)
            if way == "trace":
                measured.peak_bytes = max(measured.peak_bytes, run.peak_bytes)
                measured.trace = _trace()
    return measured
