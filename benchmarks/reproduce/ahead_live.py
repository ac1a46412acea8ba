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
from typing import Any

from benchmarks.reproduce.lab import STALLSCOPE, Lab, say
from benchmarks.reproduce.page import Page, Row, code, decimal

NAME, TITLE = "ahead_live", "Running ahead of the misses, for real"
PAIRS = 20
# A few seconds each, with data that is larger than the last cache.
PROGRAMS = {
    "spmv": ("spmv", "4000000", "8", "10"),
    "flow": ("flow", "1500000", "12000000", "30000"),
    "hashjoin": ("hashjoin", "4000000", "30000000", "4000000"),
    "list, with work": ("list", "700000", "9", "shuffled", "50"),
    "array": ("array", "524288", "2000", "16"),
    "graph": ("graph", "3000000", "16", "2"),
    "bst": ("bst", "600000", "1000000"),
    "health": ("health", "500", "1000000", "5"),
    "list": ("list", "1500000", "4", "shuffled", "1"),
}


def make(lab: Lab, page: Page) -> None:
    pairs = max(lab.runs, 1)
    page.text(
        f"""Each program {pairs} times by itself and {pairs} times with `stallscope prefetch run`,
        in turns, on a machine with two virtual cores that share only their last cache. Ratios are
        of one pair, by itself over with prefetches: of the processor time that the program took,
        which others on the machine disturb little, and of the time by the clock, in which starting
        stallscope is included. The bounds are those of the median at 95%, by ranks."""
    )
    rows: list[Row] = []
    for name, (workload, *arguments) in PROGRAMS.items():
        say(f"runs {name}: {workload} {' '.join(arguments)}")
        found = measure([lab.program(workload), *arguments], pairs)
        say(f"  {found}")
        rows.append(
            [
                *(name, code(" ".join((workload, *arguments))), decimal(found["seconds"])),
                *(decimal(value, 3) for value in found["processor"]),
                *(decimal(value, 3) for value in found["clock"]),
                found["kept"],
            ]
        )
    headings = [
        *("program", "command", "seconds", "ratio", "low", "high"),
        *("by the clock", "clock, low", "clock, high", "kept, in how many runs"),
    ]
    page.table("pairs", headings, rows)


def measure(command: list[str], pairs: int) -> dict[str, Any]:
    """Medians of the ratios with their bounds, by processor time and by the clock."""
    processor, clock, kept, seconds = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run = [STALLSCOPE, "prefetch", "run", "-q", "-o", str(report), "--", *command]
        for _ in range(pairs):
            native, expected, used = _timed(command)
            prefetched, out, _ = _timed(run)
            if out != expected:
                raise SystemExit(f"{command[0]} printed something else with prefetches")
            told = json.loads(report.read_text())
            seconds.append(used)
            clock.append(native / prefetched)
            processor.append(used / told["cpu_seconds"])
            kept += [row["delivery"] for row in told["rows"] if row["state"] == "kept"]
    return {
        "seconds": statistics.median(seconds),
        "processor": _median(processor),
        "clock": _median(clock),
        "kept": ", ".join(f"{way} {kept.count(way)}" for way in sorted(set(kept))) or "nothing",
    }


def _median(ratios: list[float]) -> tuple[float, float, float]:
    """With its bounds at 95%: for 20 pairs the sixth from either end."""
    ordered, count = sorted(ratios), len(ratios)
    rank = max(0, round(count / 2 - 0.98 * count**0.5) - 1)
    return statistics.median(ordered), ordered[rank], ordered[count - 1 - rank]


def _timed(command: list[str]) -> tuple[float, bytes, float]:
    """Seconds by the clock, output, seconds of the processor."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return time.perf_counter() - began, out, used.ru_utime + used.ru_stime
