# SPDX-License-Identifier: Apache-2.0
"""Draws where inside of objects misses fall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, scope, table, together
from stallscope.views.terminal.text import amount, clean, size

if TYPE_CHECKING:
    from stallscope.analyses.offsets import OffsetObject, OffsetRow, Offsets

_UNITS = {"word": "words of 8 bytes", "line": "lines of 64 bytes"}


def show_offsets(result: Offsets, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"{scope(result.machine, result.region)}: misses of {result.level}, latency of all "
            "levels"
        )
    )
    together(result.processes, console)
    if result.object is not None:
        for one in result.objects:
            console.print(Text(f"{clean(one.object)}: {_counted(one)}"))
    console.print()
    has_functions = any(row.function is not None for row in result.rows)
    shown = table(
        ("latency", True),
        ("misses", True),
        ("share", True),
        ("per miss", True),
        ("offset", True),
        ("field", False),
        *((("function", False),) if has_functions else ()),
        *((("object", False),) if result.object is None else ()),
    )
    for row in result.rows[: limit or None]:
        shown.add_row(
            f"{row.latency_share:.1%}",
            amount(row.misses),
            f"{row.share:.1%}",
            f"{row.latency_per_miss:.0f}",
            f"+{row.offset}",
            Text(_field(row)),
            *((Text(clean(row.function or "")),) if has_functions else ()),
            *((Text(clean(row.object)),) if result.object is None else ()),
        )
    console.print(shown)
    left_out(console, len(result.rows) - limit if limit else 0)


def _counted(one: OffsetObject) -> str:
    sure = one.type_confidence is None or one.type_confidence > 0.995
    kind = f"{clean(one.type)}" if one.type else "no type is known"
    kind += "" if sure else f" ({one.type_confidence:.0%})"
    if one.by == "field" and one.element_size:
        return f"{kind}, by field of its {one.element_size:,} bytes"
    if one.by == "field":
        return f"{kind}, by field"
    return f"{kind}, in {_UNITS.get(one.by, f'granules of {size(one.granule)}')}"


def _field(row: OffsetRow) -> str:
    return clean(row.field) + (f"  {clean(row.type)}" if row.type else "")
