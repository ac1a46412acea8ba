# SPDX-License-Identifier: Apache-2.0
"""Draws the rows of a query for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.text import clean


def show(rows: Sequence[Mapping[str, Any]], console: Console, limit: int) -> None:
    if not rows:
        console.print(Text("no rows"))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(
            Text(clean(name)),
            justify="right" if isinstance(value, int | float) else "left",
            overflow="fold",
        )
    for row in rows[: limit or None]:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    console.print(table)
    if limit and len(rows) > limit:
        console.print(
            Text(f"  … and {len(rows) - limit:,} more (--limit 0 shows all)", style="dim")
        )


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return f"{value:.6g}" if isinstance(value, float) else clean(str(value))
