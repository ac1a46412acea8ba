# SPDX-License-Identifier: Apache-2.0
"""Two runs beside each other, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.diff import Diff

COLOURS = {"worse": "red", "new": "red", "better": "green", "gone": "green"}


def show_diff(result: Diff, console: Console, limit: int) -> None:
    words = "" if result.ratio is None else f" ({result.ratio:.1%} of before)"
    console.print(
        f"cycles waited for memory: {result.latency_before:,} before, {result.latency_after:,} "
        f"after{words}; machine {clean(result.machine)}"
    )
    levels = table(("misses before", True), ("after", True), ("change", True), ("level", False))
    for row in result.levels:
        levels.add_row(
            f"{row.misses_before:,}", f"{row.misses_after:,}", f"{row.change:+,}", row.level
        )
    console.print(levels)
    changed = [row for row in result.rows if row.state != "same"]
    if not changed:
        console.print("\nno object got better or worse")
    else:
        console.print()
        console.print(_objects(result, limit))
        left_out(console, len(changed) - len(changed[: limit or None]))
    for struct in result.structs:
        sizes = f"{struct.size_before} -> {struct.size_after} bytes"
        line = f"{struct.struct}: {sizes}; {'; '.join(struct.fields)}; {struct.change:+,} cycles"
        console.print(Text(clean(line)))


def _objects(result: Diff, limit: int) -> object:
    objects = table(
        ("change", True), ("cycles before", True), ("after", True), ("", False), ("object", False)
    )
    for row in [row for row in result.rows if row.state != "same"][: limit or None]:
        objects.add_row(
            f"{row.change:+,}",
            f"{row.latency_before:,}",
            f"{row.latency_after:,}",
            Text(row.state, style=COLOURS.get(row.state, "")),
            Text(clean(row.object)),
        )
    return objects
