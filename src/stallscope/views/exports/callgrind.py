# SPDX-License-Identifier: Apache-2.0
"""Callgrind's format, for callgrind_annotate and KCachegrind: misses and latency by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stallscope.analyses.export import Export


def render(export: Export) -> bytes:
    lines = [
        "# callgrind format",
        "version: 1",
        "creator: stallscope",
        f"cmd: {_plain(' '.join(export.command))}",
        f"desc: Machine: {_plain(export.machine)}",
        "positions: line",
        f"event: Misses : {_plain(export.misses_unit)}",
        f"event: Latency : {_plain(export.latency_unit)}",
        "events: Latency Misses",
    ]
    by_function: dict[tuple[str, str], dict[int, list[int]]] = {}
    for spot in export.spots:
        by_line = by_function.setdefault((spot.file or "???", spot.function), {})
        costs = by_line.setdefault(spot.line or 0, [0, 0])
        costs[0] += spot.latency
        costs[1] += spot.misses
    for (file, function), by_line in by_function.items():
        lines += ["", f"fl={_plain(file)}", f"fn={_plain(function)}"]
        lines += [f"{line} {costs[0]} {costs[1]}" for line, costs in sorted(by_line.items())]
    sums = [sum(getattr(spot, cost) for spot in export.spots) for cost in ("latency", "misses")]
    lines += ["", f"totals: {sums[0]} {sums[1]}", ""]
    return "\n".join(lines).encode(errors="replace")


def _plain(name: str) -> str:
    """A line break would end the name; "(1)" in front would be a number of an earlier one."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    return f"\\{shown}" if shown.startswith("(") else shown or "?"
