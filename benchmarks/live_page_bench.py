# SPDX-License-Identifier: Apache-2.0
"""What the live page costs a recording by the clock: runs that nobody looks at and runs that a
server looks at, as it does while the page is open, take turns. The program's own processor seconds
say what it loses, those of the recorder what its pictures cost."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.heaplog_bench import LEAST_PAIRS, interval
from benchmarks.live_bench import FAST, programs
from benchmarks.measure import RECORDING, STALLSCOPE, BenchmarkError
from benchmarks.report import Row
from stallscope.record.so_far import SO_FAR, look
from stallscope.recording import open_recording

LIMIT = 1.0  # percent of the program's time
LOOK = 0.2  # seconds from one look to the next; the page asks once a second


@dataclass(frozen=True)
class Ran:
    program: float  # processor seconds
    recorder: float
    pictures: int


class Looker(threading.Thread):
    """Says that somebody looks, and counts the pictures that were there."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.seen: set[int] = set()

    def run(self) -> None:
        while not self.ended.wait(LOOK):
            try:
                look(RECORDING)
                self.seen.add((RECORDING / SO_FAR).stat().st_ino)
            except OSError:
                pass  # not there yet, or not there any more


def _recorded(command: Sequence[str], looked_at: bool) -> Ran:
    words = [STALLSCOPE, "record", "-q", "-f", "-o", str(RECORDING), "--source", "clock"]
    words += ["--rate", str(FAST), "--", *command]
    looker = Looker()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    if looked_at:
        looker.start()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    looker.ended.set()
    if process.returncode != 0:
        raise BenchmarkError(f"{command[0]} ended with {process.returncode}")
    seconds = open_recording(RECORDING).meta.cpu_seconds
    assert seconds is not None
    return Ran(seconds, used.ru_utime + used.ru_stime - seconds, len(looker.seen))


def rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    pairs = max(runs, LEAST_PAIRS)
    for name, command in programs().items():
        say(f"live page: {name}, {pairs} pairs")
        lost, paid, pictures = [], [], []
        for _ in range(pairs):
            alone, seen = (_recorded(command, looked_at) for looked_at in (False, True))
            lost.append(seen.program / alone.program - 1)
            paid.append((seen.recorder - alone.recorder) / alone.program)
            pictures.append(float(seen.pictures))
        found = interval(lost)
        yield Row("live page", f"{name}: the program loses", found.median * 100, "%", LIMIT)
        yield Row("live page", f"{name}: 95% from", found.low * 100, "%")
        yield Row("live page", f"{name}: 95% to", found.high * 100, "%")
        recorder = interval(paid).median
        yield Row("live page", f"{name}: the recorder works more, of it", recorder * 100, "%")
        yield Row("live page", f"{name}: pictures", interval(pictures).median, "")
