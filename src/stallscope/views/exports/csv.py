# SPDX-License-Identifier: Apache-2.0
"""One row for each line of code and object."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stallscope.analyses.export import Export

COLUMNS = ("function", "file", "line", "object", "kind", "misses", "latency")


def render(export: Export) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for spot in export.spots:
        writer.writerow([_cell(getattr(spot, name)) for name in COLUMNS])
    return text.getvalue().encode(errors="replace")


def _cell(value: str | int | None) -> str | int | None:
    """No reader takes a NUL; a spreadsheet would run what begins like a formula."""
    if not isinstance(value, str):
        return value
    shown = value.replace("\0", "\\x00")
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "\t", "\r")) else shown
