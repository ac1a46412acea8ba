# SPDX-License-Identifier: Apache-2.0
"""Draws who accessed watched memory."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.watch import Hit, Place, Watched


SHOWN = 8  # words of a snapshot
A_LINE = 4  # registers


def _where(row: Place | Hit) -> str:
    line = f":{row.line}" if row.line else ""
    file = f" ({PurePath(row.file).name}{line})" if row.file else ""
    return clean(f"{row.function}{file}")


def show_watched(result: Watched, console: Console, limit: int, log: bool) -> None:
    for name, hits in result.watches.items():
        console.print(Text(f"{clean(name)}: {hits:,} hits"))
    accesses = f"{amount(result.accesses)} accesses, " if result.accesses else ""
    said = f"{result.source}: {accesses}{result.ranges:,} ranges"
    said += f", {result.false_hits:,} false hits of the match taken out"
    if result.unknown:
        said += f", {result.unknown:,} left out whose value is not known"
        said += f" (values were kept of {clean(', '.join(result.values))})" if result.values else ""
    if result.lost:
        said += f", {result.lost:,} lost"
    if result.stopped:
        said += "; stopped"
    console.print(Text(said, style="dim"))
    if result.rows:
        console.print()
        drawn = table(("hits", True), ("kind", False), ("watch", False), ("where", False))
        for row in result.rows[: limit or None]:
            drawn.add_row(f"{row.hits:,}", row.kind, Text(clean(row.watch)), Text(_where(row)))
        console.print(drawn)
        left_out(console, len(result.rows) - limit if limit else 0)
    if log or result.stopped:
        _log(result, console, limit)


def _bytes(snapshot: str) -> str:
    words = [snapshot[i : i + 8] for i in range(0, len(snapshot), 8)]
    return " ".join(words[:SHOWN]) + (" …" if len(words) > SHOWN else "")


def _log(result: Watched, console: Console, limit: int) -> None:
    shown = result.log[-1:] if result.stopped else result.log[: limit or None]
    console.print()
    for hit in shown:
        value = f" = {hit.value:#x}" if hit.value is not None else ""
        size = f" {hit.bytes} bytes" if hit.bytes else ""
        what = f"{hit.kind}{size} at {hit.address}{value}"
        console.print(Text(f"{hit.time:,}  thread {hit.thread}  {what}  {_where(hit)}"))
        if hit.snapshot:
            console.print(Text(f"    {_bytes(hit.snapshot)}", style="dim"))
        if hit.registers:
            held = [f"{name}={value:#x}" for name, value in hit.registers.items()]
            for i in range(0, len(held), A_LINE):
                console.print(Text(f"    {' '.join(held[i : i + A_LINE])}", style="dim"))
        for call in hit.path:
            console.print(Text(f"    < {clean(call)}", style="dim"))
    if not result.stopped:
        left_out(console, len(result.log) - len(shown))
