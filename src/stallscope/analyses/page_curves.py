# SPDX-License-Identifier: Apache-2.0
"""Curves of page misses over the size of memory: how they are made of logs, read and compared."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.tables import memory_of

if TYPE_CHECKING:
    import pyarrow as pa

WRITES, NOT_HOT, LOGGED, REFRESHED, CAME, GONE = 1, 2, 4, 8, 16, 32  # flags of a row of the log
MOMENT_BITS = 16  # of lookups, in the moments of a log
NEAR = 0.02  # misses that differ by no more are as good as the same
LEFT = 0.05  # of the misses that memory can avoid, at the knee
LATENCY = 1_000_000  # cycles that a page fault takes, when not told


@dataclass(frozen=True, slots=True)
class CurveRow:
    pages: int
    misses: int


@dataclass(frozen=True)
class Knee:
    """Where more memory stops to pay: the smallest size with at most 5% of the misses that memory
    beyond the pages used last can avoid."""

    pages: int
    misses: int


@dataclass(frozen=True)
class PathAccuracy:
    """How near the curve of what PATH logged is to that of every access, from twice the reach of
    the units' buffers on, and between once and twice that; None where the program has not so many
    pages. Where a curve falls steeply, misses may differ much at sizes that hardly do: `shift` is
    the largest number of pages by which the true curve has such misses elsewhere."""

    reach_pages: int
    within: float | None  # share of the sizes at which misses differ by at most 2%
    worst: float | None  # difference of misses
    shift: int | None  # pages, where misses differ by more than 2%
    worst_nearer: float | None


def memory_pages(memory: int | str, page_size: int, option: str = "--memory") -> int:
    """A plain number is pages; with K, M or G it is bytes, whole pages of which are counted."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(memory).strip(), re.I)
    if not match or ("." in match[1] and not match[2]):
        raise StallscopeError(
            f"{option} {memory}: that is no size of memory",
            now=f"{option} 1000 for pages, {option} 64M for bytes",
        )
    if not match[2]:
        pages = int(match[1])
    else:
        pages = int(float(match[1]) * 1024 ** ("KMGT".index(match[2].upper()) + 1)) // page_size
    if pages < 1:
        raise StallscopeError(
            f"{option} {memory}: a memory has at least one page",
            f"a page has {page_size} bytes",
            f"{option} 1000 for pages, {option} 64M for bytes",
        )
    return pages


def with_flag(log: pa.Table, flag: int) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    bits = pc.bit_wise_and(log.column("flags"), pa.scalar(flag, pa.uint8()))
    return log.filter(pc.not_equal(bits, pa.scalar(0, pa.uint8())))


def feed(taker: Any, log: pa.Table, *columns: str) -> Any:
    """Appends the columns of a log to something of the engine, piece by piece."""
    for batch in log.select(columns).to_batches():
        if batch.num_rows:
            taker.append(*map(memory_of, batch.columns))
    return taker


def lru_curve(log: pa.Table) -> list[CurveRow]:
    """Misses under LRU at every size from one page to all of them."""
    return rows_of(feed(_engine.LruStack(), log, "page").curve())


