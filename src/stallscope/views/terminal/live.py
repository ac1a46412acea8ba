# SPDX-License-Identifier: Apache-2.0
"""Draws what a program waits for, from samples, for a terminal."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.rows import left_out, together
from stallscope.views.terminal.rows import table as table_of
from stallscope.views.terminal.text import amount, clean, duration, size

if TYPE_CHECKING:
    from stallscope.analyses.live import LiveObjects, LivePlaces, ThreadRow

STATES = {
    "memory": "waiting for memory",
    "compute": "computing",
    "kernel": "in the kernel",
    "unknown": "unknown",
}


def headline(result: LiveObjects | LivePlaces) -> Text:
    """How many samples of what, and what the program did when they were taken."""
    seconds = "" if result.seconds is None else f" in {duration(result.seconds)}"
    parts = [
        f"{row.share:.1%} {STATES[row.state]}"
        for row in result.states
        if row.samples or row.state != "unknown"
    ]
    text = Text(f"source {result.source}: {result.samples:,} samples{seconds}: ")
    text.append(", ".join(parts), style="bold")
    return text


def footline(result: LiveObjects | LivePlaces) -> Text:
    known = f"{result.addressed:,} of {result.waiting:,} waiting samples have an address"
    sure = "" if result.confidence is None else f"; on average {result.confidence:.0%} sure"
    lost = f"; {result.lost:,} samples were lost" if result.lost else ""
    return Text(f"\n{known}{sure}{lost}", style="dim")


def objects_table(result: LiveObjects, limit: int) -> Table:
    table = table_of(
        ("waiting", True),
        ("samples", True),
        ("sure", True),
        ("blocks", True),
        ("bytes", True),
        ("object", False),
    )
    for row in result.rows[: limit or None]:
        table.add_row(
            f"{row.share:.1%}",
            f"{row.sampled:,}",
            f"{row.confidence:.0%}",
            "" if not row.blocks else amount(row.blocks),
            "" if not row.bytes else size(row.bytes),
            Text(clean(row.object) + (f"  {clean(row.type)}" if row.type else "")),
        )
    return table


def places_table(result: LivePlaces, limit: int) -> Table:
    table = table_of(
        ("waiting", True),
        ("samples", True),
        ("time", True),
        ("sure", True),
        ("function", False),
        *([("line", False)] if result.by == "line" else []),
    )
    for row in result.rows[: limit or None]:
        name = PurePath(row.file).name
        place = f"{name}:{row.line}" if row.line else name
        table.add_row(
            f"{row.share:.1%}",
            f"{row.sampled:,}",
            f"{row.time_share:.1%}",
            "" if row.confidence is None else f"{row.confidence:.0%}",
            Text(clean(row.function)),
            *([Text(clean(place))] if result.by == "line" else []),
        )
    return table


def threads_table(rows: list[ThreadRow], limit: int) -> Table:
    table = table_of(("time", True), ("waiting", True), ("thread", False))
    for row in rows[: limit or None]:
        waiting = row.memory / row.samples
        table.add_row(f"{row.share:.1%}", f"{waiting:.1%}", Text(clean(row.thread)))
    return table


def _show(
    result: LiveObjects | LivePlaces, table: RenderableType, console: Console, limit: int
) -> None:
    console.print(headline(result))
    together(result.processes, console)
    console.print()
    console.print(table)
    left_out(console, len(result.rows) - limit if limit else 0)
    console.print(footline(result))


def show_objects(result: LiveObjects, console: Console, limit: int) -> None:
    _show(result, objects_table(result, limit), console, limit)


def show_places(result: LivePlaces, console: Console, limit: int) -> None:
    _show(result, places_table(result, limit), console, limit)
