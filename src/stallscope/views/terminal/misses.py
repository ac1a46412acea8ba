# SPDX-License-Identifier: Apache-2.0
"""Draws misses by level, and why they happened."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, scope, table, together
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.misses import Kinds, Misses, MissRow

_KINDS = (("cold", True), ("capacity", True), ("conflict", True))


def show_misses(result: Misses, console: Console, limit: int) -> None:
    console.print(Text(scope(result.machine, result.region)))
    together(result.processes, console)
    kinds = _KINDS if result.classified else ()
    levels = table(("level", False), ("accesses", True), ("misses", True), ("ratio", True), *kinds)
    for row in result.levels:
        levels.add_row(
            row.level, amount(row.accesses), amount(row.misses), f"{row.miss_ratio:.2%}", *_of(row)
        )
    console.print(levels)
    if result.by == "level":
        return
    console.print()
    rows = table(("level", False), ("misses", True), ("share", True), *kinds, (result.by, False))
    for one in result.rows[: limit or None]:
        rows.add_row(
            one.level, amount(one.misses), f"{one.share:.1%}", *_of(one), Text(clean(_what(one)))
        )
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)


def _of(row: Kinds) -> list[str]:
    shares = (row.cold_share, row.capacity_share, row.conflict_share)
    return [f"{share:.1%}" for share in shares if share is not None]


def _what(row: MissRow) -> str:
    if row.object is not None:
        return row.object
    place = PurePath(row.file or "").name
    if row.line is not None:
        place += f":{row.line}"
    return f"{row.function}  {place}" if place else str(row.function)
