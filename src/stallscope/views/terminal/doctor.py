# SPDX-License-Identifier: Apache-2.0
"""Draws `analyses.doctor.Doctor`: the machine, then one table for each group of checks."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from stallscope.analyses.doctor import Check, Doctor
    from stallscope.record.host import Cache, Machine

_COLOURS = {"works": "green", "limited": "yellow", "missing": "red"}


def show(result: Doctor, console: Console) -> None:
    console.print(_machine(result.machine))
    for group, rows in groupby(result.rows, key=lambda row: row.group):
        console.print()
        console.print(_group(group, list(rows)))


def _text(data: str, style: str = "") -> Text:
    """Data as text: never markup, and no character that would steer the terminal."""
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in data)
    return Text("".join(shown), style=style)


def _table(title: str) -> Table:
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        show_header=False,
        box=None,
        padding=(0, 2, 0, 0),
    )


def _group(title: str, rows: list[Check]) -> Table:
    table = _table(title)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    above = ("", "")
    for row in rows:
        words = _text(row.detail)
        if row.why and (row.why, row.fix) == above:
            words.append("\nas above", style="dim")
            table.add_row(_text(row.name), Text(row.status, style=_COLOURS[row.status]), words)
            continue
        above = (row.why, row.fix)
        if row.why:
            words.append("\n").append_text(_text(row.why, "dim"))
        if row.fix:
            words.append("\n").append_text(_text(f"try: {row.fix}", "cyan"))
        table.add_row(_text(row.name), Text(row.status, style=_COLOURS[row.status]), words)
    return table


def _machine(machine: Machine) -> Table:
    table = _table("machine")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    kind = "virtual" if machine.virtual else "physical"
    facts = [
        ("processor", f"{machine.model} ({machine.vendor}, family {machine.family})"),
        ("cores", f"{machine.cores} in {machine.sockets} sockets, {machine.cpus} CPUs usable"),
        ("memory", f"{machine.memory / 2**30:.1f} GiB in {machine.nodes} nodes"),
        *((_cache_name(cache), _cache(cache)) for cache in machine.caches),
        ("TLB", machine.tlb or "not told by the kernel"),
        (
            "pages",
            f"{machine.page} bytes; transparent huge pages: {machine.huge_pages};"
            f" {machine.huge_pages_reserved} huge pages reserved",
        ),
        ("AVX-512", ", ".join(machine.avx512) or "none"),
        ("machine", " ".join(filter(None, (kind, machine.product)))),
        ("system", f"{machine.system}, Linux {machine.kernel}"),
    ]
    for name, fact in facts:
        table.add_row(_text(name), _text(fact))
    return table


def _cache_name(cache: Cache) -> str:
    return f"L{cache.level}{ {'Data': 'd', 'Instruction': 'i'}.get(cache.kind, '') }"


def _cache(cache: Cache) -> str:
    size = f"{cache.size // 1024} KiB" if cache.size < 2**20 else f"{cache.size / 2**20:g} MiB"
    ways = f"{cache.ways} ways" if cache.ways else "ways unknown"
    sharing = f"{cache.count} of them, the first for CPUs {cache.cpus}"
    return f"{size}, {ways}, lines of {cache.line} bytes; {sharing}"
