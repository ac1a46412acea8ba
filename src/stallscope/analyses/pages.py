# SPDX-License-Identifier: Apache-2.0
"""How much memory a program needs: footprint, working set, and misses at every size of memory."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope import _engine
from stallscope.analyses.objects import STACK, Process
from stallscope.analyses.regions import numbers
from stallscope.analyses.sites import DEPTH, site_names
from stallscope.errors import StallscopeError
from stallscope.recording import PAGES
from stallscope.tables import memory_of

if TYPE_CHECKING:
    import pyarrow as pa

    from stallscope.tracking import PageOptions, Tracked

WRITES, NOT_HOT, LOGGED, REFRESHED = 1, 2, 4, 8  # flags of a row of the log
NEAR = 0.02  # misses that differ by no more are as good as the same
IMAGE_SHIFT = 52  # pages of later process images are told apart by the bits above
MOST_THREADS = 64  # whose logs are compared with their curves
WINDOWS = 100  # of a run, when not told how long one is
LEFT = 0.05  # of the misses that memory can avoid, at the knee
LATENCY = 1_000_000  # cycles that a page fault takes, when not told


@dataclass(frozen=True, slots=True)
class CurveRow:
    pages: int
    misses: int


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
class Knee:
    """Where more memory stops to pay: the smallest size with at most 5% of the misses that memory
    beyond the pages used last can avoid."""

    pages: int
    misses: int


@dataclass(frozen=True)
class WorkingSet:
    """Pages used within a window of time, over all windows of the run."""

    window: int  # instructions
    mean_pages: float
    peak_pages: int


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


@dataclass(frozen=True)
class Pages:
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
    curve: list[CurveRow]
    path_curve: list[CurveRow]  # what the units' logs say
    path_accuracy: PathAccuracy
    mru_curve: list[CurveRow]  # of the references kept, where it was asked for
    reversed_rank: list[CurveRow]  # what was once taken for that, and is not
    units: list[PageUnitRow]
    threads: list[PageThreadRow]
    objects: list[PageObjectRow]

    def at(self, pages: int) -> int:
        """Misses with so many pages of memory."""
        return misses_at(self.curve, pages, self.references)

    def points(self, most: int) -> list[CurveRow]:
        """Of the curve, so many sizes that are round and evenly spread; the knee is among them."""
        return thinned(self.curve, most, self.knee.pages)


class PageView:
    """The page references of one or several process images, with names."""

    def __init__(
        self, parts: Sequence[Tracked], depth: int = DEPTH, wrappers: Sequence[str] = ()
    ) -> None:
        self.parts = list(parts)
        self.recording = str(parts[0].recording.path)
        self.options: PageOptions = parts[0].result.options
        self.source = parts[0].recording.meta.source
        self._depth, self._wrappers = depth, wrappers
        self.instructions = sum(part.result.instructions for part in parts)
        self.accesses = sum(part.result.accesses for part in parts)
        self.references = sum(part.result.references for part in parts)
        self.footprint = sum(part.result.footprint for part in parts)
        if not self.footprint:
            raise StallscopeError(
                f"{parts[0].recording.path.name} references no pages",
                "nothing was measured, or the program did nothing",
            )

    @functools.cached_property
    def log(self) -> pa.Table:
        """Every image's log behind that of the one before; buckets are numbered over all."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found, first, began = [], 0, 0
        for number, part in enumerate(self.parts):
            log = part.table("page_log")
            if number:
                page = pc.bit_wise_or(
                    log.column("page"), pa.scalar(number << IMAGE_SHIFT, pa.uint64())
                )
                bucket = pc.add(log.column("bucket"), pa.scalar(first, pa.uint32()))
                time = pc.add(log.column("time"), pa.scalar(began, pa.uint64()))
                for name, column in (("page", page), ("bucket", bucket), ("time", time)):
                    index = log.schema.get_field_index(name)
                    log = log.set_column(index, log.schema.field(index), column)
            found.append(log)
            first += len(part.table("bucket"))
            began += part.result.instructions
        return pa.concat_tables(found)

    @functools.cached_property
    def buckets(self) -> list[tuple[str, str]]:
        """Name and kind of each, in the numbers of the log."""
        found = []
        for part in self.parts:
            sites = site_names(part.recording.table("site"), self._depth, self._wrappers)
            found += [(_name(row, sites), row["kind"]) for row in part.table("bucket").to_pylist()]
        return found

    def processes(self) -> list[Process]:
        metas = [part.recording.meta for part in self.parts]
        return [Process(meta.name, meta.pid, list(meta.command)) for meta in metas]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [row for part in self.parts for row in part.table(table).to_pylist()]

    def references_kept(self) -> pa.Table:
        """The order in which pages were used, without the pages used last."""
        return with_flag(self.log, NOT_HOT)

    def exact_curve(self, thread: int | None = None) -> list[CurveRow]:
        """Images run one after the other with pages of their own, so that their misses add up."""
        curves = []
        for part in self.parts:
            rows = part.table("page_curve").to_pylist()
            curves.append([(r["pages"], r["misses"]) for r in rows if r["thread"] == thread])
        return _summed(curves)

    def threads_apart(self) -> bool:
        """Whether each thread has a curve of its own."""
        return any(row["thread"] is not None for row in self.rows("page_curve"))


