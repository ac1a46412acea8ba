# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks [NAME...] [--runs N] [--json FILE]

Exits with 0 whether targets are met or not: on a busy machine that says little. 1 when something
could not be run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks import (
    advise_bench,
    agreement_bench,
    counters_bench,
    engine_bench,
    heaplog_bench,
    live_bench,
    live_page_bench,
    monitor_bench,
    pages_bench,
    replay_bench,
    reuse_bench,
    values_bench,
)
from benchmarks.measure import PREFIXES, STALLSCOPE, BenchmarkError, Measured, measure, timed
from benchmarks.programs import FOLDER, PROGRAMS
from benchmarks.report import HELP_SECONDS, Row, rows_of, table
from stallscope.record import host

NAMES = (
    *(program.name for program in PROGRAMS),
    *("start", "replay", "engine", "pages", "heaplog", "live", "reuse", "agreement", "advise"),
    "monitors",
    "counters",
    "values",
    "live-page",
)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(NAMES)}")
    parser.add_argument("--runs", type=int, default=5, help="of each way; medians are reported")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; of: {', '.join(NAMES)}")
    if options.runs < 1:
        parser.error("--runs must be 1 or more")
    return options


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def start_up(runs: int) -> Iterator[Row]:
    """What a person waits for when there is nothing to do."""
    ways = {
        "--help": [STALLSCOPE, "--help"],
        "record true": [*PREFIXES["count"], "/bin/true"],
        "valgrind none true": [*PREFIXES["none"], "/bin/true"],
        "cachegrind true": [*PREFIXES["cachegrind"], "/bin/true"],
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(runs):
        say(f"start: {turn + 1} of {runs}")
        for way, words in ways.items():
            seconds[way].append(timed(words).seconds)
    for way, taken in seconds.items():
        limit = HELP_SECONDS if way == "--help" else None
        yield Row("start", way, statistics.median(taken), "s", limit)


def document(rows: list[Row], measured: list[Measured], runs: int) -> dict[str, object]:
    return {
        "schema": "stallscope.bench/1",
        "machine": {
            "processor": host.machine().model,
            "cores": host.machine().cores,
            "system": host.machine().system,
            "python": platform.python_version(),
            "load": os.getloadavg()[0],
        },
        "runs": runs,
        "rows": [{**asdict(row), "verdict": row.verdict} for row in rows],
        "programs": [asdict(one) for one in measured],
    }


def main() -> int:
    options = parse()
    wanted = options.names or NAMES
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    measured: list[Measured] = []
    try:
        for program in PROGRAMS:
            if program.name in wanted:
                measured.append(measure(program, options.runs, say))
                rows += rows_of(measured[-1])
        if "start" in wanted:
            rows += start_up(options.runs)
        if "replay" in wanted:
            rows += replay_bench.rows(options.runs, say)
        if "engine" in wanted:
            rows += engine_bench.rows(say)
        if "pages" in wanted:
            rows += pages_bench.rows(options.runs, say)
        if "heaplog" in wanted:
            rows += heaplog_bench.rows(options.runs, say)
        if "live" in wanted:
            rows += live_bench.rows(options.runs, say)
        if "live-page" in wanted:
            rows += live_page_bench.rows(options.runs, say)
        if "reuse" in wanted:
            rows += reuse_bench.rows(say)
        if "agreement" in wanted:
            rows += agreement_bench.rows(say)
        if "values" in wanted:
            rows += values_bench.rows(options.runs, say)
        if "monitors" in wanted:
            rows += monitor_bench.rows(options.runs, say)
        if "advise" in wanted:
            rows += advise_bench.rows(say)
        if "counters" in wanted:
            rows += counters_bench.rows(options.runs, say)
    except BenchmarkError as error:
        say(f"error: {error}")
        return 1
    Console(width=100).print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(document(rows, measured, options.runs), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
