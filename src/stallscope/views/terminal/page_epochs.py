# SPDX-License-Identifier: Apache-2.0
"""Draws how a program's need of memory changes over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, size

if TYPE_CHECKING:
    from stallscope.analyses.page_epochs import PageEpochs


def show_epochs(result: PageEpochs, console: Console, limit: int) -> None:
    group = size(result.group * result.page_size)
    console.print(
        Text(
            f"{size(result.memory_bytes)} of memory, footprint "
            f"{size(result.footprint_pages * result.page_size)}; "
            f"epochs of {amount(result.epoch)} references"
        )
    )
    rows = table(
        ("epoch", True),
        ("begins at", True),
        ("misses", True),
        (f"{group} less", True),
        (f"{group} more", True),
        ("knee", True),
        ("new pages", True),
    )
    shown = result.rows[: limit or None]
    for row in shown:
        rows.add_row(
            str(row.epoch),
            amount(row.time),
            f"{row.misses:,}",
            f"+{row.penalty:,}",
            f"-{row.benefit:,}",
            size(row.knee_pages * result.page_size),
            f"{row.new_pages:,}",
        )
    console.print(rows)
    left_out(console, len(result.rows) - len(shown))
