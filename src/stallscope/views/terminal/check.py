# SPDX-License-Identifier: Apache-2.0
"""What a gate found, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.check import Check


def show_check(result: Check, console: Console, limit: int) -> None:
    failed = [row for row in result.rows if not row.passed]
    if failed:
        rows = table(("before", True), ("now", True), ("limit", True), ("cost", True), ("", False))
        for row in failed[: limit or None]:
            cost = "" if row.cost is None else f"{row.cost:+,}"
            numbers = (_number(row.before), _number(row.now), _number(row.limit), cost)
            rows.add_row(*numbers, Text(clean(row.words)))
        console.print(rows)
        left_out(console, len(failed) - len(failed[: limit or None]))
    against = f" against {clean(result.baseline)}" if result.baseline else ""
    verdict = "passed" if result.passed else f"{result.failed} of {result.checked} failed"
    style = "green" if result.passed else "red"
    console.print(
        Text(f"check {verdict}", style=style),
        Text(f"({result.checked} checks{against}, machine {clean(result.machine)})"),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
