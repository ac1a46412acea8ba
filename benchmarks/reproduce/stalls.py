# SPDX-License-Identifier: Apache-2.0
"""Stalls by cause: Table 3 of the study of sampled counters, CPI, and what latency times frequency
would say."""

from __future__ import annotations

from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, Shown, code, decimal, percent
from benchmarks.reproduce.programs import COMMANDS, SHORT, view
from stallscope.analyses.estimators import kl
from stallscope.analyses.stalls import SHOWN, Stalls, stalls
from stallscope.pipelines import CoreView

NAME, TITLE = "stalls", "Stalls: between modes, by program, by source"
MACHINE = "ppc970"
SLICE = 500_000  # instructions
FREQUENT = 1e-4  # an instruction
MODES = ("real", "single", "inorder")


def make(lab: Lab, page: Page) -> None:
    page.text(
        f"""R. Azimi, M. Stumm and R. W. Wisniewski, *Online Performance Analysis by Statistical
        Sampling of Microprocessor Performance Counters* (ICS 2005), section 6.3, on the simulated
        {code(MACHINE)}, {SHORT // 1_000_000} million instructions of each program."""
    )
    views = {name: view(lab, name, SHORT, machine=MACHINE) for name in COMMANDS}
    found: dict[str, Stalls] = {}
    for name, one in views.items():
        with timed(f"runs {name} on the core"):
            found[name] = stalls(one, without=("data_cache", "branch_mispredict"))
    _shares(page, found)
    _modes(page, views)
    _sources(page, found)
    _gains(page, found)


def _shares(page: Page, found: dict[str, Stalls]) -> None:
    page.heading("CPI and its parts")
    rows = []
    for name, result in found.items():
        shares = {row.cause: row.share for row in result.causes}
        rows.append(
            [
                code(name),
                decimal(result.cpi),
                decimal(result.completion_cpi),
                percent(result.stall_cycles / result.cycles, 0),
                *(percent(shares[cause], 0) for cause in SHOWN),
            ]
        )
    page.text("Shares of causes are of the stalls.")
    headings = ["program", "CPI", "completion CPI", "stalled"]
    page.table("shares", [*headings, *map(code, SHOWN)], rows)


def _series(view: CoreView, mode: str) -> list[dict[str, int]]:
    run = view.but(mode=mode, slice=SLICE, by_instructions=True).runs[0]
    return [counts for _, counts in run.series("slice")]


def _modes(page: Page, views: dict[str, CoreView]) -> None:
    page.heading("Between modes")
    page.text(
        f"""Table 3 of the original: KL distance of each cause's stalls over time, in slices of
        {SLICE:,} instructions, between `real` and `single` (S) and between `real` and `inorder`
        (I). 0 stands for less than 0.01, N/A for less than one stall cycle in 10,000
        instructions."""
    )
    rows: dict[str, list[Shown]] = {cause: [] for cause in SHOWN}
    within = []
    for name, one in views.items():
        with timed(f"runs {name} in three modes"):
            series = {mode: _series(one, mode) for mode in MODES}
        total = sum(counts["instructions"] for counts in series["real"])
        for cause in SHOWN:
            event = f"stall_{cause}"
            real = [counts[event] for counts in series["real"]]
            for mode in MODES[1:]:
                other = [counts[event] for counts in series[mode]]
                if sum(real) < FREQUENT * total:
                    rows[cause].append(Shown(None, "N/A"))
                    continue
                length = min(len(real), len(other))
                value = kl(real[:length], other[:length])
                within.append(value <= 0.2)
                rows[cause].append(Shown(value, "0" if value < 0.01 else f"{value:.2f}"))
    headings = [f"{name} {mode}" for name in views for mode in ("S", "I")]
    page.table("modes", ["cause", *headings], [[code(c), *cells] for c, cells in rows.items()])
    page.number("modes_within", sum(within) / len(within))
    page.text(f"{sum(within)} of {len(within)} cells are at most 0.20.")


def _sources(page: Page, found: dict[str, Stalls]) -> None:
    page.heading("By source")
    page.text(
        """Data-cache stalls by what served the miss, counted exactly, beside what is often taken
        for them: the source's latency times the misses that it served. The latter knows nothing of
        misses that overlap, and charges them all in full."""
    )
    rows = [
        [
            code(name),
            row.source,
            Shown(row.misses, f"{row.misses:,}"),
            row.latency,
            Shown(row.cycles, f"{row.cycles:,}"),
            Shown(row.naive_cycles, f"{row.naive_cycles:,}"),
            percent(row.naive_error, 0),
        ]
        for name, result in found.items()
        for row in result.sources
        if row.cycles > 0
    ]
    headings = [
        "program",
        "source",
        "misses",
        "latency",
        "stalled",
        "latency times misses",
        "error",
    ]
    page.table("sources", headings, rows)


def _gains(page: Page, found: dict[str, Stalls]) -> None:
    page.heading("Attributed and gained")
    page.text(
        """What was charged to a cause, and what a replay without it really gains: less where other
        waiting takes over, more where it delayed others."""
    )
    rows = [
        [
            code(name),
            code(gain.cause),
            Shown(gain.attributed, f"{gain.attributed:,}"),
            Shown(gain.gained, f"{gain.gained:,}"),
            percent(gain.gained / gain.attributed if gain.attributed else None, 0),
        ]
        for name, result in found.items()
        for gain in result.without
    ]
    page.table("gains", ["program", "cause", "attributed", "gained", "ratio"], rows)
