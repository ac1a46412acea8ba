# SPDX-License-Identifier: Apache-2.0
"""Draws loops and what would speed them up."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.loops import Loop, Loops


def _where(loop: Loop) -> str:
    line = f":{loop.line}" if loop.line else ""
    file = f" ({PurePath(loop.file).name}{line})" if loop.file else f" at {loop.header}"
    return "  " * loop.depth + clean(f"{loop.function}{file}")


def _strides(loop: Loop) -> str:
    steady = [one for one in loop.strides if one.stride is not None]
    steady.sort(key=lambda one: -one.executions)
    return " ".join(
        f"{one.stride:+,}" if one.regular > 1 / 2 else "?" for one in steady[:4] if one.executions
    )


def _trips(loop: Loop) -> str:
    if loop.shortest == loop.longest:
        return f"{loop.longest:,}"
    return f"{loop.trips:,.1f} ({loop.shortest:,} to {loop.longest:,})"


def show_loops(result: Loops, console: Console, limit: int) -> None:
    said = f"{amount(result.instructions)} instructions, {len(result.rows):,} loops ran"
    console.print(Text(f"{said}; machine {clean(result.machine)}", style="dim"))
    drawn = table(
        ("instr.", True),
        ("entries", True),
        ("trips", True),
        ("misses", True),
        ("cycles", True),
        ("strides", False),
        ("loop", False),
    )
    for row in result.rows[: limit or None]:
        drawn.add_row(
            amount(row.instructions),
            f"{row.entries:,}",
            _trips(row),
            f"{row.misses:,}",
            amount(row.cycles),
            _strides(row),
            Text(_where(row)),
        )
    console.print(drawn)
    left_out(console, len(result.rows) - limit if limit else 0)
    for row in result.rows[: limit or None]:
        for one in row.suggestions:
            console.print()
            console.print(Text(f"{one.optimisation}: {_where(row).strip()}", style="bold"))
            console.print(Text(f"  {one.why}"))
            change = f"{one.metric} of the loop {one.before:,} -> {one.after:,}"
            console.print(Text(f"  predicted: {change}"))
            console.print(Text(f"  gcc: {one.gcc}    clang: {one.clang}", style="dim"))
