# SPDX-License-Identifier: Apache-2.0
"""Prefetches in native runs: alternating pairs of a program by itself and with `prefetch run`."""

from __future__ import annotations

import json
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
    "list": ("list", "1500000", "5", "shuffled", "1"),
    "list, with work": ("list", "700000", "12", "shuffled", "50"),
    "array": ("array", "524288", "2500", "16"),
    "bst": ("bst", "600000", "1500000"),
    "hashjoin": ("hashjoin", "4000000", "30000000", "4000000"),
    "graph": ("graph", "3000000", "16", "3"),
    "spmv": ("spmv", "4000000", "8", "12"),
    "flow": ("flow", "1500000", "12000000", "40000"),
    "health": ("health", "500", "1000000", "12"),
}


def make(lab: Lab, page: Page) -> None:
    pairs = max(lab.runs, 1)
    page.text(
        f"""Each program {pairs} times by itself and {pairs} times with `stallscope prefetch run`,
        in turns, on a machine with two virtual cores that share only their last cache. Ratios are
        of one pair: time by itself over time with prefetches; the bounds are those of the median at
        95%, by ranks. Starting up, looking for loads and trying what pays are part of the time."""
    )
    rows: list[Row] = []
    for name, (workload, *arguments) in PROGRAMS.items():
        say(f"runs {name}: {workload} {' '.join(arguments)}")
        found = measure([lab.program(workload), *arguments], pairs)
        rows.append(
            [
                *(name, code(" ".join((workload, *arguments))), decimal(found["native"])),
                *(decimal(found["prefetched"]), decimal(found["ratio"], 3)),
                *(decimal(found["low"], 3), decimal(found["high"], 3), found["kept"]),
            ]
        )
    headings = [
        *("program", "command", "seconds by itself", "with prefetches", "ratio", "low", "high"),
        "kept, in how many runs",
    ]
    page.table("pairs", headings, rows)


def measure(command: list[str], pairs: int) -> dict[str, Any]:
    native, prefetched, kept = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run = [STALLSCOPE, "prefetch", "run", "-q", "-o", str(report), "--", *command]
        expected = b""
        for _ in range(pairs):
            seconds, out = _timed(command)
            expected = expected or out
            native.append(seconds)
            seconds, out = _timed(run)
            prefetched.append(seconds)
            if out != expected:
                raise SystemExit(f"{command[0]} printed something else with prefetches")
            rows = json.loads(report.read_text())["rows"]
            kept += [row["delivery"] for row in rows if row["state"] == "kept"]
    ratios = sorted(one / other for one, other in zip(native, prefetched, strict=True))
    low, high = _bounds(ratios)
    return {
        "native": statistics.median(native),
        "prefetched": statistics.median(prefetched),
        "ratio": statistics.median(ratios),
        "low": low,
        "high": high,
        "kept": ", ".join(f"{way} {kept.count(way)}" for way in sorted(set(kept))) or "nothing",
    }


def _bounds(ratios: list[float]) -> tuple[float, float]:
    """Of the median, at 95%: for 20 pairs the sixth from either end."""
    count = len(ratios)
    rank = max(0, round(count / 2 - 0.98 * count**0.5) - 1)
    return ratios[rank], ratios[count - 1 - rank]


def _timed(command: list[str]) -> tuple[float, bytes]:
    began = time.perf_counter()
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - began, ran.stdout
