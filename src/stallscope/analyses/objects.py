# SPDX-License-Identifier: Apache-2.0
"""Which data misses: exact and sampled misses and latency by stat bucket, function and line."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from stallscope.analyses.code import CodeMisses, code_misses
from stallscope.analyses.live import (
    LiveObjects,
    LivePlaces,
    LiveView,
    live_objects,
    live_places,
)
from stallscope.analyses.regions import numbers
from stallscope.analyses.sampling import Sampling, sampling_of
from stallscope.analyses.sites import DEPTH, site_names
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from stallscope.processes import Replays
    from stallscope.results import Replay

Row = TypeVar("Row", bound="DataclassInstance")
STACK = "<stack>"


@dataclass(frozen=True)
class Process:
    """A process image whose misses are among those counted."""

    name: str
    pid: int
    command: list[str]


@dataclass(frozen=True)
class LevelRow:
    level: str
    kind: str  # cache or tlb
    accesses: int
    misses: int
    hit_ratio: float
    evictions: int
    # None unless the sampling handler touched the caches:
    handler_misses: int | None = None  # its own, in none of the other counts
    undisturbed_misses: int | None = None  # without it


@dataclass(frozen=True)
class ObjectRow:
    object: str
    kind: str
    type: str  # declared, or of heap blocks guessed from the code that uses them
    type_confidence: float | None  # 1 when it is declared; None: no type is known
    site: int | None
    blocks: int
    bytes: int
    misses: int
    sampled: int
    share: float
    sampled_share: float
    latency: int  # cycles of all accesses that missed the first level or the TLB
    latency_share: float
    latency_per_miss: float
    bias: float = 0.0  # sampled_share - share: what sampling overestimates


@dataclass(frozen=True)
class PlaceRow:
    function: str
    file: str
    line: int | None
    misses: int
    sampled: int
    share: float
    sampled_share: float
    latency: int
    latency_share: float


@dataclass(frozen=True)
class Objects(Shown):
    recording: str
    machine: str
    level: str  # whose misses are counted; with ":code" for instructions where both go there
    misses: int
    samples: int
    period: int  # events a sample stands for
    seed: int
    average_latency: float  # of an access that missed the first level
    function: str | None  # whose accesses these are; None: everybody's
    processes: list[Process]
    levels: list[LevelRow]
    rows: list[ObjectRow]
    region: str | None = None  # that the program marked; None: the whole run
    overhead: float | None = None  # of sampling: the handler's share of all cycles
    perturbation: float | None = None  # by sampling: additional misses of the level, relative
    sampling: Sampling | None = None
    source: str = "valgrind"
    confidence: None = None  # everything was counted

    def top(self, most: int, least: float = 0.0) -> tuple[list[ObjectRow], ObjectRow | None]:
        """The first rows, of those with at least this share of the misses or the latency, and what
        the others come to together."""
        shown, left = _first(self.rows, most, least)
        if not left:
            return shown, None
        words = {"kind": "others", "type": "", "type_confidence": None, "site": None}
        rest = added_up(left, object=f"{len(left):,} others", **words)
        return shown, replace(rest, latency_per_miss=_ratio(rest.latency, rest.misses))


@dataclass(frozen=True)
class Places(Shown):
    """Functions or lines, by the misses that their accesses cause."""

    recording: str
    machine: str
    level: str
    misses: int
    samples: int
    by: str  # function or line
    object: str | None  # the accesses to which these are; None: to anything
    processes: list[Process]
    levels: list[LevelRow]
    rows: list[PlaceRow]
    region: str | None = None
    source: str = "valgrind"
    confidence: None = None  # everything was counted

    def top(self, most: int, least: float = 0.0) -> tuple[list[PlaceRow], PlaceRow | None]:
        """The first rows, of those with at least this share of the misses or the latency, and what
        the others come to together."""
        shown, left = _first(self.rows, most, least)
        if not left:
            return shown, None
        return shown, added_up(left, function=f"{len(left):,} others", file="", line=None)


@dataclass(frozen=True)
class _Count:
    bucket: int
    operation: int
    misses: int
    latency: int


@dataclass
class Sums:
    misses: int = 0
    sampled: int = 0
    latency: int = 0
    weight: int = 0  # events that the samples stand for

    def __iadd__(self, other: Sums) -> Sums:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


class MissView:
    """The tables of one replay, or of several together, with names; of one region of the program
    when it is given."""

    def __init__(
        self,
        replay: Replay | Replays,
        depth: int = DEPTH,
        wrappers: Sequence[str] = (),
        *,
        region: str | None = None,
        stack_by_function: bool = False,
    ) -> None:
        self.replay = replay
        self.depth, self.wrappers = depth, wrappers
        self.region = region
        self.stack_by_function = stack_by_function
        regions = replay.table("region").to_pylist() if region is not None else []
        self._inside = None if region is None else numbers(regions, region)
        self.instructions = replay.result.instructions
        self.accesses = replay.result.accesses
        if self._inside is not None:
            inside = [regions[number] for number in self._inside]
            self.instructions = sum(row["instructions"] for row in inside)
            self.accesses = sum(row["accesses"] for row in inside)
        self.levels = self._levels()
        self.event = replay.result.sample_level
        self.buckets = replay.table("bucket").to_pylist()
        self.sites = site_names(replay.recording.table("site"), depth, wrappers)
        operations = replay.recording.table("operation")
        names = ("operation", "function", "file", "line")
        self.places = {
            row["operation"]: (row["function"], row["file"], row["line"])
            for row in operations.select(names).to_pylist()
        }
        self.samples = self.rows("sample")
        self.code = self._code() if replay.result.sample_code else None

    def _code(self) -> CodeMisses:
        """Where instruction misses are the event, functions are what is counted by."""
        blocks, operations = (self.replay.recording.table(name) for name in ("block", "operation"))
        missed, samples = (self.rows(name) for name in ("code_miss", "sample"))
        code = code_misses(blocks, operations, missed, samples, self.event, len(self.buckets))
        self.buckets += code.buckets
        self.places |= code.places
        self.samples = code.samples
        return code

    @property
    def event_name(self) -> str:
        return self.replay.result.probe.event or str(self.levels[self.event]["name"])

    def sampling(self) -> Sampling:
        """Of the whole run, but for the samples, which are those of the region."""
        levels = self.levels if self._inside is None else self.replay.table("level").to_pylist()
        weights = [sample["weight"] for sample in self.samples]
        return sampling_of(self.replay.result, levels, weights)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table's rows, those of the region where it tells regions apart."""
        rows: list[dict[str, Any]] = self.replay.table(table).to_pylist()
        if self._inside is None or (rows and "region" not in rows[0]):
            return rows
        return [row for row in rows if row["region"] in self._inside]

    def _levels(self) -> list[dict[str, Any]]:
        levels: list[dict[str, Any]] = self.replay.table("level").to_pylist()
        if self._inside is None:
            return levels
        counts = ("accesses", "misses", "evictions")
        for level in levels:
            level.update(dict.fromkeys(counts, 0))
        for row in self.rows("region_level"):
            for name in counts:
                levels[row["level"]][name] += row[name]
        return levels

    def level_number(self, name: str | None) -> int | None:
        """Of a level by its name, however it is written."""
        names = [row["name"] for row in self.levels]
        lower = [known.lower() for known in names]
        if name is None or name.lower() in lower:
            return None if name is None else lower.index(name.lower())
        raise StallscopeError(f"the machine has no level {name}", f"it has: {', '.join(names)}")

    def name(self, bucket: int) -> str:
        """Of a bucket; of a stack also the function whose frame it is, when that is wanted."""
        row = self.buckets[bucket]
        if row["kind"] == "heap":
            return self.sites.get(row["site"], f"site {row['site']}")
        if row["kind"] == "stack":
            place = self.places.get(row["operation"]) if self.stack_by_function else None
            return STACK if place is None else f"{STACK} of {place[0]}"
        if row["kind"] == "mapping":
            return row["name"] or "<anonymous memory>"
        return str(row["name"])

    def counts(self) -> list[_Count]:
        """One entry for each bucket and operation: misses of the event's level, all latency."""
        if self.code is not None:
            return [_Count(c.bucket, c.operation, c.misses, c.latency) for c in self.code.counts]
        found: dict[tuple[int, int], list[int]] = {}
        for row in self.rows("miss"):
            entry = found.setdefault((row["bucket"], row["operation"]), [0, 0])
            entry[0] += row["misses"] if row["level"] == self.event else 0
            entry[1] += row["latency"]
        return [_Count(*key, *value) for key, value in found.items()]

    def processes(self) -> list[Process]:
        metas = [image.meta for image in self.replay.images]
        return [Process(meta.name, meta.pid, list(meta.command)) for meta in metas]

    def level_rows(self) -> list[LevelRow]:
        disturbed = self.replay.result.probe.perturb and self._inside is None
        return [
            LevelRow(
                row["name"],
                row["kind"],
                row["accesses"],
                row["misses"],
                1 - row["misses"] / row["accesses"] if row["accesses"] else 0.0,
                row["evictions"],
                row["handler_misses"] if disturbed else None,
                row["undisturbed_misses"] if disturbed else None,
            )
            for row in self.levels
        ]

    def grouped(
        self, by: Callable[[int, int], Hashable], keep: Callable[[int, int], bool]
    ) -> dict[Any, Sums]:
        """What was counted and sampled for each value of by(bucket, operation)."""
        groups: dict[Any, Sums] = collections.defaultdict(Sums)
        for count in self.counts():
            if keep(count.bucket, count.operation):
                group = groups[by(count.bucket, count.operation)]
                group.misses += count.misses
                group.latency += count.latency
        for sample in self.samples:
            if keep(sample["bucket"], sample["operation"]):
                group = groups[by(sample["bucket"], sample["operation"])]
                group.sampled += 1
                group.weight += sample["weight"]
        return groups


