# SPDX-License-Identifier: Apache-2.0
"""Two programs on one machine, and what they do to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import table
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.together import Together


def show_together(found: Together, console: Console, limit: int) -> None:
    console.print(
        Text(f"machine {clean(found.machine)}, {found.slice:,} instructions of each in turn")
    )
    rows = table(("program", False), ("cycles alone", True), ("together", True),
                 ("slower by", True), ("lines from memory", True), ("together", True))  # fmt: skip
    for row in found.rows:
        rows.add_row(
            Text(clean(row.program)),
            amount(row.cycles_alone),
            amount(row.cycles_together),
            f"{row.slowdown - 1:.1%}",
            amount(row.memory_alone),
            amount(row.memory_together),
        )
    console.print(rows)
