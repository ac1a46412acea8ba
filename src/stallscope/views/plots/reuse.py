# SPDX-License-Identifier: Apache-2.0
"""What a cache of each size would miss, or how soon data is touched again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import Line, Lines, Numbers, Picture, numbers, recording_name
from stallscope.views.terminal.reuse import moment
from stallscope.views.terminal.text import size

if TYPE_CHECKING:
    from stallscope.analyses.reuse import Reuse

DRAWS = "Reuse"
SIZES = (("cache", "number"), ("misses", "number"), ("of those waited for", "number"))
TIMES = (("touched again within", "number"), ("share", "number"))


def picture(result: Reuse, limit: int | None) -> Picture:
    watched = f"{result.watches:,} granules watched" if result.watches else "every granule"
    covered = "" if result.covered is None else f" ({result.covered:.1%} of all)"
    facts = (
        f"{watched}, of {result.granule} bytes",
        f"speaks for {result.speaks_for}{covered}",
    )
    title = "What a cache would miss" if result.curve else "How soon data is touched again"
    return Picture(
        title=f"{title}: {recording_name(result.recording)}",
        facts=facts,
        charts=(_curve(result) if result.curve else _times(result),),
        numbers=_sizes_table(result) if result.curve else _times_table(result),
        empty="nothing was touched twice",
    )


def _curve(result: Reuse) -> Lines:
    lines = [Line("accesses it speaks for", tuple((r.bytes, r.misses) for r in result.curve))]
    waiting = tuple((r.bytes, r.waiting) for r in result.curve if r.waiting is not None)
    if waiting:
        lines.append(Line("those that are waited for", waiting, dashed=True))
    return Lines(
        x_axis="size of a fully associative LRU cache",
        x_unit="bytes",
        y_axis="touches that miss",
        y_unit="%",
        lines=tuple(lines),
        doubling=True,
    )


def _times(result: Reuse) -> Lines:
    points = tuple((row.within, row.share) for row in result.times)
    return Lines(
        x_axis="touched again within",
        x_unit=result.unit,
        y_axis="of all reuses",
        y_unit="%",
        lines=(Line("reuses", points),),
        doubling=True,
    )


def _sizes_table(result: Reuse) -> Numbers:
    return numbers(
        SIZES,
        [
            (
                size(row.bytes),
                f"{row.misses:.2%}",
                "" if row.waiting is None else f"{row.waiting:.2%}",
            )
            for row in result.curve
        ],
    )


def _times_table(result: Reuse) -> Numbers:
    rows = [(moment(row.within, result.unit), f"{row.share:.2%}") for row in result.times]
    return numbers(TIMES, rows)
