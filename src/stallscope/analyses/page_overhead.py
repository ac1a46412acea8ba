# SPDX-License-Identifier: Apache-2.0
"""What tracking page accesses costs: with PATH units of several sizes, and by software alone.

PATH: every exception costs its cycles, and every entry of a log what the LRU stack and its curve
take to learn what came and what left; so does every hot page that is read from the tables, whose
marks are read 64 at a time. By software: pages outside an active set are protected, and every
reference to one is a fault of its own; CLOCK chooses who leaves the set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stallscope import _engine
from stallscope.analyses.page_curves import feed
from stallscope.analyses.page_view import PageView
from stallscope.errors import StallscopeError
from stallscope.recording import PAGES

if TYPE_CHECKING:
    import pyarrow as pa

COUNTS = ("logged", "exceptions", "refreshes", "refreshed")
EXCEPTION = 1500  # cycles
PROTECTION_FAULT = 7500  # cycles: 2.5 µs at 3 GHz
MARKS = 64  # of pages used, in a word
READ = 4  # cycles of such a word
LIMIT = 0.06  # overhead that is still small


@dataclass(frozen=True)
class OverheadRow:
    entries: int  # of the page access buffer, or of the active set
    reach_bytes: int
    logged: int
    exceptions: int
    refreshed: int  # hot pages read from the tables
    overhead: float  # of PATH, over the time without it
    software_faults: int
    software_overhead: float


@dataclass(frozen=True)
class PageOverhead:
    recording: str
    page_size: int
    instructions: int
    accesses: int
    exception_cycles: int
    entry_cycles: float  # of an entry: what its update of stack and curve takes
    entry_measured: bool  # on this machine, with this log
    fault_cycles: int  # of a protection fault
    buffer_entries: int  # as the recording's units have it
    overhead: float  # with those
    enough: int | None  # the smallest buffer with an overhead below 6%; None: none of these
    rows: list[OverheadRow]


def overhead(
    view: PageView,
    *,
    entry_cycles: float,
    entry_measured: bool = False,
    exception_cycles: int = EXCEPTION,
    fault_cycles: int = PROTECTION_FAULT,
) -> PageOverhead:
    """Shares of the program's time, an instruction a cycle. `entry_cycles` is what one entry costs:
    `stallscope.page_overhead` measures that."""
    _check(view, entry_cycles, exception_cycles, fault_cycles)
    kept = view.references_kept()

    def share(counts: dict[str, int], entries: int) -> float:
        words = -(-(entries + view.options.tlb_entries) // MARKS)
        events = counts["exceptions"] * exception_cycles + counts["refreshes"] * words * READ
        cycles = events + (counts["logged"] + counts["refreshed"]) * entry_cycles
        return cycles / max(1, view.instructions)

    sums: dict[int, dict[str, int]] = {}
    for row in view.rows("page_buffer"):
        _add(sums.setdefault(row["entries"], dict.fromkeys(COUNTS, 0)), row)
    rows = []
    for entries, counts in sorted(sums.items()):
        faults = _software_faults(kept, entries)
        rows.append(
            OverheadRow(
                entries=entries,
                reach_bytes=entries * view.options.page_size,
                logged=counts["logged"],
                exceptions=counts["exceptions"],
                refreshed=counts["refreshed"],
                overhead=share(counts, entries),
                software_faults=faults,
                software_overhead=faults * fault_cycles / max(1, view.instructions),
            )
        )
    units = dict.fromkeys(COUNTS, 0)
    for row in view.rows("page_unit"):
        _add(units, row)
    return PageOverhead(
        recording=view.recording,
        page_size=view.options.page_size,
        instructions=view.instructions,
        accesses=view.accesses,
        exception_cycles=exception_cycles,
        entry_cycles=entry_cycles,
        entry_measured=entry_measured,
        fault_cycles=fault_cycles,
        buffer_entries=view.options.buffer_entries,
        overhead=share(units, view.options.buffer_entries),
        enough=next((row.entries for row in rows if row.overhead < LIMIT), None),
        rows=rows,
    )


def _check(view: PageView, entry_cycles: float, exception_cycles: int, fault_cycles: int) -> None:
    for word, value in (
        ("entry-cycles", entry_cycles),
        ("exception-cycles", exception_cycles),
        ("fault-cycles", fault_cycles),
    ):
        if value < 0:
            raise StallscopeError(f"--{word} {value}: nothing takes less than no time")
    if view.source == PAGES:
        raise StallscopeError(
            "a run under page protection has no PATH units",
            "its own cost is the time that it took, beside that of a run without",
            "stallscope record --probe pages",
        )


def _add(sums: dict[str, int], row: dict[str, int]) -> None:
    for name in COUNTS:
        sums[name] += row[name]


def _software_faults(kept: pa.Table, active: int) -> int:
    counts = feed(_engine.replacement("clock", active), kept, "page").misses()
    return int(counts["misses"])
