# SPDX-License-Identifier: Apache-2.0
"""Where a core's cycles go: stalls by cause, source, place and data, over time and by phase."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope.analyses.phases import Phase, phases
from stallscope.analyses.sites import DEPTH, site_names
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

if TYPE_CHECKING:
    from stallscope.pipelines import CoreRun, CoreView

BY = ("cause", "function", "line", "instruction", "object")
# As tables number them (the order of ties), and as they are shown.
NUMBERED = (
    "data_cache",
    "translation",
    "rejection",
    "load_store",
    "fpu",
    "iu",
    "other",
    "branch_mispredict",
    "inst_cache",
)
SHOWN = (
    "data_cache",
    "translation",
    "load_store",
    "rejection",
    "fpu",
    "iu",
    "branch_mispredict",
    "inst_cache",
    "other",
)


@dataclass(frozen=True)
class CauseRow:
    cause: str
    cycles: int
    cpi: float
    share: float  # of all stalls


@dataclass(frozen=True)
class SourceRow:
    """Data-cache stalls by what served the miss."""

    source: str
    misses: int  # of loads and stores that it served
    latency: int  # cycles
    cycles: int  # stalled, exactly
    cpi: float
    naive_cycles: int  # latency times misses
    naive_error: float | None  # of that; None where nothing stalled


@dataclass(frozen=True)
class TimeRow:
    """A stretch of time. Cycles are the sum of completion and causes."""

    start: int  # cycle
    cycles: int
    instructions: int
    completion: int
    causes: dict[str, int]  # cycles

    def cpi(self) -> tuple[float, ...]:
        """Completion first, then the causes in the order in which they are shown."""
        parts = (self.completion, *self.causes.values())
        return tuple(_ratio(part, self.instructions) for part in parts)


@dataclass(frozen=True)
class StallRow:
    """Stalls charged to one place or object, or to one cause."""

    name: str
    function: str | None
    file: str | None
    line: int | None
    address: int | None
    cycles: int
    cpi: float
    share: float
    main: str  # the cause of most of them
    causes: dict[str, int]  # cycles


@dataclass(frozen=True)
class Gain:
    """What was charged to a cause, and what is gained when it is made ideal."""

    cause: str
    attributed: int  # cycles
    gained: int
    cycles_without: int
    cpi_without: float


@dataclass(frozen=True)
class Split:
    """A trace that ran in pieces of time: how far that is exact, by the instructions that a piece
    and the one before it both ran. The first half of the second piece was also run as in one piece,
    by the first, which goes on through it."""

    pieces: int
    warmup: int  # instructions before each piece, not counted
    checked: int  # instructions of that half
    compared: int  # cycles of all those instructions, as the earlier pieces have them
    difference: int  # that the later ones took more or less, added up
    error: float  # the one over the other


@dataclass(frozen=True)
class Stalls(Shown):
    recording: str
    machine: str
    mode: str
    cycles: int
    instructions: int
    cpi: float
    completion_cycles: int
    completion_cpi: float
    stall_cycles: int
    by: str
    causes: list[CauseRow]
    sources: list[SourceRow]
    timeline: list[TimeRow]
    phases: list[Phase]
    without: list[Gain]
    split: Split | None  # None: in one piece, exactly
    rows: list[Any]  # StallRow, or CauseRow when by cause

    def over_time(self, most: int) -> list[TimeRow]:
        """The timeline in at most so many rows, neighbours added up."""
        size = max(1, -(-len(self.timeline) // most))
        groups = [self.timeline[i : i + size] for i in range(0, len(self.timeline), size)]
        return [
            TimeRow(
                start=group[0].start,
                cycles=sum(row.cycles for row in group),
                instructions=sum(row.instructions for row in group),
                completion=sum(row.completion for row in group),
                causes={cause: sum(row.causes[cause] for row in group) for cause in SHOWN},
            )
            for group in groups
        ]


def stalls(view: CoreView, *, by: str = "cause", without: Iterable[str] = ()) -> Stalls:
    """`without`: causes that are made ideal, one after the other, to see what is really gained."""
    if by not in BY:
        raise StallscopeError(f"stalls cannot be shown by {by!r}", f"there is: {', '.join(BY)}")
    if by == "object" and not view.probe.objects:
        view = view.but(objects=True)
    totals = _added(run.totals for run in view.runs)
    causes = _cause_rows(totals)
    timeline = _timeline(view.runs)
    rows: list[Any] = causes
    if by == "object":
        rows = _by_object(view, totals)
    elif by != "cause":
        rows = _by_place(view, by, totals)
    return Stalls(
        recording=str(view.recording.path),
        machine=view.machine_name,
        mode=view.probe.mode,
        cycles=totals["cycles"],
        instructions=totals["instructions"],
        cpi=_ratio(totals["cycles"], totals["instructions"]),
        completion_cycles=totals["completion_cycles"],
        completion_cpi=_ratio(totals["completion_cycles"], totals["instructions"]),
        stall_cycles=totals["stall_cycles"],
        by=by,
        causes=causes,
        sources=_sources(view, totals),
        timeline=timeline,
        phases=phases([(row.cycles, row.instructions, _shape(row)) for row in timeline], SHOWN),
        without=[_gain(view, cause, totals) for cause in without],
        split=_split(view),
        rows=rows,
    )


def _split(view: CoreView) -> Split | None:
    parts = [run.result.in_pieces for run in view.runs if run.result.in_pieces is not None]
    if not parts:
        return None
    difference = sum(part.difference for part in parts)
    compared = sum(part.compared for part in parts)
    checked = sum(part.checked for part in parts)
    return Split(
        parts[0].pieces,
        parts[0].warmup,
        checked,
        compared,
        difference,
        _ratio(difference, compared),
    )


def _cause_rows(totals: dict[str, int]) -> list[CauseRow]:
    return [
        CauseRow(
            cause,
            totals[f"stall_{cause}"],
            _ratio(totals[f"stall_{cause}"], totals["instructions"]),
            _ratio(totals[f"stall_{cause}"], totals["stall_cycles"]),
        )
        for cause in SHOWN
    ]


def _gain(view: CoreView, cause: str, totals: dict[str, int]) -> Gain:
    ideal = view.but(without=(*view.probe.without, cause))
    cycles = sum(run.totals["cycles"] for run in ideal.runs)
    attributed = totals[f"stall_{cause}"]
    cpi = _ratio(cycles, totals["instructions"])
    return Gain(cause, attributed, totals["cycles"] - cycles, cycles, cpi)


def _sources(view: CoreView, totals: dict[str, int]) -> list[SourceRow]:
    sums: dict[str, list[int]] = {}
    for run in view.runs:
        for row in run.table("stall_source").to_pylist():
            entry = sums.setdefault(row["source"], [row["latency"], 0, 0])
            entry[1] += row["misses"]
            entry[2] += row["cycles"]
    return [
        SourceRow(
            source=name,
            misses=misses,
            latency=latency,
            cycles=cycles,
            cpi=_ratio(cycles, totals["instructions"]),
            naive_cycles=latency * misses,
            naive_error=(latency * misses - cycles) / cycles if cycles else None,
        )
        for name, (latency, misses, cycles) in sums.items()
    ]


def _timeline(runs: list[CoreRun]) -> list[TimeRow]:
    """Images one after the other, as if one core had run them in turn."""
    rows, start = [], 0
    for run in runs:
        before = 0
        for _, counts in run.series("time"):
            rows.append(
                TimeRow(
                    start=start + before,
                    cycles=counts["cycles"],
                    instructions=counts["instructions"],
                    completion=counts["completion_cycles"],
                    causes={cause: counts[f"stall_{cause}"] for cause in SHOWN},
                )
            )
            before += counts["cycles"]
        start += before
    return rows


def _shape(row: TimeRow) -> list[float]:
    """CPI by cause, completion last: what phases are told apart by."""
    parts = [*row.causes.values(), row.completion]
    return [_ratio(part, row.instructions or 1) for part in parts]


def _by_object(view: CoreView, totals: dict[str, int]) -> list[StallRow]:
    groups: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for run in view.runs:
        buckets = run.table("bucket").to_pylist()
        sites = site_names(run.recording.table("site"), DEPTH, ())
        for row in run.table("stall_object").to_pylist():
            name = _object_name(buckets[row["bucket"]], sites)
            causes = groups[name]
            cause = NUMBERED[row["cause"]]
            causes[cause] = causes.get(cause, 0) + row["cycles"]
    keyed = (((name, None, None, None, None), causes) for name, causes in groups.items())
    return _rows(keyed, totals)


def _object_name(bucket: dict[str, Any], sites: Mapping[int, str]) -> str:
    if bucket["kind"] == "heap":
        return sites.get(bucket["site"], f"site {bucket['site']}")
    if bucket["kind"] == "stack":
        return "<stack>"
    if bucket["kind"] == "mapping":
        return bucket["name"] or "<anonymous memory>"
    return bucket["name"] or f"<{bucket['kind']}>"


def _by_place(view: CoreView, by: str, totals: dict[str, int]) -> list[StallRow]:
    groups: dict[tuple[Any, ...], dict[str, int]] = collections.defaultdict(dict)
    for run in view.runs:
        places = _Places(run)
        for row in run.table("stall").to_pylist():
            function, file, line = places.of(row["block"], row["address"])
            key: tuple[Any, ...] = (function, function, file, None, None)
            if by == "line":
                key = (f"{file}:{line}" if file else function, function, file, line, None)
            elif by == "instruction":
                key = (f"{row['address']:#x}", function, file, line, row["address"])
            causes = groups[key]
            cause = NUMBERED[row["cause"]]
            causes[cause] = causes.get(cause, 0) + row["cycles"]
    return _rows(groups.items(), totals)


class _Places:
    """Names of instructions: those of the nearest memory operation in front of them in their block,
    or of the block. Recordings name no others."""

    def __init__(self, run: CoreRun) -> None:
        blocks = run.recording.table("block").select(["block", "function", "file", "line"])
        self._blocks = {row["block"]: row for row in blocks.to_pylist()}
        names = ["block", "address", "function", "file", "line"]
        self._operations: dict[int, list[dict[str, Any]]] = collections.defaultdict(list)
        for row in run.recording.table("operation").select(names).to_pylist():
            self._operations[row["block"]].append(row)
        for rows in self._operations.values():
            rows.sort(key=lambda row: row["address"])

    def of(self, block: int, address: int) -> tuple[str, str, int | None]:
        rows = self._operations.get(block, [])
        at = bisect.bisect_right(rows, address, key=lambda row: row["address"])
        near = rows[at - 1] if at > 0 else self._blocks.get(block)
        if near is None:
            return "?", "", None
        return near["function"], near["file"], near["line"]


def _rows(
    groups: Iterable[tuple[tuple[Any, ...], dict[str, int]]], totals: dict[str, int]
) -> list[StallRow]:
    """From (name, function, file, line, address) and cycles by cause."""
    found = []
    for (name, function, file, line, address), causes in groups:
        cycles = sum(causes.values())
        found.append(
            StallRow(
                name=name,
                function=function,
                file=file,
                line=line,
                address=address,
                cycles=cycles,
                cpi=_ratio(cycles, totals["instructions"]),
                share=_ratio(cycles, totals["stall_cycles"]),
                main=max(causes, key=lambda cause: causes[cause]),
                causes={cause: causes[cause] for cause in SHOWN if cause in causes},
            )
        )
    found.sort(key=lambda row: (-row.cycles, row.name))
    return found


def _added(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = collections.Counter()
    for part in parts:
        for name, count in part.items():
            sums[name] += count
    return sums


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
