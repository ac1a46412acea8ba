# SPDX-License-Identifier: Apache-2.0
"""Prefetch slices in replay: what they remove, and how that depends on their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import stallscope
from benchmarks.reproduce import charts
from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, Row, count, decimal, percent
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
TUNED = ("list, shuffled, with work", "bst", "flow")
SLACKS = (1, 10, 50, 200, 1000, 5000, 20000)
PAUSES = (10, 100, 1000, 10000, 100000, 1000000)
SEVERAL_LOADS = ("graph", "hashjoin")
SECONDARY = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
PERIODS = (1, 3, 10, 30, 100, 300)
BUFFERS = (10, 50, 100, 400, 1600, 6400)


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
    for what, values, figure, across in (
        ("slack", SLACKS, "Figure 6.4", "runs of the load that the assist thread may be ahead"),
        ("pause", PAUSES, "Figure 6.5", "cycles that it waits when it is too far ahead"),
    ):
        page.heading(f"{what.capitalize()} ({figure})")
        made = {name: [_paced(programs.view(name), what, one) for one in values] for name in TUNED}
        headings = [what]
        for name in TUNED:
            headings += [f"{name}: speedup", f"{name}: removed"]
        rows: list[Row] = []
        for number, value in enumerate(values):
            cells: list[Any] = [count(value)]
            for name in TUNED:
                run = made[name][number]
                cells += [decimal(run.speedup), percent(run.removed)]
            rows.append(cells)
        page.table(what, headings, rows)
        _drawn(
            page, what, "speedup", across, values, {n: [r.speedup for r in made[n]] for n in TUNED}
        )


def _paced(view: Any, what: str, value: int) -> Any:
    pace = Pace(**{what: value})
    return predict(view, pace=pace, threads="smt", only=("assist",), every=True).rows[1]


def _found(programs: _Programs, page: Page) -> None:
    page.heading("Secondary threshold (Figure 6.6)")
    page.text("With the threshold at the samples of the top load; others of its trace need less:")
    rows: list[Row] = []
    speedups: dict[str, list[float]] = {name: [] for name in SEVERAL_LOADS}
    for share in SECONDARY:
        cells: list[Any] = [percent(share, 0)]
        for name in SEVERAL_LOADS:
            view = programs.view(name)
            limits = Limits(threshold=loads(view).rows[0].samples, secondary=share)
            made = predict(view, limits, threads="smt", every=True).rows[1]
            speedups[name].append(made.speedup)
            found = len(loads(view, limits).delinquent)
            cells += [found, percent(made.removed), decimal(made.speedup)]
        rows.append(cells)
    headings = ["secondary threshold"]
    for name in SEVERAL_LOADS:
        headings += [f"{name}: loads", f"{name}: removed", f"{name}: speedup"]
    page.table("secondary", headings, rows)
    across = "secondary threshold, part of the first"
    _drawn(page, "secondary", "speedup", across, SECONDARY, speedups)
    _known(programs, page)


def _known(programs: _Programs, page: Page) -> None:
    page.heading("Sample rate and buffer size")
    page.text(
        """Misses until the top load is known: with a sample every so many misses and the buffer
        read at 80 of 100, and with a sample every 10 misses and buffers of other sizes, read at
        four fifths."""
    )
    names = ("spmv", "graph")
    by_rate = {
        name: [loads(programs.view(name, period)).rows[0].identified for period in PERIODS]
        for name in names
    }
    _until_known(page, "rate", "one sample in so many misses", PERIODS, by_rate)
    by_size = {
        name: [_identified(programs.view(name, 10), size) for size in BUFFERS] for name in names
    }
    _until_known(page, "buffer", "samples that the buffer holds", BUFFERS, by_size)


def _identified(view: Any, size: int) -> int | None:
    limits = Limits(buffer=size, read_at=max(1, size * 4 // 5))
    return loads(view, limits).rows[0].identified


def _until_known(
    page: Page, what: str, across: str, values: Sequence[int], known: dict[str, list[int | None]]
) -> None:
    rows: list[Row] = []
    for number, value in enumerate(values):
        at = [known[name][number] for name in known]
        rows.append([count(value), *("never" if one is None else count(one) for one in at)])
    page.table(what, [across, *known], rows)
    _drawn(page, what, "misses until known", across, values, known)


def _drawn(
    page: Page,
    what: str,
    axis: str,
    across: str,
    values: Sequence[float],
    lines: Mapping[str, Sequence[float | None]],
) -> None:
    points = {
        name: [(x, y) for x, y in zip(values, line, strict=True) if y is not None]
        for name, line in lines.items()
    }
    if any(points.values()):
        title = f"{what.capitalize()} and {axis}"
        linear = axis == "speedup"
        charts.curves(page.picture_file(what), title, axis, across, points, linear)
