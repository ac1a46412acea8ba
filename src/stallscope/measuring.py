# SPDX-License-Identifier: Apache-2.0
"""What Stallscope's own work takes on this machine, where a result depends on that."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope import _engine
from stallscope.analyses import page_overhead as analysis
from stallscope.analyses.page_curves import (
    CAME,
    GONE,
    LOGGED,
    MOMENT_BITS,
    feed,
    path_stack,
    told,
    with_flag,
)
from stallscope.analyses.page_overhead import PageOverhead
from stallscope.analyses.page_view import PageView

if TYPE_CHECKING:
    import pyarrow as pa

ROUNDS, MOST_ROUNDS = 3, 30
ENOUGH = 0.3  # seconds of measuring
MOST_KEPT = 50_000  # references, where the log is too short
FEW = 20_000  # entries below which the references kept are measured instead
USUAL_HERTZ = 3e9


def page_overhead(view: PageView, entry_cycles: float | None = None, **words: Any) -> PageOverhead:
    """What tracking page accesses costs; an entry of a log what it costs here, unless given."""
    measured = entry_cycles is None
    cycles = entry_seconds(view) * hertz() if entry_cycles is None else entry_cycles
    return analysis.overhead(view, entry_cycles=cycles, entry_measured=measured, **words)


def entry_seconds(view: PageView) -> float:
    """Of the LRU stack and its curve for one page that is logged, and for the one that leaves for
    it: the least processor time of some runs over the log."""
    make: Callable[[], Any]
    if view.options.departures:
        rows, entries = _what_units_tell(view)
        make = functools.partial(path_stack, view.options.buffer_entries)
    else:
        rows = with_flag(view.log, LOGGED)
        rows = (rows if rows.num_rows >= FEW else view.references_kept()).select(["page"])
        entries, make = rows.num_rows, _engine.LruStack
    if not entries:
        return 0.0
    took: list[float] = []
    while len(took) < ROUNDS or (sum(took) < ENOUGH and len(took) < MOST_ROUNDS):
        stack = make()
        begin = time.thread_time()
        feed(stack, rows, *rows.column_names)
        took.append(time.thread_time() - begin)
    return min(took) / entries


def _what_units_tell(view: PageView) -> tuple[pa.Table, int]:
    """And how many entries that is; where they are too few to be measured, the references kept, as
    if each page left when the next one came."""
    import pyarrow as pa

    logs = [part.table("page_log") for part in view.parts]
    entries = sum(with_flag(log, LOGGED).num_rows for log in logs)
    if entries >= FEW:
        longest = max(logs, key=len)
        return told(longest), with_flag(longest, LOGGED).num_rows
    pages = view.references_kept().slice(0, MOST_KEPT).column("page").to_pylist()
    came = [(page, CAME // CAME, i << MOMENT_BITS) for i, page in enumerate(pages, 1)]
    left = [(page, GONE // CAME, i << MOMENT_BITS | 1) for i, page in enumerate(pages, 1)]
    rows = [row for pair in zip(came, left[:1] + left[:-1], strict=True) for row in pair]
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    kinds = (pa.uint64(), pa.uint8(), pa.uint64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["page", "kind", "moment"]), len(pages)


def hertz() -> float:
    """Of this machine's processors, as the kernel tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return USUAL_HERTZ
    found = [float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")]
    return max(found) * 1e6 if found and max(found) > 0 else USUAL_HERTZ
