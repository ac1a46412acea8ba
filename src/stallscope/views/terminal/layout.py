# SPDX-License-Identifier: Apache-2.0
"""Which heap blocks are to lie elsewhere, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from stallscope.analyses.layout import Layout


def show_layout(result: Layout, console: Console, limit: int) -> None:
    table = Table(box=None, pad_edge=False)
    for heading, justify in (("share", "right"), ("blocks", "right"), ("bytes", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("object")
    table.add_column("placed")
    for row in result.rows[: limit or None]:
        place = "together" if row.packed else f"from line {row.line} of a page, {row.step} apart"
        numbers = (f"{row.share:.1%}", f"{row.blocks:,}", f"{row.bytes:,}")
        table.add_row(*numbers, escape(row.object), place)
    console.print(table)
