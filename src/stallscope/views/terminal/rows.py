# SPDX-License-Identifier: Apache-2.0
"""Tables of rows for a terminal, as all verbs about misses draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.objects import Process


def table(*columns: tuple[str, bool]) -> Table:
    """Each column by its name, and whether it holds numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name, is_number in columns:
        made.add_column(name, justify="right" if is_number else "left", overflow="fold")
    return made


def left_out(console: Console, count: int) -> None:
    if count > 0:
        console.print(Text(f"  … and {count:,} more (--limit 0 shows all)", style="dim"))


def together(processes: list[Process], console: Console) -> None:
    if len(processes) > 1:
        console.print(Text(f"{len(processes):,} processes together (--process PID shows one)"))


def scope(machine: str, region: str | None) -> str:
    """Where the numbers come from."""
    within = f", region {clean(region)}" if region is not None else ""
    return f"machine {clean(machine)}{within}"
