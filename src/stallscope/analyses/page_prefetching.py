# SPDX-License-Identifier: Apache-2.0
"""What bringing in pages ahead of time would save: by their addresses, or by what followed them
last time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stallscope import _engine
from stallscope.analyses.page_curves import LATENCY, feed
from stallscope.analyses.page_replacement import check_memory, chosen_log, projected_time
from stallscope.analyses.page_view import PageView
from stallscope.errors import StallscopeError

# Name, what the engine calls it, and whether its window or depth adapts.
KINDS = {
    "none": ("none", False),
    "spatial": ("spatial", True),
    "proximity": ("proximity", False),
    "proximity-adaptive": ("proximity", True),
}


@dataclass(frozen=True)
class PrefetchRow:
    memory: int  # pages
    memory_bytes: int
    prefetcher: str
    faults: int
    faults_removed: float  # share of those without prefetching
    recall: float  # the same of those that are no first references, which nothing can foresee
    precision: float  # of the pages brought in ahead, those that were then used
    prefetched: int
    used: int
    wasted: int  # thrown out unused
    pages_in: int  # I/O
    pages_out: int
    projected_time: float  # cycles
    reach: int  # pages of the window, or depth in the graph, at the end


@dataclass(frozen=True)
class PagePrefetching:
    recording: str
    page_size: int
    footprint_pages: int
    log: str
    references: int
    latency: int
    rows: list[PrefetchRow]


def prefetching(
    view: PageView,
    memory: int | str | Sequence[int | str] = (),
    *,
    prefetchers: Sequence[str] = (),
    log: str = "order",
    latency: int = LATENCY,
    most: int = 64,
    degree: int = 10,
    scan: int = 64,
    depth: int = 3,
    unused: float = 0.1,
) -> PagePrefetching:
    """Faults and I/O under LRU with each prefetcher. `most`: pages at once; `degree`, `scan` and
    `depth` are of the page proximity graph; `unused`: the share of memory that prefetched pages may
    take before they are used."""
    sizes = check_memory(memory, view)
    for name in prefetchers:
        if name not in KINDS:
            raise StallscopeError(
                f"there is no prefetcher {name}", f"there are: {', '.join(KINDS)}"
            )
    references = chosen_log(view, log)
    words: dict[str, Any] = {
        "most": most,
        "degree": degree,
        "scan": scan,
        "depth": depth,
        "unused_share": unused,
    }
    rows = []
    for size in sizes:
        for name in prefetchers or KINDS:
            kind, adapt = KINDS[name]
            try:
                made = _engine.prefetching(kind, size, adapt=adapt, **words)
            except _engine.EngineError as error:
                raise StallscopeError(*error.args) from error
            counts = feed(made, references, "page", "writes").counts()
            rows.append(_row(view, size, name, counts, latency))
    return PagePrefetching(
        recording=view.recording,
        page_size=view.options.page_size,
        footprint_pages=view.footprint,
        log=log,
        references=references.num_rows,
        latency=latency,
        rows=rows,
    )


def _row(
    view: PageView, memory: int, name: str, counts: dict[str, Any], latency: int
) -> PrefetchRow:
    removed = counts["faults_without"] - counts["faults"]
    known = counts["faults_without"] - counts["cold"]
    return PrefetchRow(
        memory=memory,
        memory_bytes=memory * view.options.page_size,
        prefetcher=name,
        faults=counts["faults"],
        faults_removed=removed / max(1, counts["faults_without"]),
        recall=removed / max(1, known),
        precision=counts["used"] / max(1, counts["prefetched"]),
        prefetched=counts["prefetched"],
        used=counts["used"],
        wasted=counts["wasted"],
        pages_in=counts["faults"] + counts["prefetched"],
        pages_out=counts["writebacks"],
        projected_time=projected_time(view.instructions, counts["faults"], latency),
        reach=counts["reach"],
    )
