# SPDX-License-Identifier: Apache-2.0
"""Prefetch slices in replay: what they remove, and how that depends on their settings."""

from __future__ import annotations

from typing import Any

import stallscope
from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, Row, code, count, decimal, percent
from stallscope.ahead import Pace, predict
from stallscope.analyses.loads import Limits, loads

NAME, TITLE = "ahead", "Running ahead of the misses, in replay"
MACHINE = "xeon"
# Larger than the last cache of the machine, and long enough that what comes before matters little.
PROGRAMS = {
    "list, in order": ("list", "20000", "60", "inorder", "1"),
    "list, shuffled": ("list", "20000", "60", "shuffled", "1"),
    "list, shuffled, with work": ("list", "20000", "60", "shuffled", "60"),
    "array": ("array", "262144", "2", "16"),
    "bst": ("bst", "20000", "120000"),
    "hashjoin": ("hashjoin", "40000", "200000", "10000"),
    "graph": ("graph", "150000", "8", "1"),
    "spmv": ("spmv", "100000", "8", "1"),
    "flow": ("flow", "20000", "100000", "60"),
    "health": ("health", "40", "12000", "30"),
}
TUNED = ("list, shuffled, with work", "hashjoin")
SLACKS = (0, 50, 500, 5000)
PAUSES = (100, 1000, 100000)
SECONDARY = (1.0, 0.5, 0.1)
PERIODS = (1, 10, 100, 1000)
BUFFERS = (10, 50, 100, 400, 1600)


class _Programs:
    """Views of the recorded programs, each made once."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._known: dict[tuple[str, int], Any] = {}

    def view(self, name: str, period: int = 0) -> Any:
        if (name, period) not in self._known:
            workload, *arguments = PROGRAMS[name]
            path = self.lab.folder / f"ahead-{name.replace(', ', '-').replace(' ', '-')}.stallscope"
            if not path.exists():
                self.lab.record(path, [self.lab.program(workload), *arguments])
            more = {"period": period} if period else {}
            made = stallscope.view(path, machine=MACHINE, event="llc", depth=1, **more)
            self._known[name, period] = made
        return self._known[name, period]


def make(lab: Lab, page: Page) -> None:
    programs = _Programs(lab)
    page.text(
        """M. Raman, *Trace-Based Optimization for Precomputation and Prefetching*, University of
        Toronto, 2006, ran slices on the second thread of a Xeon. Here program and assist thread go
        through the caches of such a machine ([`xeon`](../machines.md)) together. Time is simple
        there: half a cycle for each instruction, and whoever needs a line waits for it."""
    )
    _removed(programs, page)
    _slack_and_pause(programs, page)
    _found(programs, page)


def _removed(programs: _Programs, page: Page) -> None:
    page.heading("Misses that slices remove (Figure 6.8)")
    page.text(
        """Of the misses of the main thread in the last cache, all of a run: also those of making
        and freeing its data. *Late* are lines that were asked for in time to be no miss, but had
        not arrived yet. The control runs the same slices without bringing anything."""
    )
    rows: list[Row] = []
    for name in PROGRAMS:
        with timed(f"predicts {name}"):
            for hardware in (True, False):
                made = predict(programs.view(name), threads="smt", hardware=hardware, every=True)
                without, slices, control = made.rows
                ways = sorted({choice.delivery for choice in made.choices})
                rows.append(
                    [
                        *(name, "yes" if hardware else "no", count(without.misses)),
                        *(percent(slices.removed), percent(slices.late), decimal(slices.speedup)),
                        *(decimal(control.speedup), ", ".join(ways)),
                    ]
                )
    headings = [
        *("program", "hardware prefetcher", "misses", "removed", "late", "speedup", "control"),
        "deliveries",
    ]
    page.table("removed", headings, rows)


def _slack_and_pause(programs: _Programs, page: Page) -> None:
    for what, values, figure in (
        ("slack", SLACKS, "Figure 6.4"),
        ("pause", PAUSES, "Figure 6.5"),
    ):
        page.heading(f"{what.capitalize()} ({figure})")
        rows: list[Row] = []
        for value in values:
            cells: list[Any] = [count(value)]
            for name in TUNED:
                pace = Pace(**{what: value})
                only = ("assist",)
                view = programs.view(name)
                made = predict(view, pace=pace, threads="smt", only=only, every=True).rows[1]
                cells += [decimal(made.speedup), percent(made.removed)]
            rows.append(cells)
        headings = [what]
        for name in TUNED:
            headings += [f"{name}: speedup", f"{name}: removed"]
        page.table(what, headings, rows)


def _found(programs: _Programs, page: Page) -> None:
    page.heading("Secondary threshold (Figure 6.6)")
    rows: list[Row] = []
    view = programs.view("flow")
    top = loads(view).rows[0].samples
    for share in SECONDARY:
        limits = Limits(threshold=top, secondary=share)
        found = loads(view, limits).delinquent
        made = predict(view, limits, threads="smt", only=("assist",), every=True).rows[1]
        rows.append([percent(share, 0), len(found), percent(made.removed), decimal(made.speedup)])
    page.text("Of `flow`, with the threshold at the samples of its top load:")
    page.table("secondary", ["secondary threshold", "loads", "removed", "speedup"], rows)

    page.heading("Sample rate and buffer size")
    page.text(
        """Misses of `spmv` until its top load is known: with a sample every so many misses and the
        buffer read at 80 of 100, and with a sample every 10 misses and buffers of other sizes, read
        at four fifths."""
    )
    rows = []
    for period in PERIODS:
        found_loads = loads(programs.view("spmv", period))
        known = found_loads.rows[0].identified
        seen = "never" if known is None else count(known)
        rows.append([code(f"--period {period}"), found_loads.samples, seen])
    page.table("rate", ["sample rate", "samples", "misses until known"], rows)
    rows = []
    for size in BUFFERS:
        limits = Limits(buffer=size, read_at=max(1, size * 4 // 5))
        known = loads(programs.view("spmv", 10), limits).rows[0].identified
        rows.append([count(size), "never" if known is None else count(known)])
    page.table("buffer", ["buffer", "misses until known"], rows)
