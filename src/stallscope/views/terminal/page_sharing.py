# SPDX-License-Identifier: Apache-2.0
"""Draws what programs that share memory get, what prefetching pages saves, and what tracking them
costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean, many, size

if TYPE_CHECKING:
    from stallscope.analyses.page_allocation import PageAllocation
    from stallscope.analyses.page_overhead import PageOverhead
    from stallscope.analyses.page_prefetching import PagePrefetching


def show_allocation(result: PageAllocation, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"{many(len(result.recordings), 'program')} in {result.memory_pages:,} pages, "
            f"{size(result.memory_bytes)}; {amount(result.latency)} cycles a fault"
        )
    )
    sums = table(
        ("sharing", False), ("sized", False), ("misses", True), ("time", True), ("gain", True)
    )
    for all_ in result.sharings:
        sums.add_row(
            all_.sharing,
            _sized(all_.sharing, all_.adapts),
            f"{all_.misses:,}",
            amount(all_.projected_time),
            f"{all_.gain:+.1%}",
        )
    console.print(sums)
    console.print()
    rows = table(
        ("sharing", False),
        ("sized", False),
        ("pages", True),
        ("memory.max", True),
        ("misses", True),
        ("per million", True),
        ("time", True),
        ("program", False),
    )
    shown = result.rows[: limit or None]
    for row in shown:
        rows.add_row(
            row.sharing,
            _sized(row.sharing, row.adapts),
            f"{row.pages:,}",
            "" if row.adapts else str(row.bytes),
            f"{row.misses:,}",
            f"{row.miss_rate:,.2f}",
            amount(row.projected_time),
            Text(clean(row.program)),
        )
    console.print(rows)
    left_out(console, len(result.rows) - len(shown))


def _sized(sharing: str, adapts: bool) -> str:
    if sharing == "global":
        return "by use"
    return "every epoch" if adapts else "once"


def show_prefetching(result: PagePrefetching, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"footprint {size(result.footprint_pages * result.page_size)}; "
            f"{amount(result.references)} references; {amount(result.latency)} cycles a fault"
        )
    )
    rows = table(
        ("memory", True),
        ("prefetcher", False),
        ("faults", True),
        ("removed", True),
        ("precision", True),
        ("pages in", True),
        ("out", True),
        ("time", True),
    )
    shown = result.rows[: limit * 2 or None]
    for row in shown:
        rows.add_row(
            size(row.memory_bytes),
            row.prefetcher,
            f"{row.faults:,}",
            f"{row.faults_removed:.1%}",
            f"{row.precision:.1%}" if row.prefetched else "",
            f"{row.pages_in:,}",
            f"{row.pages_out:,}",
            amount(row.projected_time),
        )
    console.print(rows)
    left_out(console, len(result.rows) - len(shown))


def show_overhead(result: PageOverhead, console: Console, limit: int) -> None:
    how = "measured here" if result.entry_measured else "given"
    enough = (
        f"{result.enough:,} entries bring it below 6%"
        if result.enough is not None
        else "no buffer here brings it below 6%"
    )
    for line in (
        f"PATH with {result.buffer_entries:,} entries: {result.overhead:.2%} of "
        f"{amount(result.instructions)} cycles; {enough}",
        f"an exception {result.exception_cycles:,} cycles, an entry {result.entry_cycles:,.0f} "
        f"({how}), a protection fault {result.fault_cycles:,}",
    ):
        console.print(Text(line))
    hot = any(row.refreshed for row in result.rows)
    rows = table(
        ("entries", True),
        ("reach", True),
        ("logged", True),
        ("exceptions", True),
        *([("hot pages", True)] if hot else []),
        ("PATH", True),
        ("protection faults", True),
        ("by software", True),
    )
    for row in result.rows[: limit or None]:
        rows.add_row(
            f"{row.entries:,}",
            size(row.reach_bytes),
            f"{row.logged:,}",
            f"{row.exceptions:,}",
            *([f"{row.refreshed:,}"] if hot else []),
            f"{row.overhead:.2%}",
            f"{row.software_faults:,}",
            f"{row.software_overhead:.2%}",
        )
    console.print(rows)
