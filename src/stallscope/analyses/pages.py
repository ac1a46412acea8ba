# SPDX-License-Identifier: Apache-2.0
"""How much memory a program needs: footprint, working set, and misses at every size of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stallscope import _engine
from stallscope.analyses.objects import Process
from stallscope.analyses.page_curves import (
    LOGGED,
    NOT_HOT,
    REFRESHED,
    WRITES,
    CurveRow,
    Knee,
    PathAccuracy,
    accuracy,
    beyond,
    feed,
    in_groups,
    knee,
    lru_curve,
    memory_pages,
    misses_at,
    path_curve,
    rows_of,
    summed,
    thinned,
    with_flag,
)
from stallscope.analyses.page_view import PageView
from stallscope.analyses.regions import numbers
from stallscope.errors import StallscopeError
from stallscope.recording import PAGES
from stallscope.showing import Shown

if TYPE_CHECKING:
    import pyarrow as pa

MOST_THREADS = 64  # whose logs are compared with their curves
WINDOWS = 100  # of a run, when not told how long one is


@dataclass(frozen=True)
class PageUnitRow:
    """What one PATH unit saw and logged."""

    unit: int
    lookups: int
    tlb_misses: int
    buffer_misses: int
    logged: int
    exceptions: int
    refreshes: int  # times that hot pages were read from its tables
    refreshed: int  # pages that were
    departures: int  # pages that left the tables and were told to have


@dataclass(frozen=True)
class PageThreadRow:
    thread: int
    name: str
    footprint_pages: int
    references: int  # in the log
    logged: int
    path_within: float | None  # as in PathAccuracy, of its own log and its own curve


@dataclass(frozen=True)
class PageObjectRow:
    object: str
    kind: str
    footprint_pages: int
    references: int  # in the log
    share: float  # of them
    logged: int
    written: int  # of its references, those that write


@dataclass(frozen=True)
class WorkingSet:
    """Pages used within a window of time, over all windows of the run."""

    window: int  # instructions
    mean_pages: float
    peak_pages: int


@dataclass(frozen=True)
class Pages(Shown):
    recording: str
    source: str  # pages: by page protection, whose active set is `hot`; times are cycles then
    page_size: int
    footprint_pages: int
    footprint_bytes: int
    instructions: int
    accesses: int  # 0 where only pages are known
    references: int  # accesses to another page than the one before
    kept: int  # of them, not to the pages used last
    logged: int  # by the PATH units
    hot: int  # pages used last, references to which are not kept
    of: str  # whose curve this is
    exact: bool  # made of every access; else of the references kept
    working_set: WorkingSet
    knee: Knee
    processes: list[Process]
    group: int  # pages; the curve has multiples of it, and the footprint
    curve: list[CurveRow]
    path_curve: list[CurveRow]  # what the units' logs say
    path_accuracy: PathAccuracy
    mru_curve: list[CurveRow]  # of the references kept, where it was asked for
    reversed_rank: list[CurveRow]  # what was once taken for that, and is not
    units: list[PageUnitRow]
    threads: list[PageThreadRow]
    objects: list[PageObjectRow]

    def at(self, pages: int, curve: list[CurveRow] | None = None) -> int:
        """Misses with so many pages of memory, by this curve or another of its curves."""
        return misses_at(self.curve if curve is None else curve, pages, self.references)

    def beyond_hot(self, curve: list[CurveRow]) -> Sequence[CurveRow]:
        """Of one of its curves, the sizes that hold the pages used last."""
        return beyond(curve, self.hot)

    def points(self, most: int) -> list[CurveRow]:
        """Of the curve, so many sizes that are round and evenly spread; the knee is among them."""
        return thinned(self.curve, most, self.knee.pages)


def pages(
    view: PageView,
    *,
    thread: int | None = None,
    object_name: str | None = None,
    region: str | None = None,
    window: int = 0,
    mru: bool = False,
    group: int | str | None = None,
) -> Pages:
    """Of the whole run, or of one thread, object or region of the program. With `mru` also the
    curve of MRU, and that of reversed LRU ranks beside it. With `group` the curve has only sizes
    that are whole groups of so many pages (or bytes, as "1M"), as a system would keep it."""
    asked = [x for x in (thread, object_name, region) if x is not None]
    if len(asked) > 1:
        raise StallscopeError("--thread, --object and --region: one at a time")
    step = 1 if group is None else memory_pages(group, view.options.page_size, "--group")
    log = _chosen(view, thread, object_name, region)
    kept, logged = with_flag(log, NOT_HOT), with_flag(log, LOGGED)
    curve, exact = _curve(view, kept, thread if view.threads_apart() else None, bool(asked))
    footprint = len(curve)
    told = _told_curve(view, log, thread, bool(asked) and thread is None)
    units = _units(view)
    return Pages(
        recording=view.recording,
        source=view.source,
        page_size=view.options.page_size,
        footprint_pages=footprint,
        footprint_bytes=footprint * view.options.page_size,
        instructions=view.instructions,
        accesses=view.accesses,
        references=view.references,
        kept=kept.num_rows,
        logged=logged.num_rows - with_flag(logged, REFRESHED).num_rows,
        hot=view.options.hot,
        of=str(asked[0]) if asked else "all",
        exact=exact,
        working_set=_working_set(kept, view.instructions, window),
        knee=knee(in_groups(curve, step), view.options.hot),
        processes=view.processes(),
        group=step,
        curve=in_groups(curve, step),
        path_curve=in_groups(told, step),
        path_accuracy=accuracy(curve, told, view.options.buffer_entries * len(units)),
        mru_curve=in_groups(rows_of(feed(_engine.MruStack(), kept, "page").curve()), step)
        if mru
        else [],
        reversed_rank=in_groups(rows_of(feed(_engine.ReversedRank(), kept, "page").curve()), step)
        if mru
        else [],
        units=units,
        threads=_threads(view),
        objects=_objects(view),
    )


def _curve(
    view: PageView, kept: pa.Table, thread: int | None, chosen: bool
) -> tuple[list[CurveRow], bool]:
    if not chosen or thread is not None:
        return view.exact_curve(thread), view.source != PAGES
    return lru_curve(kept), False


def _told_curve(view: PageView, log: pa.Table, thread: int | None, part: bool) -> list[CurveRow]:
    """What the units' logs say. Of a part of the program whose departures cannot be told from the
    others' (an object, a thread that shares a core), of what is logged alone."""
    told = view.options.departures and view.source != PAGES
    if not told or part or (thread is not None and view.options.cores):
        logged = with_flag(log, LOGGED)
        return lru_curve(logged) if logged.num_rows else []
    logs = (image.table("page_log") for image in view.parts)
    if thread is not None:
        logs = (_equal(one, "thread", [thread]) for one in logs)
    curves = [path_curve(one, view.options.buffer_entries) for one in logs]
    return summed([[(row.pages, row.misses) for row in curve] for curve in curves])


