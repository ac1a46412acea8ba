# SPDX-License-Identifier: Apache-2.0
"""Draws a Verdict for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.verify import Verdict


def show(verdict: Verdict, console: Console, limit: int) -> None:
    if verdict.rows:
        table = Table(box=None, pad_edge=False)
        for name in ("process", "severity", "rule", "instruction", "what is wrong"):
            table.add_column(name, overflow="fold")
        for row in verdict.rows[: limit or None]:
            where = "" if row.instruction is None else f"{row.instruction:,}"
            table.add_row(row.process, row.severity, row.rule, where, Text(clean(row.text)))
        console.print(table)
    state = "truncated, and what is there is " if verdict.truncated else ""
    sound = f"{verdict.errors:,} broken invariants" if verdict.errors else f"{state}sound"
    notes = f", {verdict.notes:,} notes" if verdict.notes else ""
    images = "1 process image" if verdict.processes == 1 else f"{verdict.processes} process images"
    console.print(
        Text(
            f"{clean(verdict.recording)}: {sound}{notes} "
            f"({images}, {amount(verdict.instructions)} instructions)"
        )
    )
