# SPDX-License-Identifier: Apache-2.0
"""Which heap blocks are to lie elsewhere, and what that does, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.layout import Change, Layout, Native


def show_layout(result: Layout, console: Console, limit: int) -> None:
    table = _table("share", "blocks", "bytes", "object", "placed", words=2)
    for row in result.rows[: limit or None]:
        place = "together" if row.packed else f"from line {row.line} of a page, {row.step} apart"
        numbers = (f"{row.share:.1%}", f"{row.blocks:,}", f"{row.bytes:,}")
        table.add_row(*numbers, Text(clean(row.object)), place)
    if result.rows:
        console.print(table)
    else:
        console.print("no heap blocks of malloc evict each other or lie loosely enough to matter")
    if result.moved_blocks is not None:
        _show_changes(result, console, limit)
    if result.native is not None:
        _show_native(result.native, console)


def _table(*headings: str, words: int) -> Table:
    """The last `words` columns are words, the others numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        right = number < len(headings) - words
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    return table


def _show_changes(result: Layout, console: Console, limit: int) -> None:
    console.print(f"\nmisses with {result.moved_blocks:,} blocks moved, machine {result.machine}")
    levels = [(row, row.level) for row in result.levels]
    objects = [
        (row, clean(row.object) + (" (placed)" if row.placed else "")) for row in result.objects
    ]
    _show(levels, "level", console)
    console.print()
    _show(objects[: limit or None], f"object, by misses of {result.level}", console)


def _show(rows: Sequence[tuple[Change, str]], heading: str, console: Console) -> None:
    confirmed = any(row.confirmed is not None for row, _ in rows)
    more = ("confirmed", "off by") if confirmed else ()
    table = _table("before", "predicted", "ratio", *more, heading, words=1)
    for row, name in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        numbers = [f"{row.before:,}", f"{row.predicted:,}", ratio]
        if confirmed:
            numbers.append(f"{row.confirmed:,}")
            numbers.append("" if row.error is None else f"{row.error:+.1%}")
        table.add_row(*numbers, Text(name))
    console.print(table)


def _show_native(native: Native, console: Console) -> None:
    console.print(
        f"\nnatively, {native.runs} runs of each in turns: {native.plain:.3f} s as it is, "
        f"{native.placed:.3f} s placed; ratio {native.ratio:.2f} "
        f"(quartiles {native.low:.2f} to {native.high:.2f})"
    )
