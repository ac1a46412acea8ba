# SPDX-License-Identifier: Apache-2.0
"""Nests of loops of a recording, replayed as if they had been tiled."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope import _engine, tables
from stallscope.analyses import advise as analysis
from stallscope.analyses import tiling
from stallscope.errors import StallscopeError
from stallscope.pipelines import CoreProbe
from stallscope.recording import STREAM
from stallscope.slicing.tables import steps_of

if TYPE_CHECKING:
    from stallscope.analyses.advise import AdviceRow
    from stallscope.studied import Studied

KIND = "tile loops"
MOST = 3  # loops that are looked at


def tiled(studied: Studied) -> Iterator[AdviceRow]:
    """The best tile for each loop that waits for data, where its turns may change places."""
    image = studied.image
    try:
        found = _engine.loops(str(image.path / STREAM))["tables"]
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    loops = tables.to_arrow("loop", found["loop"]).to_pylist()
    blocks = image.table("block").select(["block", "address", "bytes", "executions"]).to_pylist()
    steps = steps_of(blocks, image.table("operation").to_pylist())
    waits = _waits(studied)
    costly = []
    for loop in tiling.innermost(loops):
        first, last = tiling.range_of(loop)
        here = sum(cycles for at, cycles in waits.items() if first <= at <= last)
        if here >= analysis.MATTERS * max(1, studied.cycles):
            costly.append((here, loop))
    costly.sort(key=lambda one: -one[0])
    for here, loop in costly[:MOST]:
        best = _best(studied, loops, loop, steps)
        if best is not None:
            yield _row(studied, loop, here, *best)


def _waits(studied: Studied) -> collections.Counter[int]:
    """Cycles that the core waits for data, by instruction."""
    causes = _engine.stall_causes()
    found: collections.Counter[int] = collections.Counter()
    for row in studied.core.runs[0].table("stall").to_pylist():
        if causes[row["cause"]] in ("data_cache", "translation"):
            found[row["address"]] += row["cycles"]
    return found


def _best(studied: Studied, loops: Any, loop: Any, steps: Any) -> tuple[int, int, Any] | None:
    """Cycles saved, turns of a tile, and the nest."""
    best: tuple[int, int, Any] | None = None
    where = _where(studied, loop)[0]
    for nest in tiling.nests(loops, loop):
        if reason := tiling.carried(steps, nest):
            studied.declined.append(f"{KIND}, {where}: {reason}")
            continue
        for size in tiling.sizes(nest):
            probe = CoreProbe(tiled=tuple(tiling.range_of(one) for one in nest), tile=size)
            what = f"{KIND}, {where}, {len(nest)} loops by {size} turns"
            try:
                saved = studied.saved(what, probe)
            except StallscopeError as error:
                studied.declined.append(f"{KIND}, {where}: {error.why or error.what}")
                break
            if saved >= analysis.LEAST * studied.cycles and (best is None or saved > best[0]):
                best = (saved, size, nest)
    return best


def _where(studied: Studied, loop: Any) -> tuple[str, set[int]]:
    """The line of the loop that misses most, and its operations."""
    names = ["operation", "address", "function", "file", "line"]
    rows = studied.image.table("operation").select(names).to_pylist()
    first, last = tiling.range_of(loop)
    here = {row["operation"]: row for row in rows if first <= row["address"] <= last}
    latency: collections.Counter[int] = collections.Counter(dict.fromkeys(here, 0))
    for count in studied.view.counts():
        if count.operation in here:
            latency[count.operation] += count.latency
    if not here:
        return f"{first:#x}", set()
    row = here[latency.most_common(1)[0][0]]
    place = f"{row['function']} ({Path(row['file']).name}:{row['line']})"
    return place if row["line"] else str(row["function"]), set(here)


def _row(studied: Studied, loop: Any, here: int, saved: int, size: int, nest: Any) -> AdviceRow:
    where, operations = _where(studied, loop)
    objects: collections.Counter[int] = collections.Counter()
    for count in studied.view.counts():
        if count.operation in operations:
            objects[count.bucket] += count.latency
    name = studied.view.name(objects.most_common(1)[0][0]) if objects else ""
    evidence = (
        f"the loop waits {here:,} cycles for data; its {len(nest)} loops, in tiles, touch the "
        "same bytes in an order that keeps every result"
    )
    inner = "loop" if len(nest) == 2 else "two loops"
    how = f"cut the inner {inner} into tiles of {size} turns (as compiled), and let the outermost "
    how += f"of the {len(nest)} loops run through within each tile"
    return studied.row(KIND, name, where, (evidence, how), saved)