@overload
def objects(view: MissView, function: str | None = None) -> Objects: ...
@overload
def objects(view: LiveView, function: str | None = None) -> LiveObjects: ...
def objects(view: MissView | LiveView, function: str | None = None) -> Objects | LiveObjects:
    """Stat buckets by latency; of one function's accesses when it is given."""
    if isinstance(view, LiveView):
        return live_objects(view, function)

    def keep(bucket: int, operation: int) -> bool:
        return function is None or view.places.get(operation, ("",))[0] == function

    def by(bucket: int, operation: int) -> tuple[str, str]:
        return (view.name(bucket), view.buckets[bucket]["kind"])

    groups = view.grouped(by, keep)
    if function is not None and not groups:
        raise StallscopeError(f"no access of a function {function} missed")
    whole = _total(groups.values())
    facts = _bucket_facts(view)
    rows = [
        ObjectRow(
            object=name,
            kind=kind,
            **facts[name, kind],
            misses=sums.misses,
            sampled=sums.sampled,
            share=_ratio(sums.misses, whole.misses),
            sampled_share=_ratio(sums.weight, whole.weight),
            latency=sums.latency,
            latency_share=_ratio(sums.latency, whole.latency),
            latency_per_miss=_ratio(sums.latency, sums.misses),
            bias=_ratio(sums.weight, whole.weight) - _ratio(sums.misses, whole.misses),
        )
        for (name, kind), sums in groups.items()
    ]
    rows.sort(key=lambda row: (-row.latency, -row.misses, row.object))
    result, sampling = view.replay.result, view.sampling()
    return Objects(
        recording=str(view.replay.recording.path),
        machine=result.machine_name,
        level=view.event_name,
        misses=whole.misses,
        samples=whole.sampled,
        period=sampling.period,
        seed=sampling.seed,
        average_latency=_ratio(whole.latency, whole.misses),
        function=function,
        processes=view.processes(),
        levels=view.level_rows(),
        rows=rows,
        region=view.region,
        overhead=sampling.overhead,
        perturbation=sampling.perturbation,
        sampling=sampling,
        source=view.replay.recording.meta.source,
    )


