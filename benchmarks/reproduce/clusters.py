# SPDX-License-Identifier: Apache-2.0
"""Threads that share data, found by sampling and put together."""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import sharing
from benchmarks.reproduce import charts
from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, Row, count, percent
from stallscope.clustering import SAMPLE_CYCLES

NAME, TITLE = "clusters", "Which threads share data, and where they go"
RATES = (1, 3, 10)
RECORDINGS = 2
SEEDS = {8: 10, 16: 10, 64: 10}  # of each recording, by the number of threads
FIGURE = (1, 2, 3, 5, 10, 20)  # rates


def make(lab: Lab, page: Page) -> None:
    page.text(
        """Chapter 3 of R. Azimi, *System Software Utilization of Hardware Performance Monitoring
        Information*, University of Toronto, 2007, clusters threads by sampled remote accesses. Its
        programs were a microbenchmark, a warehouse server, an auction site and a chat server on two
        chips of a POWER5; ours are [workloads](../workloads.md) of the same kinds, whose groups are
        known, on a machine with two chips, two cores and two threads each
        (`power5-2x2x2`)."""
    )
    asked = [
        (name, threads, sizes, lab.folder, lab.keep)
        for threads in SEEDS
        for name in sharing.WORK
        for sizes in ("equal", "unequal")
    ]
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        cases = list(pool.map(_looked, *zip(*asked, strict=True)))
    _right(cases, page)
    _cost(cases, page)
    _figure(lab, page)
    _placed(cases, page)


def _looked(name: str, threads: int, sizes: str, folder: Path, keep: bool) -> dict[str, Any]:
    """What a run that was interrupted had found is used when things are to be kept."""
    kept = folder / f"clusters-{name}-{threads}-{sizes}.json"
    if keep and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    options = argparse.Namespace(rates=list(RATES), recordings=RECORDINGS, seeds=SEEDS[threads])
    with timed(f"clusters {name}, {threads} threads, {sizes}"):
        found = sharing.case(name, threads, sizes, options, folder)
    if keep:
        kept.write_text(json.dumps(found))
    return found


def _case(case: dict[str, Any]) -> list[Any]:
    return [f"`{case['workload']}`", case["threads"], case["sizes"]]


def _right(cases: list[dict[str, Any]], page: Page) -> None:
    looks = ", ".join(f"{RECORDINGS * seeds} with {threads}" for threads, seeds in SEEDS.items())
    page.heading("Clusters that are exactly the true groups (Figure 3.5)")
    page.text(
        f"""Of so many looks: {RECORDINGS} recordings, each with several seeds of sampling and
        rotation ({looks} threads), by how many of the remote accesses are sampled. The threads that
        count are those that the workload's truth file names, all but the one that starts them. A
        look with one of them undecided counts as wrong. Of unequal groups the first has more than
        half of the threads. The original, with a few runs of each program, got three of four
        right."""
    )
    rows: list[Row] = [[*_case(one), *(one[f"right 1/{rate}"] for rate in RATES)] for one in cases]
    page.table("found", ["program", "threads", "groups", *(f"1 in {r}" for r in RATES)], rows)
    right, looked = _added(one[f"right 1/{rate}"] for one in cases for rate in RATES)
    same, _ = _added(one["scipy agrees"] for one in cases)
    strangers = sum(one["strangers"] for one in cases)
    page.number("right", right)
    page.number("looks", looked)
    page.number("strangers", strangers)
    page.text(
        f"""{right:,} of {looked:,} looks are right. The thread that starts the others was put into
        a cluster of theirs in {strangers}. SciPy's average linkage finds the same clusters as ours
        in {same:,} of them."""
    )


def _added(shares: Iterable[str]) -> tuple[int, int]:
    """Of shares as in 3/4."""
    parts = [tuple(map(int, share.split("/"))) for share in shares]
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _cost(cases: list[dict[str, Any]], page: Page) -> None:
    apart = [one["cycles a remote miss"] for one in cases]
    page.heading("What it costs, and how soon it is known (Figure 3.4)")
    page.text(
        f"""Overhead is in cycles of the simulated machine, {SAMPLE_CYCLES:,} for each sample; time
        is in instructions of all threads. The original took a million samples, one in ten, in ten
        billion cycles, at an overhead of 2%: 200 cycles a sample if the cycles are those of all
        eight hardware threads, 1,600 if each ran for so long. Its program had one remote miss in
        1,000 to 8,000 cycles, by the same reckoning. Ours have one in {min(apart):,} to
        {max(apart):,}, and what sampling costs grows with them: at one in ten,
        {SAMPLE_CYCLES // 10} cycles for each. It is paid only until the verdict."""
    )
    headings = ["program", "threads", "groups", "cycles a remote miss"]
    for rate in RATES:
        headings += [f"overhead, 1 in {rate}", f"instructions, 1 in {rate}"]
    rows: list[Row] = []
    for one in cases:
        row = [*_case(one), count(one["cycles a remote miss"])]
        for rate in RATES:
            row += [percent(one[f"overhead 1/{rate}"]), count(one[f"instructions 1/{rate}"])]
        rows.append(row)
    page.table("cost", headings, rows)


def _figure(lab: Lab, page: Page) -> None:
    """The original's program of that figure was a warehouse server."""
    path = sharing.record("warehouses", 8, "equal", 1, lab.folder)
    with timed("clusters warehouses, 8 threads, at many rates"):
        looks = list(sharing.looks(path, list(FIGURE), 5))
    shutil.rmtree(path)

    def mean(rate: int, name: str) -> float:
        values = [one[name] for one in looks if one["rate"] == rate]
        return float(sum(values) / len(values))

    page.text("For `warehouses` with eight threads in equal groups, means of five seeds:")
    points = {rate: (mean(rate, "overhead"), mean(rate, "instructions")) for rate in FIGURE}
    page.table(
        "figure",
        ["one in", "overhead", "instructions until the verdict"],
        [[rate, percent(cost), count(round(time))] for rate, (cost, time) in points.items()],
    )
    charts.curves(
        page.picture_file("cost-against-rate"),
        "What detection costs, and how long it takes",
        "percent; millions",
        "one in so many remote misses is sampled",
        {
            "overhead, percent": [(rate, 100 * cost) for rate, (cost, _) in points.items()],
            "instructions until the verdict, millions": [
                (rate, time / 1e6) for rate, (_, time) in points.items()
            ],
        },
    )


def _placed(cases: list[dict[str, Any]], page: Page) -> None:
    page.heading("Remote misses that placing threads removes")
    page.text(
        """Against threads put on processors in the order in which they start. Load stays balanced:
        a group with more than half of the threads is divided among the two chips, and what its
        parts share still goes between them. Six threads of eight, as four and two, leave 8 of their
        15 pairs apart, where chance leaves 8 or 9: little can be gained there by any placement
        that keeps all processors busy."""
    )
    rows: list[Row] = [
        [*_case(one), percent(one["removed"]), percent(one["cycles saved"])] for one in cases
    ]
    page.table("placed", ["program", "threads", "groups", "removed", "cycles saved"], rows)
