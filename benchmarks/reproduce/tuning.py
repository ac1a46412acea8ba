# SPDX-License-Identifier: Apache-2.0
"""What the three pages about tuned programs share: latency by object before and after, and how much
is left of misses at each level."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from benchmarks.reproduce.lab import Lab, namer
from benchmarks.reproduce.page import Page, Row, change, code, count, decimal, percent
from stallscope.analyses.objects import Objects

LEVELS = {"L1D": "L1", "L2": "L2", "L3": "L3"}


def latency_table(
    page: Page, name: str, workload: str, result: Objects, most: int = 8, least: float = 0.001
) -> None:
    """As the original's: objects by latency, with their shares of latency and of events."""
    named = namer(workload)
    sums: dict[str, list[float]] = collections.defaultdict(lambda: [0, 0, 0])
    for row in result.rows:
        entry = sums[named(row.object)]
        entry[0] += row.latency
        entry[1] += row.latency_share
        entry[2] += row.misses
    misses = sum(entry[2] for entry in sums.values())
    rows: list[Row] = []
    for thing, (latency, share, missed) in sorted(sums.items(), key=lambda item: -item[1][0]):
        if len(rows) < most and share >= least:
            per = latency / missed if missed else 0.0
            rows.append(
                [
                    *(code(thing), decimal(latency / 1e6, 1), percent(share)),
                    *(percent(missed / misses), decimal(per, 1)),
                ]
            )
    headings = ["object", "latency, million cycles", "% latency", "% events", "latency/event"]
    page.table(name, headings, rows)


def level_misses(result: Objects) -> dict[str, int]:
    return {row.level: row.misses for row in result.levels if row.kind == "cache"}


def levels_table(
    page: Page, results: dict[str, Objects], originals: dict[str, dict[str, str]]
) -> None:
    """Misses of each form over the slow form's, beside what the original saw."""
    slow = level_misses(next(iter(results.values())))
    rows: list[Row] = []
    for form, result in results.items():
        for level, misses in level_misses(result).items():
            if level in LEVELS and form != next(iter(results)):
                told = originals.get(form, {}).get(LEVELS[level], "")
                rows.append(
                    [form, LEVELS[level], count(misses), change(misses / slow[level]), told]
                )
    page.table("levels", ["form", "level", "misses", "change", "in the original"], rows)


def forms(lab: Lab, workload: str, names: Sequence[str], machine: str) -> dict[str, Objects]:
    return {form: lab.objects(workload, form, machine=machine) for form in names}
