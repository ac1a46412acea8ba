# SPDX-License-Identifier: Apache-2.0
"""What tracking page accesses costs by the size of the buffer, with hardware and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import BarRow, Bars, Panel, Picture, numbers, recording_name
from stallscope.views.terminal.text import amount, size

if TYPE_CHECKING:
    from stallscope.analyses.page_overhead import OverheadRow, PageOverhead

DRAWS = "PageOverhead"
COLUMNS = (
    ("entries", "number"),
    ("reach", "number"),
    ("logged", "number"),
    ("exceptions", "number"),
    ("hot pages read", "number"),
    ("PATH", "number"),
    ("protection faults", "number"),
    ("by software", "number"),
)


def picture(result: PageOverhead, limit: int | None) -> Picture:
    return Picture(
        title=f"What tracking page accesses costs: {recording_name(result.recording)}",
        facts=(
            f"{amount(result.instructions)} instructions, a cycle each",
            f"{result.exception_cycles:,} cycles an exception",
            f"{result.entry_cycles:,.0f} an entry",
            f"{result.fault_cycles:,} a protection fault",
        ),
        charts=(
            Bars(
                panels=(
                    Panel("PATH", "%", ("overhead",)),
                    Panel("software alone, cut at 100%", "%", ("overhead",)),
                ),
                rows=tuple(_bar(row) for row in result.rows),
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
    )


def _bar(row: OverheadRow) -> BarRow:
    return BarRow(
        label=f"{row.entries:,} entries, {size(row.reach_bytes)}",
        group="code",
        values=((row.overhead,), (row.software_overhead,)),
    )


def _numbers(row: OverheadRow) -> tuple[str, ...]:
    return (
        f"{row.entries:,}",
        size(row.reach_bytes),
        f"{row.logged:,}",
        f"{row.exceptions:,}",
        f"{row.refreshed:,}",
        f"{row.overhead:.2%}",
        f"{row.software_faults:,}",
        f"{row.software_overhead:.2%}",
    )
