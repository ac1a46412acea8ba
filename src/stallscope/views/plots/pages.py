# SPDX-License-Identifier: Apache-2.0
"""Page misses at every size of memory, with the knee marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import (
    Line,
    Lines,
    Picture,
    numbers,
    recording_name,
    scope_facts,
    spread,
)
from stallscope.views.terminal.text import amount, clean, size

if TYPE_CHECKING:
    from stallscope.analyses.page_curves import CurveRow
    from stallscope.analyses.pages import Pages

DRAWS = "Pages"
COLUMNS = (("pages", "number"), ("memory", "number"), ("misses", "number"))
ROWS = 200  # of the numbers


def picture(result: Pages, limit: int | None) -> Picture:
    of = "" if result.of == "all" else f" of {clean(result.of)}"
    rows = result.points(limit or ROWS)
    knee = size(result.knee.pages * result.page_size)
    return Picture(
        title=f"Page misses{of} by size of memory: {recording_name(result.recording)}",
        facts=(
            f"{result.footprint_pages:,} pages of {size(result.page_size)}",
            f"{amount(result.accesses)} accesses",
            f"{amount(result.logged)} logged by PATH",
            *scope_facts(result),
        ),
        charts=(
            Lines(
                x_axis="memory",
                x_unit="bytes",
                y_axis="misses under LRU",
                y_unit="misses",
                lines=(
                    Line("every access" if result.exact else "references kept", _points(result)),
                    *_path(result),
                    *_mru(result),
                ),
                marks=((result.knee.pages * result.page_size, f"knee: {knee}"),),
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row, result.page_size) for row in rows]),
        notes=(
            f"Sizes below {result.hot} pages are not drawn: every access misses there.",
            "What PATH logs is true beyond twice the reach of its buffer.",
        ),
    )


def _points(result: Pages) -> tuple[tuple[float, float], ...]:
    return _drawn(result.curve, result)


def _path(result: Pages) -> tuple[Line, ...]:
    if not result.path_curve:
        return ()
    return (Line("logged by PATH", _drawn(result.path_curve, result), dashed=True),)


def _mru(result: Pages) -> tuple[Line, ...]:
    curves = (("MRU", result.mru_curve), ("reversed rank, not MRU", result.reversed_rank))
    return tuple(Line(name, _drawn(curve, result)) for name, curve in curves if curve)


def _drawn(curve: list[CurveRow], result: Pages) -> tuple[tuple[float, float], ...]:
    rows = result.beyond_hot(curve)
    return spread([(row.pages * result.page_size, row.misses) for row in rows])


def _numbers(row: CurveRow, page: int) -> tuple[str, ...]:
    return (f"{row.pages:,}", size(row.pages * page), f"{row.misses:,}")
