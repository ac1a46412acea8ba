# SPDX-License-Identifier: Apache-2.0
"""How to share memory among programs that run together.

Global LRU has one order of pages for all. Local pools are sized by the programs' curves: for the
fewest misses (throughput), for equal miss rates by priority (equal), or so that each keeps its
service level (service). Limits that hold for the whole run can be given to cgroups; pools that are
sized anew every epoch follow what the programs do.

Programs begin and end together: the time of shorter ones is stretched to that of the longest, as
if they had been given a share of a processor so that all are done at once. A fault of one does not
hold up another.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from stallscope import _engine
from stallscope.analyses.page_curves import LATENCY, feed, memory_pages, misses_at
from stallscope.analyses.page_replacement import EPOCHS, GROUP, projected_time
from stallscope.analyses.page_view import PageView
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

GLOBAL = "global"
WAYS = ("throughput", "equal", "service")
PER = 1_000_000  # cycles of the common time: what miss rates are per


@dataclass(frozen=True)
class AllocationRow:
    """What one program gets in one way of sharing, and what that comes to."""

    sharing: str
    adapts: bool  # sized anew every epoch; else a limit for the whole run
    program: str
    pages: int  # limit, or what it has at the end
    bytes: int  # for a cgroup's memory.max
    misses: int
    miss_rate: float  # per million cycles of the time that all take together without faults
    projected_time: float  # cycles


@dataclass(frozen=True)
class SharingRow:
    """A way of sharing, over all programs."""

    sharing: str
    adapts: bool
    misses: int
    projected_time: float  # of all together
    gain: float  # of time over global LRU


@dataclass(frozen=True)
class EpochRow:
    """What a pool had and missed in one epoch."""

    sharing: str
    epoch: int
    program: str
    pages: int
    references: int
    misses: int


@dataclass(frozen=True)
class PageAllocation:
    recordings: list[str]
    page_size: int
    memory_pages: int
    memory_bytes: int
    latency: int
    epoch: int  # references
    priorities: list[float]
    levels: list[float]  # misses per million cycles that each may have; empty: none given
    sharings: list[SharingRow]
    rows: list[AllocationRow]
    epochs: list[EpochRow]

    def limits(self, sharing: str) -> list[AllocationRow]:
        """Of one way, those that hold for the whole run."""
        return [row for row in self.rows if row.sharing == sharing and not row.adapts]


def allocate(
    views: Sequence[PageView],
    memory: int | str,
    *,
    priorities: Sequence[float] = (),
    levels: Sequence[float] = (),
    latency: int = LATENCY,
    epoch: int = 0,
) -> PageAllocation:
    """Several recordings in one memory. `levels`: misses per million cycles that each may have at
    most, for the way `service`."""
    size = _check(views, memory, priorities, levels)
    asked = _Asked(
        views=list(views),
        names=_names(views),
        memory=size,
        priorities=[float(p) for p in priorities] or [1.0] * len(views),
        levels=[float(level) for level in levels],
        latency=latency,
        group=max(1, min(GROUP, size // 64)),
        time=max(view.instructions for view in views),
    )
    log = _together(asked)
    epoch = epoch or max(100, log.num_rows // EPOCHS)
    rows, epochs = [], []
    for sharing in (GLOBAL, "throughput", "equal", *(["service"] if levels else [])):
        if sharing != GLOBAL:
            rows += _limits(asked, sharing)
        found, history = _adapting(asked, sharing, log, epoch)
        rows += found
        epochs += history
    return PageAllocation(
        recordings=[view.recording for view in views],
        page_size=views[0].options.page_size,
        memory_pages=size,
        memory_bytes=size * views[0].options.page_size,
        latency=latency,
        epoch=epoch,
        priorities=asked.priorities,
        levels=asked.levels,
        sharings=_sharings(rows),
        rows=rows,
        epochs=epochs,
    )


@dataclass(frozen=True)
class _Asked:
    views: list[PageView]
    names: list[str]
    memory: int
    priorities: list[float]
    levels: list[float]
    latency: int
    group: int
    time: int  # common, without faults


def _check(
    views: Sequence[PageView],
    memory: int | str,
    priorities: Sequence[float],
    levels: Sequence[float],
) -> int:
    if len(views) < 2:
        raise StallscopeError(
            "memory is shared by two programs at least",
            now="stallscope pages allocate A B --memory N",
        )
    sizes = {view.options.page_size for view in views}
    if len(sizes) > 1:
        listed = ", ".join(f"{PurePath(v.recording).name}: {v.options.page_size}" for v in views)
        raise StallscopeError(
            "the recordings have pages of unequal sizes", listed, "--page-size 4096 for all of them"
        )
    pages = memory_pages(memory, views[0].options.page_size)
    if pages < len(views):
        raise StallscopeError(
            f"--memory {memory} is {pages} pages for {len(views)} programs",
            "each needs one page at least",
        )
    for word, values in (("priority", priorities), ("level", levels)):
        if values and len(values) != len(views):
            raise StallscopeError(
                f"--{word} was given {len(values)} times for {len(views)} programs",
                now="give one for each, in their order",
            )
        if any(not value > 0 for value in values):
            raise StallscopeError(f"--{word}: the number must be above 0")
    return pages


def _names(views: Sequence[PageView]) -> list[str]:
    """Of the recordings; those of the same name are numbered."""
    names = [PurePath(view.recording).name.removesuffix(".stallscope") for view in views]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})"
        for i, name in enumerate(names)
    ]


def _together(asked: _Asked) -> pa.Table:
    """References of all programs by the common time, with the number of the program."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = []
    for number, view in enumerate(asked.views):
        log = view.references_kept().select(["time", "page"])
        scale = asked.time / max(1, view.instructions)
        log = log.set_column(0, "time", pc.multiply(log.column("time").cast(pa.float64()), scale))
        pool = pa.repeat(pa.scalar(number, pa.uint32()), log.num_rows)
        parts.append(log.append_column("pool", pool))
    return pa.concat_tables(parts).sort_by([("time", "ascending"), ("pool", "ascending")])


