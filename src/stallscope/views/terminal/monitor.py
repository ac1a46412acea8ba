# SPDX-License-Identifier: Apache-2.0
"""Draws monitors: what there is, what they became, what they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import table
from stallscope.views.terminal.text import clean

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
