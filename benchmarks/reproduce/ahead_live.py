# SPDX-License-Identifier: Apache-2.0
"""Prefetches in native runs: alternating pairs of a program by itself and with `prefetch run`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.reproduce.lab import STALLSCOPE, Lab, say
from benchmarks.reproduce.page import Page, Row, code, decimal

NAME, TITLE = "ahead_live", "Running ahead of the misses, for real"
PAIRS = 20
# Five seconds and more each, so that starting and ending count little; data that is far larger than
# the last cache where prefetches are expected to pay.
PROGRAMS = {
    "graph": ("graph", "3000000", "16", "10"),
    "list, with work": ("list", "700000", "35", "shuffled", "50"),
    "hashjoin": ("hashjoin", "10000000", "120000000", "16000000"),
    "flow": ("flow", "1500000", "12000000", "80000"),
    "spmv": ("spmv", "60000000", "2", "4"),
    "array": ("array", "524288", "6000", "16"),
    "bst": ("bst", "600000", "5000000"),
    "health": ("health", "500", "1000000", "24"),
    "list": ("list", "1500000", "12", "shuffled", "1"),
}
BEST = 4  # programs of which the median gain is told


def make(lab: Lab, page: Page) -> None:
    pairs = max(lab.runs, PAIRS)
    page.text(
        f"""Each program {pairs} times by itself and {pairs} times with `stallscope prefetch run`,
        in turns, on a machine with two virtual cores that share only their last cache. Ratios are
        of one pair, by itself over with prefetches: of the time by the clock, in which starting and
        ending stallscope is included, and of the processor time that the program took, which others
        on the machine disturb less. The bounds are those of the median at 95%, by ranks."""
    )
    rows: list[Row] = []
    medians: dict[str, Bounds] = {}
    for name, (workload, *arguments) in PROGRAMS.items():
        say(f"runs {name}: {workload} {' '.join(arguments)}")
        found = measure([lab.program(workload), *arguments], pairs)
        say(f"  {found}")
        medians[name] = found.clock
        rows.append(
            [
                *(name, code(" ".join((workload, *arguments))), decimal(found.seconds)),
                *(decimal(value, 3) for value in found.clock),
                *(decimal(value, 3) for value in found.processor),
                found.kept,
            ]
        )
    headings = [
        *("program", "command", "seconds", "by the clock", "low", "high"),
        *("by processor time", "low, processor", "high, processor", "kept, in how many runs"),
    ]
    page.table("pairs", headings, rows)
    best = sorted((one.middle for one in medians.values()), reverse=True)[:BEST]
    faster = [name for name, one in medians.items() if one.low > 1]
    slower = [name for name, one in medians.items() if one.low < 1 / 1.02]
    page.text(
        f"""Surely faster by the clock: {", ".join(faster) or "none"}. The median of the best {BEST}
        is {statistics.median(best):.3f}. Not surely within 2% of the program by itself:
        {", ".join(slower) or "none"}."""
    )


class Bounds(NamedTuple):
    middle: float
    low: float
    high: float


class Pairs(NamedTuple):
    seconds: float  # of the processor, by itself
    clock: Bounds
    processor: Bounds
    kept: str


def measure(command: list[str], pairs: int) -> Pairs:
    """Medians of the ratios with their bounds. Who is first changes from pair to pair."""
    clock, processor, kept, seconds = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run = [STALLSCOPE, "prefetch", "run", "-q", "-o", str(report), "--", *command]
        for number in range(pairs):
            order = (command, run) if number % 2 == 0 else (run, command)
            ran = {one[0]: _timed(one) for one in order}
            native, prefetched = ran[command[0]], ran[run[0]]
            if native.out != prefetched.out:
                raise SystemExit(f"{command[0]} printed something else with prefetches")
            told = json.loads(report.read_text())
            seconds.append(native.used)
            clock.append(native.clock / prefetched.clock)
            processor.append(native.used / told["cpu_seconds"])
            kept += [row["delivery"] for row in told["rows"] if row["state"] == "kept"]
    ways = ", ".join(f"{way} {kept.count(way)}" for way in sorted(set(kept))) or "nothing"
    return Pairs(statistics.median(seconds), _median(clock), _median(processor), ways)


def _median(ratios: list[float]) -> Bounds:
    """With its bounds at 95%: for 20 pairs the sixth from either end."""
    ordered, count = sorted(ratios), len(ratios)
    rank = max(0, round(count / 2 - 0.98 * count**0.5) - 1)
    return Bounds(statistics.median(ordered), ordered[rank], ordered[count - 1 - rank])


class Timed(NamedTuple):
    clock: float  # seconds
    used: float  # seconds of the processor
    out: bytes


def _timed(command: list[str]) -> Timed:
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return Timed(time.perf_counter() - began, used.ru_utime + used.ru_stime, out)