@overload
def places(view: MissView, *, by_line: bool, object_name: str | None = None) -> Places: ...
@overload
def places(view: LiveView, *, by_line: bool, object_name: str | None = None) -> LivePlaces: ...
def places(
    view: MissView | LiveView, *, by_line: bool, object_name: str | None = None
) -> Places | LivePlaces:
    """Functions or lines by latency; of the accesses to one object when it is given."""
    if isinstance(view, LiveView):
        return live_places(view, by_line=by_line, object_name=object_name)

    def keep(bucket: int, operation: int) -> bool:
        return object_name is None or view.name(bucket) == object_name

    def by(_: int, operation: int) -> tuple[str, str, int | None]:
        name, file, line = view.places.get(operation, ("?", "", None))
        return (name, file, line if by_line else None)

    groups = view.grouped(by, keep)
    if object_name is not None and not groups:
        raise StallscopeError(
            f"no object is called {object_name}", now="stallscope objects, and copy a name"
        )
    whole = _total(groups.values())
    rows = [
        PlaceRow(
            function=place[0],
            file=place[1],
            line=place[2],
            misses=sums.misses,
            sampled=sums.sampled,
            share=_ratio(sums.misses, whole.misses),
            sampled_share=_ratio(sums.weight, whole.weight),
            latency=sums.latency,
            latency_share=_ratio(sums.latency, whole.latency),
        )
        for place, sums in groups.items()
    ]
    rows.sort(key=lambda row: (-row.latency, -row.misses, row.function, row.line or 0))
    return Places(
        str(view.replay.recording.path),
        view.replay.result.machine_name,
        view.event_name,
        whole.misses,
        whole.sampled,
        "line" if by_line else "function",
        object_name,
        view.processes(),
        view.level_rows(),
        rows,
        view.region,
        view.replay.recording.meta.source,
    )


