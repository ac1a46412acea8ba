# SPDX-License-Identifier: Apache-2.0
"""A result as an HTML table, for notebooks. Whatever names hold, they stay text."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

MOST = 50  # rows; a notebook keeps what it shows
SIMPLE = (str, int, float, bool)


def table(result: Any) -> str:
    """Its rows, below what it says of the whole."""
    body = msgspec.to_builtins(result, enc_hook=str)
    rows = list(body.get("rows") or _first_table(body))
    facts = [
        f"{_text(name)}: {_cell(value)}"
        for name, value in body.items()
        if isinstance(value, SIMPLE) and value != ""
    ]
    parts = [f"<p>{'; '.join(facts)}</p>"]
    if rows:
        parts.append(_table(rows[:MOST]))
    if len(rows) > MOST:
        parts.append(f"<p>… and {len(rows) - MOST:,} more in .rows</p>")
    return "".join(parts)


def _first_table(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a result with several tables."""
    tables = (value for value in body.values() if isinstance(value, list) and value)
    return next((found for found in tables if isinstance(found[0], dict)), [])


def _table(rows: list[dict[str, Any]]) -> str:
    names = [
        name
        for name in rows[0]
        if all(row.get(name) is None or isinstance(row.get(name), SIMPLE) for row in rows)
    ]
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    lines = "".join(
        "<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else _text(str(value))


def _text(text: str) -> str:
    return escape("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))
