# SPDX-License-Identifier: Apache-2.0
"""What Stallscope's own work takes on this machine, where a result depends on that."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stallscope import _engine
from stallscope.analyses import page_overhead as analysis
from stallscope.analyses.page_curves import LOGGED, feed, with_flag
from stallscope.analyses.page_overhead import PageOverhead
from stallscope.analyses.page_view import PageView

ROUNDS = 3
FEW = 20_000  # entries below which the references kept are measured instead
USUAL_HERTZ = 3e9


def page_overhead(view: PageView, entry_cycles: float | None = None, **words: Any) -> PageOverhead:
    """What tracking page accesses costs; an entry of a log what it costs here, unless given."""
    measured = entry_cycles is None
    cycles = entry_seconds(view) * hertz() if entry_cycles is None else entry_cycles
    return analysis.overhead(view, entry_cycles=cycles, entry_measured=measured, **words)


def entry_seconds(view: PageView) -> float:
    """Of the LRU stack and its curve for one entry: the best of a few runs over the log."""
    log = with_flag(view.log, LOGGED)
    if log.num_rows < FEW:
        log = view.references_kept()
    if not log.num_rows:
        return 0.0
    best: float = float("inf")
    for _ in range(ROUNDS):
        stack = _engine.LruStack()
        begin = time.perf_counter()
        feed(stack, log, "page")
        best = min(best, time.perf_counter() - begin)
    return best / int(log.num_rows)


def hertz() -> float:
    """Of this machine's processors, as the kernel tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return USUAL_HERTZ
    found = [float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")]
    return max(found) * 1e6 if found and max(found) > 0 else USUAL_HERTZ
