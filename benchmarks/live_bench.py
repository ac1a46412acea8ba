# SPDX-License-Identifier: Apache-2.0
"""What sampling by the clock costs a native program: runs with and without it take turns; and what
one sample costs, measured on its own, times how many there are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence

from benchmarks.heaplog_bench import LEAST_PAIRS, Interval, interval
from benchmarks.measure import RECORDING, STALLSCOPE, BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import workloads
from stallscope.record.clock import RATE
from stallscope.recording import open_recording

FAST = 1000
LIMITS = {RATE: 0.01, FAST: 0.03}
COSTLY = 8000  # samples a second, so that their cost stands out
SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where "
    "i < 700000) insert into t select i, i * 7919 % 700000 from n; create index tb on t(b); "
    "select sum(x.a) from t x join t y on x.b = y.a;"
)


def programs() -> dict[str, list[str]]:
    """Each long enough that the milliseconds of a start do not count; a list that the last cache
    holds, because how a larger one lies in memory decides more than sampling does."""
    folder = FOLDER / "workloads"
    return {
        "list": [str(workloads.build("list", folder)), "80000", "200", "shuffled"],
        "matmul": [str(workloads.build("matmul", folder)), "1000"],
        "sqlite3": [shutil.which("sqlite3") or "sqlite3", ":memory:", SQL],
    }


def _native(command: Sequence[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchmarkError(f"{command[0]} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def _sampled(command: Sequence[str], rate: int) -> tuple[float, int]:
    """Processor seconds of the program alone, and how many samples were taken."""
    words = [STALLSCOPE, "record", "-q", "-f", "-o", str(RECORDING), "--source", "clock"]
    words += ["--no-heap", "--rate", str(rate), "--", *command]
    ran = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if ran.returncode != 0:
        raise BenchmarkError(f"{command[0]}: {ran.stderr.decode()[-400:]}")
    meta = open_recording(RECORDING).meta
    assert meta.cpu_seconds is not None
    return meta.cpu_seconds, meta.samples


def _cost_of_one(command: Sequence[str], pairs: int) -> Interval:
    """Seconds that a sample adds, from runs with so many that nothing else counts."""
    costs = []
    for _ in range(pairs):
        plain = _native(command)
        seconds, samples = _sampled(command, COSTLY)
        costs.append((seconds - plain) / max(1, samples))
    return interval(costs)


def rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    pairs = max(runs, LEAST_PAIRS)
    commands = programs()
    say("live: the cost of one sample")
    one = _cost_of_one(commands["matmul"], 10)
    yield Row("live", "one sample costs", one.median * 1e6, "µs")
    for name, command in commands.items():
        say(f"live: {name}, {pairs} pairs at each of {len(LIMITS)} rates")
        added: dict[int, list[float]] = {rate: [] for rate in LIMITS}
        counts: dict[int, list[float]] = {rate: [] for rate in LIMITS}
        for _ in range(pairs):
            plain = _native(command)
            for rate in LIMITS:
                seconds, samples = _sampled(command, rate)
                added[rate].append(seconds / plain - 1)
                counts[rate].append(samples * one.median / plain)
        for rate, limit in LIMITS.items():
            found = interval(added[rate])
            what = f"{name}, {rate} a second"
            yield Row("live", f"{what}: overhead", found.median * 100, "%", limit * 100)
            yield Row("live", f"{what}: 95% from", found.low * 100, "%")
            yield Row("live", f"{what}: 95% to", found.high * 100, "%")
            yield Row(
                "live", f"{what}: samples times cost", interval(counts[rate]).median * 100, "%"
            )