def _equal(log: pa.Table, column: str, wanted: Sequence[int]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.array(wanted, log.schema.field(column).type)
    return log.filter(pc.is_in(log.column(column), values))


def _chosen(
    view: PageView, thread: int | None, object_name: str | None, region: str | None
) -> pa.Table:
    column, wanted = "thread", [] if thread is None else [thread]
    if object_name is not None:
        wanted = [i for i, (name, _) in enumerate(view.buckets) if name == object_name]
        column = "bucket"
    elif region is not None:
        wanted, column = sorted(numbers(view.rows("region"), region)), "region"
    elif thread is None:
        return view.log
    found = _equal(view.log, column, wanted)
    if not found.num_rows:
        what = thread if thread is not None else object_name or region
        raise StallscopeError(f"nothing is known of the pages of {column} {what}")
    return found


def _working_set(kept: pa.Table, instructions: int, window: int) -> WorkingSet:
    """Distinct pages of each window. Pages that stay among those used last are not seen again."""
    import pyarrow as pa
    import pyarrow.compute as pc

    window = window or max(1, -(-instructions // WINDOWS))
    count = max(1, -(-instructions // window))
    number = pc.divide(kept.column("time"), pa.scalar(window, pa.uint64()))
    pairs = pa.table({"window": number, "page": kept.column("page")})
    distinct = pairs.group_by(["window", "page"]).aggregate([])
    sizes = distinct.group_by("window").aggregate([([], "count_all")]).column("count_all")
    return WorkingSet(window, (pc.sum(sizes).as_py() or 0) / count, pc.max(sizes).as_py() or 0)


def _units(view: PageView) -> list[PageUnitRow]:
    rows = [PageUnitRow(**row) for row in view.rows("page_unit")]
    return [row for row in rows if row.lookups]


def grouped(log: pa.Table, column: str) -> dict[int, dict[str, int]]:
    """By the column's value: references kept, logged and writing, and pages that are its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flags = log.column("flags")
    parts = {column: log.column(column), "page": log.column("page")}
    for name, flag in (("references", NOT_HOT), ("logged", LOGGED), ("written", WRITES)):
        bits = pc.bit_wise_and(flags, pa.scalar(flag, pa.uint8()))
        parts[name] = pc.not_equal(bits, pa.scalar(0, pa.uint8())).cast(pa.uint64())
    sums = [(name, "sum") for name in ("references", "logged", "written")]
    by_page = pa.table(parts).group_by([column, "page"]).aggregate(sums)
    all_sums = [(f"{name}_sum", "sum") for name, _ in sums]
    rows = by_page.group_by(column).aggregate([([], "count_all"), *all_sums]).to_pylist()
    return {
        row[column]: {"pages": row["count_all"]}
        | {name: row[f"{name}_sum_sum"] for name, _ in sums}
        for row in rows
    }


def _threads(view: PageView) -> list[PageThreadRow]:
    """Of a recording of one process; threads of several are not told apart by their numbers."""
    if len(view.parts) > 1:
        return []
    names = {
        row["thread"]: row["name"]
        for row in view.parts[0].recording.table("thread").select(["thread", "name"]).to_pylist()
    }
    by_thread = sorted(grouped(view.log, "thread").items())
    apart = 1 < len(by_thread) <= MOST_THREADS and view.threads_apart()
    return [
        PageThreadRow(
            thread=number,
            name=names.get(number, ""),
            footprint_pages=facts["pages"],
            references=facts["references"],
            logged=facts["logged"],
            path_within=_thread_accuracy(view, number).within if apart else None,
        )
        for number, facts in by_thread
    ]


def _thread_accuracy(view: PageView, thread: int) -> PathAccuracy:
    found = _told_curve(view, _chosen(view, thread, None, None), thread, part=False)
    return accuracy(view.exact_curve(thread), found, view.options.buffer_entries)


def _objects(view: PageView) -> list[PageObjectRow]:
    found: dict[tuple[str, str], dict[str, int]] = {}
    for bucket, facts in grouped(view.log, "bucket").items():
        sums = found.setdefault(view.buckets[bucket], dict.fromkeys(facts, 0))
        for name, count in facts.items():
            sums[name] += count
    total = max(1, sum(facts["references"] for facts in found.values()))
    rows = [
        PageObjectRow(
            object=name,
            kind=kind,
            footprint_pages=facts["pages"],
            references=facts["references"],
            share=facts["references"] / total,
            logged=facts["logged"],
            written=facts["written"],
        )
        for (name, kind), facts in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.footprint_pages, -row.references, row.object))
