# SPDX-License-Identifier: Apache-2.0
"""Draws the regions that a program marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table, together
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.regions import Regions


def show_regions(result: Regions, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"machine {clean(result.machine)}: misses of {result.level}; a region has what the "
            "regions inside it have"
        )
    )
    together(result.processes, console)
    rows = table(
        ("executed", True),
        ("share", True),
        ("accesses", True),
        ("misses", True),
        ("share", True),
        ("latency", True),
        ("entered", True),
        ("region", False),
        ("inside", False),
    )
    for row in result.rows[: limit or None]:
        rows.add_row(
            amount(row.instructions),
            f"{row.instructions_share:.1%}",
            amount(row.accesses),
            amount(row.misses),
            f"{row.share:.1%}",
            f"{row.latency_share:.1%}",
            amount(row.entered) if row.entered else "",
            Text(clean(row.region)),
            Text(clean(", ".join(row.inside))),
        )
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)
