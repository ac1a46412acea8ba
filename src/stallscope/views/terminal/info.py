# SPDX-License-Identifier: Apache-2.0
"""Draws an Info for a terminal."""

from __future__ import annotations

import shlex
import signal as signals
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.text import amount, clean, duration, size

if TYPE_CHECKING:
    from stallscope.analyses.info import Info, ProcessRow


def ending(row: Info | ProcessRow) -> str:
    if row.signal is not None:
        return f"killed by {_signal_name(row.signal)}"
    if row.exit_code is not None:
        return f"exit status {row.exit_code}"
    return {"exec": "replaced itself (exec)", "killed": "killed"}.get(row.ending, "unknown")


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def show(result: Info, console: Console, limit: int) -> None:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column()
    for name, value in _facts(result):
        facts.add_row(name, Text(clean(value)))
    console.print(facts)
    if len(result.processes) > 1:
        _processes(result, console, limit)
    if result.threads > len(result.processes):
        _threads(result, console, limit)
    for row in result.quality:
        console.print(Text(f"{row['severity']}: {clean(row['explanation'])} ({row['count']})"))


def _facts(result: Info) -> list[tuple[str, str]]:
    return [*_common_facts(result), *(_sample_facts if result.samples else _run_facts)(result)]


def _common_facts(result: Info) -> list[tuple[str, str]]:
    after = "" if result.seconds is None else f", after {duration(result.seconds)}"
    return [
        ("command", shlex.join(result.command)),
        ("ended", ending(result) + after),
        ("recording", f"{result.recording} ({_whole(result)})"),
        ("source", f"{result.source}, machine {result.machine}"),
        ("processes", f"{len(result.processes):,}"),
        ("threads", f"{result.threads:,}"),
    ]


def _sample_facts(result: Info) -> list[tuple[str, str]]:
    lost = f", {result.lost_samples:,} lost" if result.lost_samples else ""
    return [
        ("samples", f"{result.samples:,}{lost}"),
        *([("heap", f"{result.allocations:,} blocks made")] if result.allocations else []),
        ("modules", f"{len(result.modules):,}"),
    ]


def _run_facts(result: Info) -> list[tuple[str, str]]:
    heap = f"{result.allocations:,} blocks made, {result.frees:,} freed"
    trace = f"kept, {size(result.stream_bytes)}" if result.trace else "not kept (record --trace)"
    return [
        ("instructions", f"{result.instructions:,}"),
        ("loads", f"{result.loads:,}"),
        ("stores", f"{result.stores:,}"),
        ("heap", heap),
        ("modules", f"{len(result.modules):,}"),
        ("trace", trace),
    ]


def _whole(result: Info) -> str:
    if result.recovered:
        return "truncated: its recorder was stopped or its disk full; this is what was written"
    cut = [row for row in result.processes if not row.complete]
    if not cut:
        return "complete"
    if len(result.processes) == 1:
        return "truncated: the program was killed; this is what it did before"
    named = ", ".join(row.name for row in cut[:3]) + (", …" if len(cut) > 3 else "")
    return f"truncated: killed or still running: {named}; this is what was done before"


def _table(title: str, *columns: tuple[str, bool]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, title_style="bold")
    for name, is_number in columns:
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    return table


def _processes(result: Info, console: Console, limit: int) -> None:
    table = _table(
        "\nprocesses",
        ("process", False),
        ("instructions", True),
        ("accesses", True),
        ("blocks", True),
        ("ended", False),
        ("command", False),
    )
    shown = result.processes[: limit or None]
    for row in shown:
        table.add_row(
            row.name,
            amount(row.instructions),
            amount(row.loads + row.stores),
            amount(row.allocations),
            ending(row),
            Text(clean(("(fork) " if row.forked else "") + shlex.join(row.command))),
        )
    console.print(table)
    _left_out(console, len(result.processes) - len(shown))


def _threads(result: Info, console: Console, limit: int) -> None:
    table = _table(
        "\nthreads", ("thread", True), ("name", False), ("instructions", True), ("turns", True)
    )
    ordered = sorted(result.thread_rows, key=lambda row: -row["instructions"])
    shown = ordered[: limit or None]
    for row in shown:
        name = Text(clean(row["name"]))
        table.add_row(str(row["thread"]), name, amount(row["instructions"]), amount(row["turns"]))
    console.print(table)
    _left_out(console, len(ordered) - len(shown))


def _left_out(console: Console, count: int) -> None:
    if count > 0:
        console.print(Text(f"  … and {count:,} more (--limit 0 shows all)", style="dim"))
