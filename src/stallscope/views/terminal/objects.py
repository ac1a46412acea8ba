# SPDX-License-Identifier: Apache-2.0
"""Draws objects, functions, lines and evictions for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal import live
from stallscope.views.terminal.rows import left_out, scope, together
from stallscope.views.terminal.rows import table as table_of
from stallscope.views.terminal.text import amount, clean, size

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from stallscope.analyses.evictions import Evictions, ResidentRow
    from stallscope.analyses.levels import Levels
    from stallscope.analyses.live import LiveObjects, LivePlaces
    from stallscope.analyses.objects import LevelRow, ObjectRow, Objects, Places
    from stallscope.analyses.sampling import Sampling


def _is_live(
    result: Objects | Places | LiveObjects | LivePlaces,
) -> TypeIs[LiveObjects | LivePlaces]:
    return hasattr(result, "states")


def _levels(rows: list[LevelRow], console: Console) -> None:
    table = table_of(("level", False), ("accesses", True), ("misses", True), ("hits", True))
    for row in rows:
        table.add_row(row.level, amount(row.accesses), amount(row.misses), f"{row.hit_ratio:.2%}")
    console.print(table)
    console.print()


def show_levels(result: Levels, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"machine {clean(result.machine)}: {amount(result.instructions)} instructions, "
            f"{amount(result.accesses)} accesses"
        )
    )
    together(result.processes, console)
    _levels(result.rows[: limit or None], console)


def _type(row: ObjectRow) -> str:
    """Declared, or guessed and so with how sure that is, where it is not quite."""
    if not row.type:
        return ""
    sure = row.type_confidence is None or row.type_confidence > 0.995
    return f"  {clean(row.type)}" + ("" if sure else f" ({row.type_confidence:.0%})")


def show_objects(result: Objects | LiveObjects, console: Console, limit: int) -> None:
    if _is_live(result):
        live.show_objects(result, console, limit)
        return
    sampling = result.sampling
    tagged = sampling is not None and sampling.mode == "tagged"
    console.print(
        Text(
            f"{scope(result.machine, result.region)}: misses of {result.level}, latency of all "
            "levels"
        )
    )
    together(result.processes, console)
    _levels(result.levels, console)
    table = table_of(
        ("latency", True),
        ("misses", True),
        ("sampled", True),
        *([("bias", True)] if tagged else []),
        ("per miss", True),
        ("blocks", True),
        ("bytes", True),
        ("object", False),
    )
    for row in result.rows[: limit or None]:
        label = clean(row.object) + _type(row)
        table.add_row(
            f"{row.latency_share:.1%}",
            f"{row.share:.1%}",
            f"{row.sampled_share:.1%}",
            *([f"{row.bias:+.1%}"] if tagged else []),
            f"{row.latency_per_miss:.0f}",
            amount(row.blocks),
            size(row.bytes),
            Text(label),
        )
    console.print(table)
    left_out(console, len(result.rows) - limit if limit else 0)
    console.print(
        Text(
            f"\n{amount(result.misses)} misses, {result.average_latency:.0f} cycles each on "
            f"average; {result.samples:,} samples{_rate(sampling) if sampling else ''}",
            style="dim",
        )
    )
    for line in _cost(sampling, result.level) if sampling else ():
        console.print(Text(line, style="dim"))


def _rate(sampling: Sampling) -> str:
    what = "misses" if sampling.mode == "counter" else "misses of loads that were followed"
    if sampling.min_latency:
        what += f" of at least {sampling.min_latency:,} cycles"
    rate = f", one in about {sampling.period:,} {what}"
    if sampling.shortest != sampling.longest:
        rate += f" (in {sampling.shortest:,} to {sampling.longest:,}, weighted)"
    return rate


def _cost(sampling: Sampling, level: str) -> Iterator[str]:
    """What sampling cost, and what is to be said about its way."""
    if sampling.overhead is not None and sampling.interrupts is not None:
        budget = f" of {sampling.budget:.2%} allowed" if sampling.budget else ""
        program, handler = sampling.program_cycles or 0, sampling.handler_cycles or 0
        yield (
            f"{sampling.interrupts:,} interrupts took {amount(handler)} cycles beside "
            f"{amount(program)} of the program: {sampling.overhead:.2%}{budget}"
        )
    if sampling.perturbation is not None:
        change = f"{sampling.perturbation:+.2%}"
        yield f"the handler changed the program's misses of {level} by {change}"
    if sampling.tags is not None:
        yield f"{amount(sampling.tags)} of {amount(sampling.loads or 0)} loads were followed"
    if sampling.note:
        yield sampling.note


def show_places(result: Places | LivePlaces, console: Console, limit: int) -> None:
    if _is_live(result):
        live.show_places(result, console, limit)
        return
    console.print(
        Text(
            f"{scope(result.machine, result.region)}: misses of {result.level}, latency of all "
            "levels"
        )
    )
    together(result.processes, console)
    table = table_of(
        ("latency", True),
        ("misses", True),
        ("share", True),
        ("sampled", True),
        ("function", False),
        ("line", False),
    )
    for row in result.rows[: limit or None]:
        name = PurePath(row.file).name
        place = f"{name}:{row.line}" if row.line else name
        table.add_row(
            f"{row.latency_share:.1%}",
            amount(row.misses),
            f"{row.share:.1%}",
            f"{row.sampled_share:.1%}",
            Text(clean(row.function)),
            Text(clean(place)),
        )
    console.print(table)
    left_out(console, len(result.rows) - limit if limit else 0)


def show_evictions(result: Evictions, console: Console, limit: int) -> None:
    together(result.processes, console)
    table = table_of(
        ("level", False),
        ("evictions", True),
        ("of its", True),
        ("of all", True),
        ("sampled", True),
        ("evicted", False),
        ("by", False),
        ("at", False),
    )
    for row in result.rows[: limit or None]:
        sampled = "" if row.sampled_share is None else f"{row.sampled_share:.1%}"
        place = "" if row.function is None else f"{row.function}:{row.line or '?'}"
        table.add_row(
            row.level,
            amount(row.count),
            f"{row.share:.1%}",
            f"{row.share_all:.1%}",
            sampled,
            Text(clean(row.evicted)),
            Text(clean(row.by)),
            Text(clean(place)),
        )
    console.print(table)
    left_out(console, len(result.rows) - limit if limit else 0)
    if result.objects:
        console.print(Text("\nWhat stays in the caches, on average:"))
        _residents(result.objects, console, limit)


def _residents(rows: list[ResidentRow], console: Console, limit: int) -> None:
    """As many of each level, so that each has its turn."""
    table = table_of(
        ("level", False),
        ("lines", True),
        ("of it", True),
        ("evictions", True),
        ("by itself", True),
        ("object", False),
    )
    levels = list(dict.fromkeys(row.level for row in rows))
    each = max(1, limit // len(levels)) if limit else None
    for level in levels:
        for row in [row for row in rows if row.level == level][:each]:
            table.add_row(
                row.level,
                f"{row.resident_lines:,.1f}",
                "" if row.resident_share is None else f"{row.resident_share:.1%}",
                amount(row.evictions),
                "" if row.self_share is None else f"{row.self_share:.1%}",
                Text(clean(row.object)),
            )
    console.print(table)
    left_out(console, len(rows) - table.row_count)