def functions(view: MissView | LiveView, object_name: str | None = None) -> Places | LivePlaces:
    return places(view, by_line=False, object_name=object_name)


def lines(view: MissView | LiveView, object_name: str | None = None) -> Places | LivePlaces:
    return places(view, by_line=True, object_name=object_name)


def _total(groups: Iterable[Sums]) -> Sums:
    whole = Sums()
    for group in groups:
        whole += group
    return whole


def _bucket_facts(view: MissView) -> dict[tuple[str, str], dict[str, Any]]:
    facts: dict[tuple[str, str], dict[str, Any]] = {}
    guessed = {row["bucket"]: row for row in view.replay.table("type").to_pylist()}
    of_one = len(view.replay.images) == 1  # else its number says nothing
    for number, row in enumerate(view.buckets):
        key = (view.name(number), row["kind"])
        known = facts.setdefault(
            key,
            {
                "type": row["type"],
                "type_confidence": 1.0 if row["type"] else None,
                "site": row["site"] if of_one else None,
                "blocks": 0,
                "bytes": 0,
            },
        )
        # Where paths that differ further out have one name, their blocks are of one type, or the
        # surest guess is shown.
        if number in guessed and guessed[number]["confidence"] > (known["type_confidence"] or 0):
            known["type"] = guessed[number]["type"]
            known["type_confidence"] = guessed[number]["confidence"]
        known["blocks"] += row["blocks"]
        known["bytes"] += row["bytes"]
    return facts


Shares = TypeVar("Shares", ObjectRow, PlaceRow)


def _first(rows: list[Shares], most: int, least: float) -> tuple[list[Shares], list[Shares]]:
    large = [row for row in rows if max(row.share, row.latency_share) >= least]
    shown = large[:most]
    chosen = set(map(id, shown))
    return shown, [row for row in rows if id(row) not in chosen]


def added_up(rows: Sequence[Row], **words: Any) -> Row:
    """One row for many: `words` for the fields that say what it is, the sum for all others."""
    numbers = [field.name for field in fields(type(rows[0])) if field.name not in words]
    sums = {name: sum(getattr(row, name) for row in rows) for name in numbers}
    return replace(rows[0], **words, **sums)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
