# SPDX-License-Identifier: Apache-2.0
"""Threads that share data, found by sampling and put together."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import sharing
from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, Row, count, percent

NAME, TITLE = "clusters", "Which threads share data, and where they go"
RATES = (1, 3, 10)
THREADS = (8, 16, 64)
OPTIONS = argparse.Namespace(rates=list(RATES), recordings=2, seeds=10)


def make(lab: Lab, page: Page) -> None:
    page.text(
        """Chapter 3 of R. Azimi, *System Software Utilization of Hardware Performance Monitoring
        Information*, University of Toronto, 2007, clusters threads by sampled remote accesses. Its
        programs were a microbenchmark, a warehouse server, an auction site and a chat server on two
        chips of a POWER5; ours are [workloads](../workloads.md) of the same kinds, whose groups are
        known, on a machine with two chips, two cores and two threads each
        (`power5-2x2x2`)."""
    )
    cases = []
    for threads in THREADS:
        for name in sharing.WORK:
            for sizes in ("equal", "unequal"):
                with timed(f"clusters {name}, {threads} threads, {sizes}"):
                    cases.append(sharing.case(name, threads, sizes, OPTIONS, lab.folder))
    _right(cases, page)
    _cost(cases, page)
    _placed(cases, page)


def _case(case: dict[str, Any]) -> list[Any]:
    return [f"`{case['workload']}`", case["threads"], case["sizes"]]


def _right(cases: list[dict[str, Any]], page: Page) -> None:
    looks = OPTIONS.recordings * OPTIONS.seeds
    page.heading("Clusters that are exactly the true groups (Figure 3.5)")
    page.text(
        f"""Of {looks} looks: {OPTIONS.recordings} recordings, each with {OPTIONS.seeds} seeds of
        sampling, by how many of the remote accesses are sampled. A look with one thread undecided
        counts as wrong. The original, with a few runs of each program, got three of four right."""
    )
    rows: list[Row] = [[*_case(one), *(one[f"right 1/{rate}"] for rate in RATES)] for one in cases]
    page.table("right", ["program", "threads", "groups", *(f"1 in {r}" for r in RATES)], rows)


def _cost(cases: list[dict[str, Any]], page: Page) -> None:
    page.heading("What it costs, and how soon it is known (Figure 3.4)")
    page.text("Overhead is in cycles of the simulated machine, time in its instructions.")
    headings = ["program", "threads", "groups"]
    for rate in RATES:
        headings += [f"overhead, 1 in {rate}", f"instructions, 1 in {rate}"]
    rows: list[Row] = []
    for one in cases:
        row = _case(one)
        for rate in RATES:
            row += [percent(one[f"overhead 1/{rate}"]), count(one[f"instructions 1/{rate}"])]
        rows.append(row)
    page.table("cost", headings, rows)


def _placed(cases: list[dict[str, Any]], page: Page) -> None:
    page.heading("Remote misses that placing threads removes")
    page.text("Against threads put on processors in the order in which they start.")
    rows: list[Row] = [
        [*_case(one), percent(one["removed"]), percent(one["cycles saved"])] for one in cases
    ]
    page.table("placed", ["program", "threads", "groups", "removed", "cycles saved"], rows)
