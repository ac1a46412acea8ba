# SPDX-License-Identifier: Apache-2.0
"""Draws Accesses for a terminal."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.text import amount, clean, size

if TYPE_CHECKING:
    from stallscope.analyses.accesses import Accesses, LineRow, SiteRow


def show(result: Accesses, console: Console, limit: int) -> None:
    lines = _table("where it touches memory", "share", "loads", "stores")
    for line in result.lines[: limit or None]:
        lines.add_row(
            f"{line.share:.1%}",
            amount(line.loads),
            amount(line.stores),
            Text(clean(line.function)),
            _place(line),
        )
    console.print(lines)
    sites = _table("\nwhere its heap blocks come from", "bytes", "blocks", "by")
    for site in result.sites[: limit or None]:
        sites.add_row(
            size(site.bytes),
            amount(site.blocks),
            site.allocator,
            Text(clean(site.function)),
            _place(site),
        )
    console.print(sites)


def _table(title: str, *numbers: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in numbers:
        table.add_column(name, justify="right")
    table.add_column("function", overflow="fold")
    table.add_column("line", overflow="fold")
    return table


def _place(row: LineRow | SiteRow) -> Text:
    if not row.file:
        return Text("")
    return Text(clean(f"{PurePath(row.file).name}:{row.line}" if row.line else row.file))