def _row(
    asked: _Asked, sharing: str, adapts: bool, number: int, pages: int, misses: int
) -> AllocationRow:
    view = asked.views[number]
    return AllocationRow(
        sharing=sharing,
        adapts=adapts,
        program=asked.names[number],
        pages=pages,
        bytes=pages * view.options.page_size,
        misses=misses,
        miss_rate=misses / asked.time * PER,
        projected_time=projected_time(view.instructions, misses, asked.latency),
    )


def _limits(asked: _Asked, sharing: str) -> list[AllocationRow]:
    curves = [view.exact_curve() for view in asked.views]
    without = [view.references for view in asked.views]
    given = [
        array.array("Q", [none, *(row.misses for row in curve)])
        for curve, none in zip(curves, without, strict=True)
    ]
    words: dict[str, Any] = {"group": asked.group, "priorities": asked.priorities}
    words["per"] = [asked.time / PER] * len(asked.views)
    if sharing == "service":
        words["levels"] = asked.levels
    try:
        sizes = _best_sizes(sharing, given, asked.memory, words)
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    return [
        _row(asked, sharing, False, i, size, misses_at(curves[i], size, without[i]))
        for i, size in enumerate(sizes)
    ]


def _best_sizes(
    sharing: str, curves: list[Any], memory: int, words: dict[str, Any]
) -> Sequence[int]:
    """For throughput the better of the greedy sizes, which are blind beyond a flat stretch of a
    curve, and the best to a group of pages, which not every memory can be divided into."""
    found = [_engine.allocate(sharing, curves, memory, **words)]
    if sharing == "throughput":
        group = max(words["group"], -(-memory // 4096))
        if memory // group >= len(curves):
            found.append(_engine.allocate("fewest", curves, memory, **words | {"group": group}))

    def misses(sizes: Sequence[int]) -> int:
        return sum(curve[min(s, len(curve) - 1)] for s, curve in zip(sizes, curves, strict=True))

    return min(found, key=misses)


def _adapting(
    asked: _Asked, sharing: str, log: pa.Table, epoch: int
) -> tuple[list[AllocationRow], list[EpochRow]]:
    words: dict[str, Any] = {"priorities": asked.priorities}
    if sharing == "service":  # misses of an epoch, which takes its share of the common time
        share = epoch / max(1, log.num_rows) * asked.time / PER
        words["levels"] = [level * share for level in asked.levels]
    try:
        pools = _engine.pools(
            len(asked.views), asked.memory, sharing=sharing, group=asked.group, epoch=epoch, **words
        )
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    feed(pools, log, "page", "pool")
    rows = [
        _row(asked, sharing, True, i, state["granted"], state["misses"])
        for i, state in enumerate(pools.states())
    ]
    history = [
        EpochRow(
            sharing,
            one["epoch"],
            asked.names[one["pool"]],
            one["granted"],
            one["references"],
            one["misses"],
        )
        for one in pools.history()
    ]
    return rows, history


def _sharings(rows: Sequence[AllocationRow]) -> list[SharingRow]:
    sums: dict[tuple[str, bool], list[float]] = {}
    for row in rows:
        sums.setdefault((row.sharing, row.adapts), [0, 0.0])
        sums[row.sharing, row.adapts][0] += row.misses
        sums[row.sharing, row.adapts][1] += row.projected_time
    base = sums[GLOBAL, True][1]
    return [
        SharingRow(sharing, adapts, int(misses), time, base / time - 1)
        for (sharing, adapts), (misses, time) in sums.items()
    ]
