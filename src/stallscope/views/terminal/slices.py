# SPDX-License-Identifier: Apache-2.0
"""Draws prefetch slices as assembly with its source lines, or as C."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import clean, many

if TYPE_CHECKING:
    from stallscope.analyses.slices import SliceRow, Slices


def show_slices(result: Slices, console: Console, limit: int, *, as_c: bool = False) -> None:
    made = sum(not row.reason for row in result.rows)
    console.print(
        Text(
            f"{many(made, 'slice')} for loads with {result.share:.1%} of the misses "
            f"of {result.level} on {result.machine}"
        )
    )
    for row in result.rows[: limit or None]:
        console.print()
        _show(row, console, as_c)
    left_out(console, len(result.rows) - limit if limit else 0)


def _show(row: SliceRow, console: Console, as_c: bool) -> None:
    where = f"{row.function} {PurePath(row.file).name}:{row.line}"
    console.print(Text(clean(f"{row.pc:#x}  {where}  {row.kind}, {row.share:.1%} of the misses")))
    for grown in row.grown:
        console.print(Text(clean(f"  grown from {grown}"), style="dim"))
    if row.reason:
        console.print(Text(clean(f"  no slice: {row.reason}")))
        return
    console.print(
        Text(
            f"  {row.kept_steps} of {row.trace_steps} instructions, "
            f"{row.runs_a_visit:,.0f} runs a visit"
        )
    )
    if as_c:
        for said in (row.c or "  it cannot be said in C").splitlines():
            console.print(Text(clean(said)))
        return
    lines = table(
        ("", False), ("address", True), ("instruction", False), ("line", True), ("", False)
    )
    for line in row.assembly:
        lines.add_row(
            line.role,
            f"{line.address:#x}",
            Text(clean(line.text)),
            "" if line.line is None else str(line.line),
            line.note,
        )
    console.print(lines)
