# SPDX-License-Identifier: Apache-2.0
"""What the allocation log costs a native program: runs with and without it take turns, and the
ratio is the median over pairs of neighbours, with the interval that holds it 95 times of 100."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import workloads
from stallscope.record import heap_log

CHURN_OF_NATIVE = 1.05
REDIS_OF_NATIVE = 1.02
LEAST_PAIRS = 30
REDIS_REQUESTS = 30_000
REDIS_COMMANDS = "set,get,incr,lpush,lpop,sadd,hset"
START_SECONDS = 30.0


@dataclass(frozen=True)
class Interval:
    median: float
    low: float
    high: float


def interval(values: list[float]) -> Interval:
    """Of a median, by the ranks that a fair coin leaves out 5 times of 100: no shape is assumed."""
    ordered, n = sorted(values), len(values)
    low, left = 0, 0.5**n
    while low < (n - 1) // 2 and left + math.comb(n, low + 1) * 0.5**n <= 0.025:
        low += 1
        left += math.comb(n, low) * 0.5**n
    return Interval(statistics.median(ordered), ordered[low], ordered[n - 1 - low])


def _churn_seconds(env: Mapping[str, str]) -> float:
    words = workloads.truth("churn").command_arguments("bench")
    program = workloads.build("churn", FOLDER / "workloads")
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, env=env)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchmarkError(f"churn ended with {process.returncode}")
    return used.ru_utime


def _processor_seconds(pid: int) -> float:
    """Of a process of one busy thread, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _redis_seconds(env: Mapping[str, str]) -> float:
    """Of the server alone, while the benchmark asks."""
    with tempfile.TemporaryDirectory() as name:
        socket = Path(name) / "socket"
        words = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
        server = subprocess.Popen([*words, "--dir", name], stdout=subprocess.DEVNULL, env=env)
        try:
            limit = time.monotonic() + START_SECONDS
            while not socket.exists():
                if server.poll() is not None or time.monotonic() > limit:
                    raise BenchmarkError("redis-server does not start")
                time.sleep(0.01)
            before = _processor_seconds(server.pid)
            asking = ["redis-benchmark", "-s", str(socket), "-q", "-t", REDIS_COMMANDS]
            ran = subprocess.run([*asking, "-n", str(REDIS_REQUESTS)], capture_output=True)
            if ran.returncode != 0:
                raise BenchmarkError(f"redis-benchmark failed: {ran.stderr.decode()[-400:]}")
            return _processor_seconds(server.pid) - before
        finally:
            server.terminate()
            server.wait()


def _logged(seconds: Callable[[Mapping[str, str]], float]) -> float:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        return seconds(heap_log.environment(Path(name), os.environ))


def _compared(
    name: str,
    seconds: Callable[[Mapping[str, str]], float],
    limit: float,
    pairs: int,
    say: Callable[[str], None],
) -> Iterator[Row]:
    native, logged = [], []
    for turn in range(pairs):
        say(f"heaplog: {name}, {turn + 1} of {pairs}")
        native.append(seconds(os.environ))
        logged.append(_logged(seconds))
    found = interval([mine / base for mine, base in zip(logged, native, strict=True)])
    yield Row(f"heap log, {name}", "native", statistics.median(native), "s")
    yield Row(f"heap log, {name}", "logged / native", found.median, "", limit)
    yield Row(f"heap log, {name}", "  95%, from", found.low, "")
    yield Row(f"heap log, {name}", "  95%, to", found.high, "")


def rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    pairs = max(runs, LEAST_PAIRS)
    yield from _compared("churn", _churn_seconds, CHURN_OF_NATIVE, pairs, say)
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        say("heaplog: redis-server and redis-benchmark are not installed, so redis is left out")
        return
    yield from _compared("redis-server", _redis_seconds, REDIS_OF_NATIVE, pairs, say)