def pages(
    view: PageView,
    *,
    thread: int | None = None,
    object_name: str | None = None,
    region: str | None = None,
    window: int = 0,
    mru: bool = False,
) -> Pages:
    """Of the whole run, or of one thread, object or region of the program. With `mru` also the
    curve of MRU, and that of reversed LRU ranks beside it."""
    asked = [x for x in (thread, object_name, region) if x is not None]
    if len(asked) > 1:
        raise StallscopeError("--thread, --object and --region: one at a time")
    log = _chosen(view, thread, object_name, region)
    kept, logged = with_flag(log, NOT_HOT), with_flag(log, LOGGED)
    curve, exact = _curve(view, kept, thread if view.threads_apart() else None, bool(asked))
    footprint = len(curve)
    path_curve = lru_curve(logged) if logged.num_rows else []
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
        knee=knee(curve, view.options.hot),
        processes=view.processes(),
        curve=curve,
        path_curve=path_curve,
        path_accuracy=_accuracy(curve, path_curve, view.options.buffer_entries * len(units)),
        mru_curve=rows_of(feed(_engine.MruStack(), kept, "page").curve()) if mru else [],
        reversed_rank=rows_of(feed(_engine.ReversedRank(), kept, "page").curve()) if mru else [],
        units=units,
        threads=_threads(view),
        objects=_objects(view),
    )


def memory_pages(memory: int | str, page_size: int) -> int:
    """A plain number is pages; with K, M or G it is bytes, whole pages of which are counted."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(memory).strip(), re.I)
    if not match or ("." in match[1] and not match[2]):
        raise StallscopeError(
            f"--memory {memory}: that is no size of memory",
            now="--memory 1000 for pages, --memory 64M for bytes",
        )
    if not match[2]:
        pages = int(match[1])
    else:
        pages = int(float(match[1]) * 1024 ** ("KMGT".index(match[2].upper()) + 1)) // page_size
    if pages < 1:
        raise StallscopeError(
            f"--memory {memory}: a memory has at least one page",
            f"a page has {page_size} bytes",
            "--memory 1000 for pages, --memory 64M for bytes",
        )
    return pages


def _curve(
    view: PageView, kept: pa.Table, thread: int | None, chosen: bool
) -> tuple[list[CurveRow], bool]:
    if not chosen or thread is not None:
        return view.exact_curve(thread), view.source != PAGES
    return lru_curve(kept), False


def _name(row: dict[str, Any], sites: Mapping[int, str]) -> str:
    if row["kind"] == "heap":
        return sites.get(row["site"], f"site {row['site']}")
    if row["kind"] == "stack":
        return STACK
    if row["kind"] == "mapping":
        return row["name"] or "<anonymous memory>"
    return str(row["name"])


def _chosen(
    view: PageView, thread: int | None, object_name: str | None, region: str | None
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    column, wanted = "thread", [] if thread is None else [thread]
    if object_name is not None:
        wanted = [i for i, (name, _) in enumerate(view.buckets) if name == object_name]
        column = "bucket"
    elif region is not None:
        wanted, column = sorted(numbers(view.rows("region"), region)), "region"
    elif thread is None:
        return view.log
    found = view.log.filter(
        pc.is_in(view.log.column(column), pa.array(wanted, view.log.schema.field(column).type))
    )
    if not found.num_rows:
        what = thread if thread is not None else object_name or region
        raise StallscopeError(f"nothing is known of the pages of {column} {what}")
    return found


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


def rows_of(curve: Sequence[int] | memoryview) -> list[CurveRow]:
    return [CurveRow(pages, misses) for pages, misses in enumerate(curve) if pages]


def misses_at(curve: Sequence[CurveRow], pages: int, without: int) -> int:
    """`without`: misses without any memory."""
    return without if pages < 1 else curve[min(pages, len(curve)) - 1].misses


def _summed(curves: Sequence[Sequence[tuple[int, int]]]) -> list[CurveRow]:
    """Curves that say where misses change, as one that has every size."""
    last = max((curve[-1][0] for curve in curves if curve), default=0)
    totals = [0] * last
    for curve in filter(None, curves):
        ends = [*(pages for pages, _ in curve[1:]), last + 1]
        for (pages, misses), end in zip(curve, ends, strict=True):
            for size in range(pages, end):
                totals[size - 1] += misses
    return [CurveRow(size, misses) for size, misses in enumerate(totals, 1)]


def knee(curve: Sequence[CurveRow], hot: int) -> Knee:
    first, last = curve[min(hot, len(curve)) - 1], curve[-1]
    enough = last.misses + LEFT * (first.misses - last.misses)
    found = next(row for row in curve if row.misses <= enough)
    return Knee(found.pages, found.misses)


def _accuracy(true: Sequence[CurveRow], found: Sequence[CurveRow], reach: int) -> PathAccuracy:
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


def thinned(curve: Sequence[CurveRow], most: int, also: int) -> list[CurveRow]:
    if len(curve) <= most:
        return list(curve)
    wanted = {also, len(curve), 1} | {round(i * len(curve) / most) for i in range(1, most)}
    return [curve[size - 1] for size in sorted(wanted) if 1 <= size <= len(curve)]


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
    logged = with_flag(_chosen(view, thread, None, None), LOGGED)
    found = lru_curve(logged) if logged.num_rows else []
    return _accuracy(view.exact_curve(thread), found, view.options.buffer_entries)


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
