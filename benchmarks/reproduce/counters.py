# SPDX-License-Identifier: Apache-2.0
"""Multiplexed counters against full ones: Table 2, Figure 6 and Table 4 of the study of sampled
counters."""

from __future__ import annotations

import statistics

from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, Shown, code, count, decimal, percent
from benchmarks.reproduce.programs import COMMANDS, SHORT, view
from stallscope.analyses.counters import CounterRow, Counters, counters
from stallscope.analyses.estimators import NAMES

NAME, TITLE = "counters", "Many counters on a few: how near sampled counts are"
MACHINE = "ppc970"
NINE = {
    "instructions": "Instructions retired",
    "loads": "L1 data cache loads",
    "stores": "L1 data cache stores",
    "l1d_load_misses": "L1 data cache misses",
    "icache_misses": "Instruction cache misses",
    "tlb_misses": "TLB misses",
    "erat_misses": "ERAT misses",
    "l2_misses": "L2 misses (data)",
    "mispredicts": "Branch mispredicts",
    "branches": "Branches",
    "stall_data_cache": "Stalls on the data cache",
}
FREQUENT = 1e-4  # a cycle
SKIP = 5  # rounds
KILOHERTZ = (1, 2, 5, 20, 100, 200)
CLOCK = 2e9  # of the machine
COUNTERS = {5: 14, 10: 8, 15: 6, 20: 5}  # by ratio


def make(lab: Lab, page: Page) -> None:
    found = {
        name: {estimator: _counted(lab, name, estimator) for estimator in NAMES}
        for name in COMMANDS
    }
    _distances(page, found)
    _estimators(page, found)
    _sensitivity(lab, page)
    _overhead(lab, page)
    page.text("What switching costs for real: [switching](switching.md).")


def _counted(lab: Lab, name: str, estimator: str) -> Counters:
    with timed(f"counts {name}, {estimator}"):
        return counters(view(lab, name, machine=MACHINE), ratio=10, estimator=estimator, skip=SKIP)


def _cell(row: CounterRow) -> Shown:
    if row.rate < FREQUENT or row.kl is None:
        return Shown(None, "N/A")
    return Shown(row.kl, "0" if row.kl < 0.01 else f"{row.kl:.2f}")


def _distances(page: Page, found: dict[str, dict[str, Counters]]) -> None:
    rounds = {name: by["invariants"].rounds for name, by in found.items()}
    page.text(
        f"""R. Azimi, M. Stumm and R. W. Wisniewski, *Online Performance Analysis by Statistical
        Sampling of Microprocessor Performance Counters* (ICS 2005), Table 2: KL distance between
        full counts and counts of one slice in ten, rounds of 2 million cycles. Here the machine is
        {code(MACHINE)}, all events at once in ten groups of slices of 200,000 cycles, after
        {SKIP} rounds; rounds: {", ".join(f"{name} {n}" for name, n in rounds.items())}. 0 stands
        for less than 0.01, N/A for events that are rarer than one in 10,000 cycles. Half a count is
        added to each round. The estimator is {code("invariants")}."""
    )
    rows = {name: {row.event: row for row in by["invariants"].rows} for name, by in found.items()}
    page.table(
        "kl",
        ["event", *found],
        [
            [words, *(_cell(rows[name][event]) for name in found)]
            for event, words in NINE.items()
            if event != "instructions"
        ],
    )
    cells = _cells(found, "invariants", set(NINE))
    near = [row for row in cells if (row.kl or 0) <= 0.2]
    page.number("nine_cells", len(cells))
    page.number("nine_within", len(near) / len(cells))
    page.text(
        f"""{len(near)} of {len(cells)} cells are at most 0.20
        ({len(near) / len(cells):.0%}). Instructions are counted in every group here, as POWER5
        does, and have no error."""
    )


def _cells(
    found: dict[str, dict[str, Counters]], estimator: str, events: set[str] | None = None
) -> list[CounterRow]:
    return [
        row
        for by in found.values()
        for row in by[estimator].rows
        if row.group is not None
        and row.rate >= FREQUENT
        and (events is None or row.event in events)
    ]


def _estimators(page: Page, found: dict[str, dict[str, Counters]]) -> None:
    page.heading("Estimators")
    rows = []
    for estimator in NAMES:
        for words, events in (("all", None), ("of the table above", set(NINE))):
            cells = _cells(found, estimator, events)
            errors = [row.error or 0.0 for row in cells]
            rows.append(
                [
                    code(estimator),
                    words,
                    count(len(cells)),
                    decimal(statistics.median(row.kl or 0.0 for row in cells), 4),
                    percent(sum((row.kl or 0) <= 0.2 for row in cells) / len(cells)),
                    percent(statistics.mean(errors), 2),
                    percent(statistics.median(errors), 2),
                    percent(sum(bool(row.covered) for row in cells) / len(cells)),
                ]
            )
    page.text(
        """All events that come at least once in 10,000 cycles, of all programs. The error is that
        of the count over all rounds; a 95% interval covers the truth in so many cells."""
    )
    headings = ["estimator", "events", "cells", "median KL", "KL ≤ 0.20", "mean error"]
    page.table("estimators", [*headings, "median error", "covered"], rows)


def _sensitivity(lab: Lab, page: Page) -> None:
    page.heading("Slice and ratio")
    page.text(
        """Figure 6 of the original: gzip, KL by the length of a slice at ratio 10, and by ratio at
        slices of 500,000 cycles. Linear scaling, as there; all events, on as many counters as make
        as many groups."""
    )
    events = ("l1d_load_misses", "erat_misses", "mispredicts")
    rows = []
    for length, ratio in [
        *((g, 10) for g in (100_000, 200_000, 300_000, 500_000)),
        *((500_000, r) for r in (5, 15, 20)),
    ]:
        with timed(f"counts gzip in slices of {length}, ratio {ratio}"):
            made = counters(
                view(lab, "gzip", machine=MACHINE),
                count=COUNTERS[ratio],
                slice_length=length,
                ratio=ratio,
                estimator="linear",
                skip=1,
            )
        by = {row.event: row for row in made.rows}
        rows.append([count(length), ratio, *(decimal(by[event].kl or 0.0) for event in events)])
    page.table("sensitivity", ["slice", "ratio", *map(code, events)], rows)


def _overhead(lab: Lab, page: Page) -> None:
    page.heading("What switching costs")
    page.text(
        """Table 4 of the original: run-time overhead by how often counters are switched. Here a
        switch takes 2,000 cycles of the simulated machine (at 2 GHz, a microsecond) and touches 16
        lines of the data cache; the overhead is that of the whole run of chess against one without
        switches, so that what the lines displace counts too. The original went up to a million a
        second (63%); here a switch would then take as long as the slice."""
    )
    from stallscope.analyses.counters import SWITCH_CYCLES, SWITCH_LINES

    plain = view(lab, "chess", SHORT, machine=MACHINE)
    base = plain.runs[0].totals["cycles"]
    rows = []
    originals = (0.002, 0.005, 0.008, 0.02, 0.12, 0.22)
    for frequency, original in zip(KILOHERTZ, originals, strict=True):
        cost = {"switch_cycles": SWITCH_CYCLES, "switch_lines": SWITCH_LINES}
        with timed(f"switches counters {frequency},000 times a second"):
            # Slices end after so many cycles of the program and of the switches.
            run = plain.but(slice=round(CLOCK / (frequency * 1000)), **cost)
            overhead = run.runs[0].totals["cycles"] / base - 1
        rows.append([count(frequency * 1000), percent(original), percent(overhead, 2)])
    page.table("overhead", ["switches a second", "original", "here"], rows)
