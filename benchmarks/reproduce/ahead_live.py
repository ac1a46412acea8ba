# SPDX-License-Identifier: Apache-2.0
"""Prefetches in native runs: alternating pairs of a program by itself and with `prefetch run`."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks import turns
from benchmarks.reproduce.lab import STALLSCOPE, Lab, say
from benchmarks.reproduce.page import Page, Row, code, decimal

NAME, TITLE = "ahead_live", "Running ahead of the misses, for real"
PAIRS = 20
SMALL: dict[str, str] = {}
LARGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# So long each that starting and ending count little, most where nothing is to be gained; data that
# is far larger than the last cache where prefetches are expected to pay; what is not, or has nodes
# that are blocks of their own, lies in large pages.
PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "graph": ("graph 3000000 16 10", SMALL),
    "hashjoin": ("hashjoin 6000000 120000000 8000000", SMALL),
    "flow": ("flow 1500000 12000000 120000", SMALL),
    "spmv": ("spmv 60000000 2 8", SMALL),
    "list, with work": ("list 700000 35 shuffled 50", LARGE),
    "array": ("array 524288 12000 16", LARGE),
    "bst": ("bst 600000 16000000", LARGE),
    "health": ("health 500 2800000 24", LARGE),
    "list": ("list 1500000 45 shuffled 1", LARGE),
}
BEST = 4  # programs of which the median gain is told


def make(lab: Lab, page: Page) -> None:
    pairs = max(lab.runs, PAIRS)
    page.text(
        f"""Each program {pairs} times by itself and {pairs} times with `stallscope prefetch run`,
        on a machine with two virtual cores that share only their last cache. The two runs of a pair
        are under way at once, in turns of {turns.TURN} s: each is frozen while the other runs, so
        that what strangers do to the machine meets both alike. The program's own thread stays on
        one processor; whatever Stallscope starts may use the other. Ratios are of one pair, by
        itself over with prefetches: of the time by the clock, in which starting and ending
        Stallscope is included, and of the processor time that the program took. The bounds are
        those of the median at 95%, by ranks."""
    )
    page.text(
        """Where the small pages of a program lie in physical memory differs from process to process
        and can change its speed by a tenth. Of large arrays that is a small part; programs with
        smaller ones (`array`), or whose nodes are blocks of their own (`list`, `bst`, `health`),
        have them in large pages here (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`, both runs of a
        pair)."""
    )
    rows: list[Row] = []
    medians: dict[str, Bounds] = {}
    for name, (command, pages) in PROGRAMS.items():
        say(f"runs {name}: {command}")
        workload, *arguments = command.split()
        found = measure([lab.program(workload), *arguments], pairs, pages)
        say(f"  {found}")
        medians[name] = found.clock
        rows.append(
            [
                *(name, code(command), "large" if pages else "small", decimal(found.seconds)),
                *(decimal(value, 3) for value in found.clock),
                *(decimal(value, 3) for value in found.processor),
                found.kept,
            ]
        )
    headings = [
        *("program", "command", "pages", "seconds", "by the clock", "low", "high"),
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


def measure(command: list[str], pairs: int, given: Mapping[str, str]) -> Pairs:
    """Medians of the ratios with their bounds. Who is first changes from pair to pair."""
    clock, processor, kept, seconds = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run = [STALLSCOPE, "prefetch", "run", "-q", "-o", str(report), "--", *command]
        # Memory that nobody had for a while must first be given to the virtual machine again.
        turns.both(command[0], (command, command), given)
        for number in range(pairs):
            if number % 2 == 0:
                native, prefetched = turns.both(command[0], (command, run), given)
            else:
                prefetched, native = turns.both(command[0], (run, command), given)
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
