# SPDX-License-Identifier: Apache-2.0
"""Which replacement policy would serve a program in so much memory, and what that would cost.

The region policy gives every large data structure a pool of its own, under LRU or MRU, whichever
its two curves favour for long enough, and moves memory to where it benefits most. Where one LRU
order for all of them would have missed less, regions live together under that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope import _engine
from stallscope.analyses.page_curves import (
    LATENCY,
    LOGGED,
    NOT_HOT,
    WRITES,
    feed,
    memory_pages,
    misses_at,
    with_flag,
)
from stallscope.analyses.page_view import PageView
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

REGION = "region"
LOGS = ("order", "path")
REST = "<rest>"  # the region of all that is small
LEAST_REGION = 16  # pages of a region of its own
LEAST_SHARE = 0.01  # of the footprint
MOST_REGIONS = 16
GROUP = 64  # pages that change hands at a time
EPOCHS = 200  # of a run, when not told how long one is
SIZES = 10  # of memory, when not told which


@dataclass(frozen=True)
class PolicyRow:
    memory: int  # pages
    memory_bytes: int
    policy: str
    misses: int
    projected_time: float  # cycles: without faults, and the faults'
    slowdown: float  # over the time without faults
    writebacks: int | None  # dirty pages thrown out; None where that is not followed


@dataclass(frozen=True)
class RegionRow:
    """A region of the region policy."""

    memory: int  # of the whole program
    region: str
    kind: str
    footprint_pages: int
    references: int
    misses: int
    policy: str  # at the end
    together: (
        bool  # at the end: its pages are in one LRU order with all others, which served better
    )
    switches: int  # of its policy
    pages: int  # of memory, at the end


@dataclass(frozen=True)
class PageReplacement:
    recording: str
    page_size: int
    footprint_pages: int
    log: str  # order: all references but to the pages used last; path: what PATH logged
    references: int
    latency: int  # cycles of a fault
    time_without_faults: float  # cycles: an instruction each
    epoch: int  # references
    rows: list[PolicyRow]
    regions: list[RegionRow]

    def best(self, memory: int) -> PolicyRow:
        """The policy that a system could have: not the one that knows the future."""
        rows = [row for row in self.rows if row.memory == memory and row.policy != "belady"]
        return min(rows, key=lambda row: row.misses)


def policy_names() -> list[str]:
    return [*(name for name, _, _ in _engine.replacement_policies()), REGION]


def replacement(
    view: PageView,
    memory: int | str | Sequence[int | str] = (),
    *,
    policies: Sequence[str] = (),
    log: str = "order",
    latency: int = LATENCY,
    epoch: int = 0,
    patience: int = 3,
    threshold: int = 0,
) -> PageReplacement:
    """Misses of each policy with so much memory (a number of pages, or bytes as "64M"); several
    sizes when not told which.

    `epoch`, in references, `patience`, in epochs, and `threshold`, in misses of an epoch that are
    no first references, decide when the region policy changes its mind."""
    sizes = check_memory(memory, view)
    chosen = _check_policies(policies)
    if latency < 0:
        raise StallscopeError(f"--latency {latency}: a fault takes no less than no time")
    references = chosen_log(view, log)
    epoch = epoch or max(100, references.num_rows // EPOCHS)
    regions = Regions(view, references) if REGION in chosen else None
    rows: list[PolicyRow] = []
    region_rows: list[RegionRow] = []
    for size in sizes:
        for policy in chosen:
            if policy == REGION:
                assert regions is not None
                own = regions.run(size, epoch, patience, threshold or min(100, epoch // 20))
                region_rows += own
                counts = {"misses": sum(row.misses for row in own), "writebacks": None}
            else:
                counts = _run(view, references, policy, size, log)
            rows.append(_row(view, size, policy, counts, latency))
    return PageReplacement(
        recording=view.recording,
        page_size=view.options.page_size,
        footprint_pages=view.footprint,
        log=log,
        references=references.num_rows,
        latency=latency,
        time_without_faults=float(view.instructions),
        epoch=epoch,
        rows=rows,
        regions=region_rows,
    )


def check_memory(memory: int | str | Sequence[int | str], view: PageView) -> list[int]:
    given = [memory] if isinstance(memory, int | str) else memory
    if sizes := [memory_pages(one, view.options.page_size) for one in given]:
        return sizes
    least = view.options.hot + 1
    spread = [view.footprint * i // SIZES for i in range(1, SIZES + 1)]
    return sorted({max(least, size) for size in spread})


def _check_policies(policies: Sequence[str]) -> list[str]:
    known = policy_names()
    for policy in policies:
        if policy not in known:
            raise StallscopeError(
                f"there is no replacement policy {policy}", f"there are: {', '.join(known)}"
            )
    return list(policies) or known


def chosen_log(view: PageView, log: str) -> pa.Table:
    if log not in LOGS:
        raise StallscopeError(f"--log {log}: there is no such log", f"there is: {', '.join(LOGS)}")
    found = with_flag(view.log, LOGGED if log == "path" else NOT_HOT)
    if not found.num_rows:
        raise StallscopeError(
            f"the {log} log of this recording is empty",
            "the program uses no more pages than its filters hold",
            "--log order" if log == "path" else "--hot 1",
        )
    return with_writes(found)


def with_writes(log: pa.Table) -> pa.Table:
    """With a column that says whether each reference writes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return log.append_column(
        "writes", pc.bit_wise_and(log.column("flags"), pa.scalar(WRITES, pa.uint8()))
    )


