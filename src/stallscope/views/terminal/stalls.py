# SPDX-License-Identifier: Apache-2.0
"""Draws where cycles went."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.stalls import Split, StallRow, Stalls


def show_stalls(result: Stalls, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"machine {clean(result.machine)}, mode {result.mode}: "
            f"{amount(result.instructions)} instructions in {amount(result.cycles)} cycles, "
            f"CPI {result.cpi:.3f}"
        )
    )
    if result.split is not None:
        console.print(Text(_split(result.split)))
    _causes(result, console)
    if any(row.cycles for row in result.sources):
        _sources(result, console)
    if result.by != "cause":
        _places(result, console, limit)
    if len(result.phases) > 1:
        _phases(result, console, limit)
    if result.without:
        _gains(result, console)


def _split(split: Split) -> str:
    return (
        f"in {split.pieces} pieces, each warmed up by {split.warmup:,} instructions: cycles are "
        f"exact to {split.error:.2%}, as measured on {split.compared:,} of them"
    )


def _causes(result: Stalls, console: Console) -> None:
    causes = table(("cause", False), ("cycles", True), ("CPI", True), ("of stalls", True))
    for row in sorted(result.causes, key=lambda row: -row.cycles):
        causes.add_row(row.cause, amount(row.cycles), f"{row.cpi:.3f}", f"{row.share:.1%}")
    completion = f"{result.completion_cpi:.3f}"
    causes.add_row("(completion)", amount(result.completion_cycles), completion, "")
    console.print(causes)


def _sources(result: Stalls, console: Console) -> None:
    console.print("\ndata_cache by what served the miss; naive is latency times misses")
    sources = table(
        ("source", False),
        ("misses", True),
        ("latency", True),
        ("stalled", True),
        ("naive", True),
        ("error", True),
    )
    for row in result.sources:
        error = "" if row.naive_error is None else f"{row.naive_error:+.0%}"
        sources.add_row(
            row.source,
            amount(row.misses),
            str(row.latency),
            amount(row.cycles),
            amount(row.naive_cycles),
            error,
        )
    console.print(sources)


def _places(result: Stalls, console: Console, limit: int) -> None:
    console.print()
    rows = table(
        ("cycles", True), ("CPI", True), ("of stalls", True), ("mostly", False), (result.by, False)
    )
    for one in result.rows[: limit or None]:
        rows.add_row(
            amount(one.cycles),
            f"{one.cpi:.3f}",
            f"{one.share:.1%}",
            one.main,
            Text(clean(_place(one))),
        )
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)


def _place(row: StallRow) -> str:
    if row.line is None and row.address is None:
        return row.name
    file = PurePath(row.file or "").name
    place = f"{row.function}  {file}:{row.line}" if file and row.line else str(row.function)
    return f"{row.address:#x}  {place}" if row.address is not None else place


def _phases(result: Stalls, console: Console, limit: int) -> None:
    console.print("\nphases")
    made = table(
        ("from cycle", True),
        ("cycles", True),
        ("CPI", True),
        ("mostly", False),
        ("CPI of it", True),
    )
    shown: list[Any] = result.phases[: limit or None]
    for phase in shown:
        made.add_row(
            amount(phase.start),
            amount(phase.cycles),
            f"{phase.cpi:.3f}",
            phase.main,
            f"{phase.causes[phase.main]:.3f}",
        )
    console.print(made)
    left_out(console, len(result.phases) - len(shown))


def _gains(result: Stalls, console: Console) -> None:
    console.print("\nif a cause were gone")
    made = table(
        ("cause", False), ("attributed", True), ("really gained", True), ("CPI then", True)
    )
    for row in result.without:
        made.add_row(
            row.cause, amount(row.attributed), amount(row.gained), f"{row.cpi_without:.3f}"
        )
    console.print(made)
