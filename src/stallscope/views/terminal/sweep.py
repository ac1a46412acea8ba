# SPDX-License-Identifier: Apache-2.0
"""Draws a sweep: how far it is, its rows, and the best design."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean, duration, size

if TYPE_CHECKING:
    from types import TracebackType

    from stallscope.analyses.sweep import DesignRow, Sweep
    from stallscope.scale.sweep import Progress

SHOW_AFTER_SECONDS = 1.0


class Bar:
    """One line that is rewritten in place, on a terminal only and not in the first second."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    def show(self, progress: Progress) -> None:
        if not self._on or progress.seconds < SHOW_AFTER_SECONDS:
            return
        parts = ["sweep", f"{progress.done:,} of {progress.cells:,} cells"]
        if progress.kept:
            parts.append(f"{progress.kept:,} kept")
        if progress.left is not None:
            parts.append(f"{duration(progress.left)} left")
        text = "  ".join(parts)
        print(f"\r\x1b[2K\x1b[2m{text}\x1b[0m", end="", file=sys.stderr, flush=True)
        self._shown = True


def show_sweep(result: Sweep, console: Console, limit: int) -> None:
    several = len(result.recordings) > 1
    named = len({row["machine"] for row in result.rows}) > 1
    heads = [*(["recording"] if several else []), *(["machine"] if named else [])]
    heads += result.parameters
    why = [name for name in ("cold", "capacity", "conflict") if name in result.rows[0]]
    counts = ("accesses", "misses", "ratio", *why)
    rows = table(*((h, False) for h in heads), ("level", False), *((c, True) for c in counts))
    for row in result.rows[: limit or None]:
        start = [Text(clean(str(row[head]))) for head in heads]
        if row["error"] is not None:
            rows.add_row(*start, Text(f"impossible: {clean(row['error'])}", style="red"))
            continue
        numbers = [amount(row["accesses"]), amount(row["misses"]), f"{row['miss_ratio']:.2%}"]
        rows.add_row(*start, clean(row["level"]), *numbers, *(amount(row[name]) for name in why))
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)
    if result.unkept:
        console.print(Text(f"{result.unkept:,} cells could not be kept with their recordings"))
    _best(result, console)


def _best(result: Sweep, console: Console) -> None:
    if result.best is None:
        console.print(Text("no design is within the budget"))
        return
    console.print()
    front = table(("", False), ("caches", True), ("cycles an access", True), ("design", False))
    for row in result.designs:
        if row.frontier:
            mark = "best" if row == result.best else ""
            front.add_row(mark, size(row.bytes), f"{row.latency:.2f}", Text(design_text(row)))
    console.print(Text("designs that none beats in both size and speed:"))
    console.print(front)


def design_text(row: DesignRow) -> str:
    def text(value: Any) -> str:
        return clean(str(value))

    values = [f"{text(key)}={text(v)}" for key, v in row.design.items() if key != "machine"]
    return ", ".join([text(row.design["machine"]), *values])
