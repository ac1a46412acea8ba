# SPDX-License-Identifier: Apache-2.0
"""What switching the kernel's events costs a real program."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, count, percent
from stallscope.analyses.switching_cost import Estimate
from stallscope.counting import overhead_here

NAME, TITLE = "switching", "What switching counters costs for real"
HERTZ = (50, 100, 200, 500, 1000, 2000)
ROUNDS = 500


def make(lab: Lab, page: Page) -> None:
    folder = (lab.folder / "programs").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "steady"
    subprocess.run(["gcc", "-O1", "-o", program, "tests/programs/steady.c"], check=True)
    with timed("switches the kernel's events while a program runs"):
        found = overhead_here([str(program), "1000000000"], HERTZ, rounds=ROUNDS)
    page.text(
        f"""Beside the [simulated](counters.md) switches, the same with the kernel's events and a
        native program that makes the same system calls and page faults over and over
        (tests/programs/steady.c): how much more processor time a page fault takes while two groups
        of two software events are switched so often and nothing else is counted. Windows of 20
        milliseconds (or two slices) with switching lie between equal ones without, those of all
        frequencies mixed at random; medians of {ROUNDS} windows with their 95% intervals, on a
        virtual machine with two processors. Switches are those that were made for each second of
        the program's processor time."""
    )
    page.table(
        "overhead_here",
        ["switches a second, asked for", "made", "overhead", "from", "to"],
        [
            [
                count(round(row.frequency)),
                count(round(row.switches)),
                *(percent(value, 2) for value in (row.overhead, row.low, row.high)),
            ]
            for row in found.rows
        ],
    )
    page.number("switch_microseconds", 1e6 * found.seconds.value)
    page.number("counting_share", found.counting.value)
    page.number("highest_under_2_percent", found.under.value)
    page.text(
        f"""A line through these gives
        {_interval(found.seconds, lambda v: f"{1e6 * v:.1f}")} microseconds for a switch, and
        {_interval(found.counting, lambda v: f"{100 * v:.2f}")}% for counting without any. So the
        highest frequency that costs less than {found.limit:.0%} is
        {_interval(found.under, lambda v: f"{round(v, -1):,.0f}")} a second."""
    )


def _interval(found: Estimate, form: Callable[[float], str]) -> str:
    return f"{form(found.value)} (95% interval {form(found.low)} to {form(found.high)})"