def _run(view: PageView, log: pa.Table, policy: str, memory: int, name: str) -> dict[str, Any]:
    try:
        counts: dict[str, Any] = feed(
            _engine.replacement(policy, memory), log, "page", "writes"
        ).misses()
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    if policy == "lru" and name == "order" and memory >= view.options.hot:
        # The exact one, of every access: references to the pages used last do change the order.
        counts["misses"] = misses_at(view.exact_curve(), memory, view.references)
    return counts


def _row(
    view: PageView, memory: int, policy: str, counts: dict[str, Any], latency: int
) -> PolicyRow:
    time = projected_time(view.instructions, counts["misses"], latency)
    return PolicyRow(
        memory=memory,
        memory_bytes=memory * view.options.page_size,
        policy=policy,
        misses=counts["misses"],
        projected_time=time,
        slowdown=time / max(1, view.instructions),
        writebacks=counts["writebacks"],
    )


def projected_time(instructions: int, faults: int, latency: int) -> float:
    """Cycles: an instruction takes one, and nothing overlaps with a fault."""
    return float(instructions + faults * latency)


class Regions:
    """The pages of a log by the data structure that they belong to: where most references go."""

    def __init__(self, view: PageView, log: pa.Table) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        pairs = pa.table({"page": log.column("page"), "object": log.column("bucket")})
        counted = pairs.group_by(["page", "object"]).aggregate([([], "count_all")])
        by_count = counted.sort_by([("count_all", "ascending"), ("object", "descending")])
        owner = dict(  # the last one of a page has most of its references
            zip(
                by_count.column("page").to_pylist(),
                by_count.column("object").to_pylist(),
                strict=True,
            )
        )
        pages: dict[int, int] = {}
        for one in owner.values():
            pages[one] = pages.get(one, 0) + 1
        least = max(LEAST_REGION, LEAST_SHARE * len(owner))
        large = sorted((one for one in pages if pages[one] >= least), key=lambda o: -pages[o])
        large = large[: MOST_REGIONS - 1]
        place = {one: i for i, one in enumerate(large)}
        rest = sum(count for one, count in pages.items() if one not in place)
        self.names = [view.buckets[one] for one in large] + ([(REST, "rest")] if rest else [])
        self.pages = [pages[one] for one in large] + ([rest] if rest else [])
        keys = pa.array(owner.keys(), pa.uint64())
        pools = pa.array([place.get(one, len(large)) for one in owner.values()], pa.uint32())
        found = pc.take(pools, pc.index_in(log.column("page"), keys))
        self.log = log.select(["page"]).append_column("pool", found)

    def run(self, memory: int, epoch: int, patience: int, threshold: int) -> list[RegionRow]:
        try:
            pools = _engine.pools(
                len(self.names),
                memory,
                sharing="throughput",
                group=max(1, min(GROUP, memory // 32)),
                epoch=epoch,
                choose_policy=True,
                patience=patience,
                threshold=threshold,
            )
        except _engine.EngineError as error:
            raise StallscopeError(
                f"--memory {memory} is too little for the region policy", error.args[1]
            ) from error
        states = feed(pools, self.log, "page", "pool").states()
        return [
            RegionRow(
                memory=memory,
                region=name,
                kind=kind,
                footprint_pages=pages,
                references=state["references"],
                misses=state["misses"],
                policy=state["policy"],
                together=state["together"],
                switches=state["switches"],
                pages=state["granted"],
            )
            for (name, kind), pages, state in zip(self.names, self.pages, states, strict=True)
        ]
