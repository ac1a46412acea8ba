# SPDX-License-Identifier: Apache-2.0
"""Draws how long data goes untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean, duration, size

if TYPE_CHECKING:
    from stallscope.analyses.reuse import Reuse

BARS = 30  # letters of the longest bar


def headline(result: Reuse) -> Text:
    if result.footprint is not None:
        memory = size(result.footprint * result.granule)
        text = f"{amount(result.reuses)} reuses of {memory} in granules of {result.granule} bytes"
        return Text(f"source {result.source}: {text}")
    watched = f"{result.watches:,} granules of {result.granule} bytes watched"
    return Text(f"source {result.source}: {watched}, {result.reuses:,} reuses seen")


def speaks_for(result: Reuse) -> Text:
    share = f" ({result.covered:.1%} of all)" if result.covered is not None else ""
    said = f"speaks for {result.speaks_for}{share}"
    if result.touch_cost:
        said += f"; times under {moment(result.touch_cost)} cannot be told apart"
    return Text(said, style="dim")


def moment(nanoseconds: float | None, unit: str = "nanoseconds") -> str:
    if nanoseconds is None:
        return "longer"
    if unit != "nanoseconds":
        return amount(nanoseconds)
    if nanoseconds < 1000:
        return f"{nanoseconds:.0f} ns"
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.3g} µs"
    if nanoseconds < 1e9:
        return f"{nanoseconds / 1e6:.3g} ms"
    return duration(nanoseconds / 1e9)


def objects_table(result: Reuse, limit: int) -> Table:
    found = table(
        ("watches", True),
        ("reuses", True),
        ("half within", True),
        ("90% within", True),
        ("never", True),
        ("threads", True),
        ("object", False),
    )
    for row in result.rows[: limit or None]:
        found.add_row(
            f"{row.watches:,}",
            f"{row.reuses:,}",
            _told(row.median, result.touch_cost),
            _told(row.p90, result.touch_cost),
            f"{row.never:.0%}",
            f"{row.threads:,}",
            Text(clean(row.object)),
        )
    return found


def _told(nanoseconds: float | None, cost: int | None) -> str:
    """Shorter times than a touch costs are not told apart."""
    if nanoseconds is not None and cost and nanoseconds < cost:
        return f"under {moment(cost)}"
    return moment(nanoseconds)


def pairs_table(result: Reuse, limit: int) -> Table:
    found = table(("touches", True), ("granules", True), ("threads", False), ("object", False))
    for row in result.pairs[: limit or None]:
        names = f"{clean(row.thread)}, {clean(row.other)}"
        found.add_row(f"{row.touches:,}", f"{row.granules:,}", Text(names), Text(clean(row.object)))
    return found


def _times(result: Reuse, console: Console) -> None:
    found = table(("touched again within", True), ("share", True), ("", False))
    for row in result.times:
        bar = "█" * round(row.share * BARS)
        found.add_row(moment(row.within, result.unit), f"{row.share:.1%}", bar)
    console.print(found)
    if result.unit != "nanoseconds":
        console.print(Text(f"in {result.unit}: of any data, in between", style="dim"))


def _curve(result: Reuse, console: Console) -> None:
    waiting = any(row.waiting is not None for row in result.curve)
    more = [("waited for", True)] if waiting else []
    found = table(("cache", True), ("misses", True), *more, ("", False))
    for row in result.curve[::4]:
        cells = [f"{row.waiting or 0:.1%}"] if waiting else []
        bar = "█" * round(row.misses * BARS)
        found.add_row(size(row.bytes), f"{row.misses:.1%}", *cells, bar)
    console.print()
    console.print(found)


def show_reuse(result: Reuse, console: Console, limit: int) -> None:
    console.print(headline(result))
    console.print(speaks_for(result))
    console.print()
    if result.rows:
        console.print(objects_table(result, limit))
        left_out(console, len(result.rows) - limit if limit else 0)
        console.print()
    if result.pairs:
        console.print(pairs_table(result, limit))
        left_out(console, len(result.pairs) - limit if limit else 0)
        console.print()
    _times(result, console)
    if result.curve:
        _curve(result, console)
    elif result.watches:
        said = "\na miss curve needs how often memory is touched: --counts RECORDING by Valgrind"
        console.print(Text(said, style="dim"))