def told(log: pa.Table) -> pa.Table:
    """What PATH units that tell departures say, as columns `page`, `kind` and `moment`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    log = with_flag(log, LOGGED | GONE)
    flags = log.column("flags")
    read = pc.bit_wise_and(flags, pa.scalar(REFRESHED, pa.uint8()))
    log = log.filter(pc.equal(read, pa.scalar(0, pa.uint8())))
    moves = pc.bit_wise_and(log.column("flags"), pa.scalar(CAME | GONE, pa.uint8()))
    kind = pc.divide(moves, pa.scalar(CAME, pa.uint8()))
    return pa.table({"page": log.column("page"), "kind": kind, "moment": log.column("moment")})


def path_stack(buffer_entries: int) -> Any:
    """For logs of units with such buffers, who let nothing idle stay for longer."""
    return _engine.PathStack(recent=16 * max(1, buffer_entries))


def path_curve(log: pa.Table, buffer_entries: int) -> list[CurveRow]:
    """Misses under LRU by what PATH units tell that comes and leaves."""
    columns = told(log)
    if not columns.num_rows:
        return []
    return rows_of(feed(path_stack(buffer_entries), columns, *columns.column_names).curve())


def rows_of(curve: Sequence[int] | memoryview) -> list[CurveRow]:
    return [CurveRow(pages, misses) for pages, misses in enumerate(curve) if pages]


def misses_at(curve: Sequence[CurveRow], pages: int, without: int) -> int:
    """`without`: misses without any memory."""
    at = bisect.bisect_right(curve, pages, key=lambda row: row.pages)
    return curve[at - 1].misses if at else without


def summed(curves: Sequence[Sequence[tuple[int, int]]]) -> list[CurveRow]:
    """Curves that say where misses change, as one that has every size."""
    last = max((curve[-1][0] for curve in curves if curve), default=0)
    totals = [0] * last
    for curve in filter(None, curves):
        ends = [*(pages for pages, _ in curve[1:]), last + 1]
        for (pages, misses), end in zip(curve, ends, strict=True):
            for size in range(pages, end):
                totals[size - 1] += misses
    return [CurveRow(size, misses) for size, misses in enumerate(totals, 1)]


def beyond(curve: Sequence[CurveRow], hot: int) -> Sequence[CurveRow]:
    """Sizes that hold the pages used last, or all of them."""
    at = bisect.bisect_left(curve, hot, key=lambda row: row.pages)
    return curve[min(at, len(curve) - 1) :]


def knee(curve: Sequence[CurveRow], hot: int) -> Knee:
    first, last = beyond(curve, hot)[0], curve[-1]
    enough = last.misses + LEFT * (first.misses - last.misses)
    found = next(row for row in curve if row.misses <= enough)
    return Knee(found.pages, found.misses)


def accuracy(true: Sequence[CurveRow], found: Sequence[CurveRow], reach: int) -> PathAccuracy:
    def differs(pages: int) -> float:
        return abs(misses_at(found, pages, 0) - true[pages - 1].misses) / true[pages - 1].misses

    last, found = len(true), found if reach else []
    beyond = [differs(pages) for pages in range(2 * reach, last + 1)] if found else []
    nearer = [differs(p) for p in range(max(1, reach), min(2 * reach, last + 1))] if found else []
    far = [2 * reach + i for i, much in enumerate(beyond) if much > NEAR]
    return PathAccuracy(
        reach_pages=reach,
        within=1 - len(far) / len(beyond) if beyond else None,
        worst=max(beyond) if beyond else None,
        shift=max((_shift(true, found, pages) for pages in far), default=0) if beyond else None,
        worst_nearer=max(nearer) if nearer else None,
    )


def _shift(true: Sequence[CurveRow], found: Sequence[CurveRow], pages: int) -> int:
    """How far from `pages` the true curve comes to the misses found there; it never rises."""
    misses = misses_at(found, pages, 0)
    if misses < true[pages - 1].misses:
        wanted = misses / (1 - NEAR)
        at = bisect.bisect_left(true, -wanted, lo=pages - 1, key=lambda row: -row.misses)
        return at + 1 - pages
    wanted = misses * (1 - NEAR)
    at = bisect.bisect_right(true, -wanted, hi=pages, key=lambda row: -row.misses)
    return pages - at


def in_groups(curve: Sequence[CurveRow], group: int) -> list[CurveRow]:
    """At whole groups of pages, and at all of them."""
    return [row for row in curve if row.pages % group == 0 or row.pages == len(curve)]


def thinned(curve: Sequence[CurveRow], most: int, also: int) -> list[CurveRow]:
    if len(curve) <= most:
        return list(curve)
    wanted = {len(curve), 1} | {round(i * len(curve) / most) for i in range(1, most)}
    wanted.add(bisect.bisect_left(curve, also, key=lambda row: row.pages) + 1)
    return [curve[place - 1] for place in sorted(wanted) if 1 <= place <= len(curve)]
