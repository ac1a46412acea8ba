# SPDX-License-Identifier: Apache-2.0
"""Draws monitors: what there is, what they became, what they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.monitors.assembler import Image, Listed


def _console() -> Console:
    return Console(highlight=False)


def show_catalogue(found: dict[str, Any]) -> None:
    console = _console()
    for key, title in (("rows", ""), ("events", "Events"), ("features", "Features")):
        if title:
            console.print(Text(f"\n{title}", style="bold"))
        drawn = table(*((name, isinstance(value, int)) for name, value in found[key][0].items()))
        for row in found[key]:
            drawn.add_row(*(Text(clean(str(value))) for value in row.values()))
        console.print(drawn)


def show_listing(image: Image, rows: Sequence[Listed]) -> None:
    console = _console()
    for signal, one in enumerate(image.detectors):
        match = f" address {one.match:#x}/{one.care:#x}" if one.care else ""
        said = f"signal {signal}: {one.name}, every {one.every}{match}, handler {one.handler}"
        console.print(Text(clean(said), style="dim"))
    for row in rows:
        label = f"{row.label}:" if row.label else ""
        console.print(Text(f"{row.address:#06x}  {clean(label):<22} {row.text}"))
    console.print(Text(f"{len(image.scratch):,} bytes; boots at {image.boot:#x}", style="dim"))


def show_steps(found: dict[str, Any]) -> None:
    console = _console()
    for row in found["rows"]:
        label = f"{row['label']}:" if row["label"] else ""
        where = f"{row['cycle']:>8}  {row['address']:#06x}"
        console.print(Text(f"{where}  {clean(label):<22} {row['instruction']}"))
    for act in found["acts"]:
        said = f"cycle {act['cycle']:,}: {act['feature']} {act['a']} {act['b']}"
        console.print(Text(said, style="bold"))
    for fault in found["faults"]:
        said = f"cycle {fault['cycle']:,}, {fault['address']:#x}: {clean(fault['what'])}"
        console.print(Text(said, style="red"))
    words = ", ".join(f"{clean(name)} = {value:,}" for name, value in found["words"].items())
    if words:
        console.print(Text(words))
    account = ", ".join(f"{value:,} {name}" for name, value in found["account"].items() if value)
    console.print(Text(account, style="dim"))


def show_run(result: Any, console: Console, limit: int) -> None:
    said = f"{amount(result.cycles)} cycles of {result.cores} cores, begun with {result.protocol}"
    console.print(Text(f"{said}; machine {clean(result.machine)}"))
    counts = result.counts
    console.print(
        Text(
            f"{result.switches:,} changes of protocol, {result.interrupts:,} interrupts; "
            f"{counts['write_invalidates']:,} write-invalidates, {counts['updates']:,} updates, "
            f"bus {counts['bus_busy'] / max(result.cycles, 1):.0%} busy",
            style="dim",
        )
    )
    _rows(result, console, limit)
    kept = f" (values were kept of {clean(', '.join(result.values))})" if result.values else ""
    for row in result.rows:
        if row.unknown:
            said = f"{row.unknown:,} accesses not told: what they read or wrote is not known{kept}"
            console.print(Text(f"{clean(row.monitor)}: {said}"))


def show_live(result: Any, console: Console, limit: int) -> None:
    ended = "stopped by a monitor" if result.stopped else "looked at"
    if result.status is not None:
        ended = f"ended with status {result.status}"
    said = f"{clean(' '.join(result.command))}: {ended} after {result.seconds:.2f} s"
    console.print(Text(said))
    how = f", memory watched by {result.watched_by}" if result.watched_by else ""
    told = ", ".join(f"{count:,} {name}" for name, count in result.told.items() if count)
    console.print(Text(f"told of {told or 'nothing'}{how}", style="dim"))
    _rows(result, console, limit)


def _rows(result: Any, console: Console, limit: int) -> None:
    drawn = table(
        *((name, True) for name in ("signals", "dropped", "tasks", "instructions", "busy", "acts")),
        ("monitor", False),
    )
    for row in result.rows:
        drawn.add_row(
            *(f"{value:,}" for value in (row.signals, row.dropped, row.tasks, row.instructions)),
            f"{row.busy:.2%}",
            f"{row.acts:,}",
            Text(clean(row.monitor)),
        )
    console.print(drawn)
    for row in result.rows:
        words = ", ".join(f"{clean(name)} = {value:,}" for name, value in row.words.items())
        if words:
            console.print(Text(f"{clean(row.monitor)}: {words}"))
    for act in result.acts[: limit or None]:
        where = f"cycle {act.cycle:,}: {clean(act.monitor)}: {act.feature}"
        console.print(Text(f"{where} {act.a:#x} {act.b:#x}", style="dim"))
    left_out(console, len(result.acts) - limit if limit else 0)
    for fault in result.faults:
        console.print(Text(clean(fault), style="red"))


def show_study(study: Any) -> None:
    console = _console()
    numbers = ("MOESI", "Dragon", "adaptive", "over the better", "changes", "monitor busy")
    drawn = table(("program", False), *((name, True) for name in numbers), ("begun with", False))
    for row in study.rows:
        drawn.add_row(
            row.program,
            amount(row.moesi),
            amount(row.dragon),
            amount(row.adaptive),
            f"{row.adaptive / row.best - 1:+.2%}",
            f"{row.switches:,}",
            f"{row.monitor_busy:.1%}",
            row.began,
        )
    console.print(drawn)
    console.print(
        Text(
            f"one after the other, an oracle gains {study.oracle_gain:.1%} over the better fixed "
            f"protocol, the monitor {study.adaptive_gain:.1%}"
        )
    )
    found = study.schedule
    console.print()
    console.print(
        Text(
            f"ocean alone {amount(found.ocean_alone)} cycles, water alone "
            f"{amount(found.water_alone)}; both, four threads each, on four cores:"
        )
    )
    console.print(Text(f"  plain scheduler         {amount(found.plain)}"))
    console.print(Text(f"  one memory-bound a time {amount(found.memory_bound)}"))
    low, high = found.gains[0], found.gains[-1]
    console.print(
        Text(
            f"  gain                    {found.gain:.1%}, the median of {len(found.gains)} "
            f"recordings ({low:.1%} to {high:.1%})"
        )
    )
    console.print(Text(f"  overhead without memory-bound programs {found.overhead:.3%}"))
