# SPDX-License-Identifier: Apache-2.0
"""Draws machines: one as its parts, many as a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.machines import Cache, Machine


def show_list(machines: Sequence[Machine], console: Console) -> None:
    table = _table("machine", "caches", "description")
    for machine in machines:
        caches = ", ".join(f"{cache.name} {_size(cache.size)}" for cache in machine.caches)
        table.add_row(Text(machine.name), Text(caches), Text(clean(machine.description)))
    console.print(table)
    console.print(Text("\nstallscope machines NAME shows one; --toml begins a file of your own"))


def show(machine: Machine, console: Console) -> None:
    console.print(Text(clean(machine.name), style="bold"))
    if machine.description:
        console.print(Text(clean(machine.description)))
    if not machine.simulates:
        return
    console.print()
    console.print(_caches(machine))
    if machine.tlbs:
        console.print()
        console.print(_tlbs(machine))
    console.print()
    for line in _facts(machine):
        console.print(Text(line))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        number = name in ("size", "ways", "line", "sets", "cycles", "entries", "page")
        fold = name in ("description", "caches", "notes")
        table.add_column(
            name, justify="right" if number else "left", no_wrap=not fold, overflow="fold"
        )
    return table


def _caches(machine: Machine) -> Table:
    table = _table("cache", "holds", "size", "ways", "line", "sets", "cycles", "policy", "notes")
    for cache in machine.caches:
        table.add_row(
            Text(clean(cache.name)),
            cache.holds,
            _size(cache.size),
            str(cache.ways),
            str(cache.line),
            f"{cache.sets:,}",
            str(cache.latency),
            cache.policy,
            Text(", ".join(_notes(cache))),
        )
    return table


def _notes(cache: Cache) -> list[str]:
    notes = [] if cache.inclusion == "neither" else [cache.inclusion]
    if not cache.write_allocate:
        notes.append("no allocate")
    if not cache.write_back:
        notes.append("write-through")
    return notes


def _tlbs(machine: Machine) -> Table:
    table = _table("TLB", "holds", "entries", "ways", "page", "cycles")
    for tlb in machine.tlbs:
        ways = "all" if tlb.ways == tlb.entries else str(tlb.ways)
        cycles = f"+{tlb.latency}"
        table.add_row(clean(tlb.name), tlb.holds, f"{tlb.entries:,}", ways, _size(tlb.page), cycles)
    return table


def _facts(machine: Machine) -> list[str]:
    prefetcher, mapping = machine.prefetcher, machine.mapping
    prefetch = "none"
    if prefetcher.kind != "none":
        prefetch = f"{prefetcher.kind} into {clean(prefetcher.cache)}, {prefetcher.degree} ahead"
        prefetch += ", also into the next page" if prefetcher.crosses_pages else ""
    seed = f", seed {mapping.seed}" if mapping.kind == "random" else ""
    touched = ", pages cleared into the caches" if mapping.first_touch == "cleared" else ""
    walk = f", a page walk adds {machine.page_walk}" if machine.tlbs else ""
    return [
        f"memory    {machine.memory_latency} cycles{walk}",
        f"prefetch  {prefetch}",
        f"mapping   {mapping.kind}{seed}{touched}",
        f"digest    {machine.digest()[:16]}",
    ]


def _size(number: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor and number * 100 % factor == 0:
            return f"{number / factor:g} {unit}"
    return f"{number:,} B"
