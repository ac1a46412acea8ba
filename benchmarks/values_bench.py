# SPDX-License-Identifier: Apache-2.0
"""What values cost beside a trace: bytes on disk, and processor time of recording and of a pass."""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import STALLSCOPE
from benchmarks.programs import FOLDER, PROGRAMS
from benchmarks.report import Row
from stallscope import _engine
from stallscope.recording import STREAM, VALUES

NAMES = ("gzip", "hashjoin", "list", "sqlite3")
INSTRUCTIONS = 50_000_000  # of each, from its start
NOWHERE = [(0x1000, 0x1008, 0)]  # a range that nobody touches


def rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    for program in PROGRAMS:
        if program.name not in NAMES:
            continue
        say(f"values: {program.name}")
        folders = {with_values: FOLDER / f"values-{with_values}" for with_values in (False, True)}
        recorded, passed = [], []
        for _ in range(runs):
            times = {key: _record(program.command(), at, key) for key, at in folders.items()}
            recorded.append(times[True] / times[False])
            passed.append(_pass(folders[True], True) / _pass(folders[True], False))
        stream, values = folders[True] / STREAM, folders[True] / VALUES
        count = _engine.check_values(str(stream), str(values))
        bytes_of_values = values.stat().st_size
        yield Row(program.name, "values", bytes_of_values / count, "bytes/access")
        yield Row(program.name, "values over trace", bytes_of_values / stream.stat().st_size, "")
        yield Row(program.name, "recording over without", statistics.median(recorded), "times")
        yield Row(program.name, "pass over without", statistics.median(passed), "times")


def _record(command: list[str], folder: Path, values: bool) -> float:
    """Processor time of recorder and target together."""
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--trace", "--machine", "none", "--max-instructions", str(INSTRUCTIONS)]
    kept = ["--values", "all"] if values else []
    words = ["record", "-q", *options, *kept, "-o", str(folder), "--"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([STALLSCOPE, *words, *command], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _pass(folder: Path, values: bool) -> float:
    start = time.process_time()
    kept = str(folder / VALUES) if values else ""
    _engine.watch(str(folder / STREAM), NOWHERE, [], [3], [], 0, 0, True, kept)
    return time.process_time() - start
