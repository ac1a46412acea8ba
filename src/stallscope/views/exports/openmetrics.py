# SPDX-License-Identifier: Apache-2.0
"""OpenMetrics text: levels of the machine, and the costliest objects and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stallscope.analyses.export import Export, Spot

MOST = 100  # objects and functions; a server keeps a series for each


def render(export: Export) -> bytes:
    program = {"program": export.program, "machine": export.machine}
    lines = _family("instructions", "executed by the program", [(program, export.instructions)])
    for name, words in (("accesses", "look-ups"), ("misses", "look-ups that found nothing")):
        found = [(program | {"level": one.level}, getattr(one, name)) for one in export.levels]
        lines += _family(f"level_{name}", words, found)
    for what, key in _BY.items():
        sums = _sums(export.spots, key)
        for index, cost in enumerate(("misses", "latency")):
            found = [(program | {what: name}, costs[index]) for name, costs in sums]
            unit = export.misses_unit if cost == "misses" else export.latency_unit
            lines += _family(f"{what}_{cost}", f"by {what}: {unit}", found)
    return "\n".join([*lines, "# EOF", ""]).encode(errors="replace")


_BY: dict[str, Callable[[Spot], str]] = {
    "object": lambda spot: spot.object,
    "function": lambda spot: spot.function,
}


def _sums(spots: Iterable[Spot], key: Callable[[Spot], str]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for spot in spots:
        costs = found.setdefault(key(spot), [0, 0])
        costs[0] += spot.misses
        costs[1] += spot.latency
    named = [(name, costs) for name, costs in found.items() if name]
    return sorted(named, key=lambda one: -one[1][1])[:MOST]


def _family(name: str, words: str, samples: list[tuple[dict[str, str], int]]) -> list[str]:
    if not samples:
        return []
    full = f"stallscope_{name}"
    lines = [f"# TYPE {full} counter", f"# HELP {full} {_escaped(words)}"]
    for labels, value in samples:
        said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{full}_total{{{said}}} {value}")
    return lines


def _escaped(text: str) -> str:
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown.replace("\\", r"\\").replace('"', r"\"")
