# SPDX-License-Identifier: Apache-2.0
"""Draws delinquent loads."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.loads import LoadRow, Loads


def show_loads(result: Loads, console: Console, limit: int) -> None:
    of = "waiting samples" if result.misses is None else f"misses of {result.level}"
    total = result.samples if result.misses is None else result.misses
    console.print(
        Text(
            f"on {result.machine}: {amount(total)} {of} by loads; "
            f"{result.covering} loads have 90% of them"
        )
    )
    rows = table(
        ("load", True), ("misses", True), ("share", True), ("samples", True), ("delinquent", False),
        ("class", False), ("object", False), ("where", False),
    )  # fmt: skip
    for row in result.rows[: limit or None]:
        rows.add_row(
            f"{row.pc:#x}",
            "-" if row.misses is None else amount(row.misses),
            f"{row.share:.1%}",
            amount(row.samples),
            row.delinquent,
            row.kind,
            Text(clean(row.object)),
            Text(clean(_where(row))),
        )
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)
    if not result.delinquent:
        console.print(
            Text(f"no load is delinquent: none has {result.threshold} samples; see --threshold")
        )


def _where(row: LoadRow) -> str:
    place = PurePath(row.file).name
    return f"{row.function}  {place}:{row.line}" if row.line is not None else row.function
