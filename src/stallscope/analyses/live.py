# SPDX-License-Identifier: Apache-2.0
"""What a program waits for, from samples of a run at native speed: by object, function and line.

The results have the keys of `objects` and `places`; what only a simulated machine knows is None.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from stallscope.analyses.sites import DEPTH, site_names
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from stallscope.analyses.objects import Process
    from stallscope.meta import Meta

STATES = ("memory", "compute", "kernel", "unknown")
NO_ADDRESS = "<address unknown>"
KERNEL, NOWHERE = "<kernel>", "<unknown code>"
Place = tuple[str, str, int | None]  # function, file, line


class Recorded(Protocol):
    """A process image: of a recording, or of a process that is still watched."""

    @property
    def meta(self) -> Meta: ...
    @property
    def path(self) -> Path: ...
    def table(self, name: str) -> pa.Table: ...


@dataclass(frozen=True)
class Found:
    """Samples that have everything in common but their time."""

    state: str
    object: tuple[str, str] | None  # name and kind; None: no address is known
    place: Place
    thread: str
    count: int
    weight: int
    cost: float  # weights, each times its latency where the processor gives it
    confidence: float  # sum over the samples
    latency: int | None


@dataclass(frozen=True)
class StateRow:
    state: str
    samples: int
    share: float


@dataclass(frozen=True)
class ThreadRow:
    thread: str
    samples: int
    memory: int  # of them waiting for it
    share: float  # of all samples


@dataclass(frozen=True)
class LiveObjectRow:
    object: str
    kind: str
    type: str
    type_confidence: float | None
    site: int | None
    blocks: int | None
    bytes: int | None
    misses: None
    sampled: int
    share: float  # of the time waited for memory
    sampled_share: float  # the same: there is nothing exact beside it
    latency: int | None  # cycles, where the processor gives them
    latency_share: float
    latency_per_miss: float | None
    confidence: float  # that its samples were waiting, on average
    bias: None = None


@dataclass(frozen=True)
class LivePlaceRow:
    function: str
    file: str
    line: int | None
    misses: None
    sampled: int  # waiting for memory there
    share: float
    sampled_share: float
    latency: int | None
    latency_share: float
    confidence: float | None  # None: nothing was waiting
    samples: int  # in whatever state
    time_share: float  # of all samples


@dataclass(frozen=True)
class _Live(Shown):
    """What results about samples have in common."""

    recording: str
    source: str
    machine: str
    level: str
    misses: None
    samples: int  # in whatever state
    waiting: int  # of them, for memory
    addressed: int  # of those, with a known address
    lost: int
    period: int  # nanoseconds or events
    seconds: float | None
    confidence: float | None
    states: list[StateRow]
    threads: list[ThreadRow]
    processes: list[Process]
    levels: list[Any]
    region: None


@dataclass(frozen=True)
class LiveObjects(_Live):
    function: str | None
    rows: list[LiveObjectRow]
    seed: None = None
    average_latency: float | None = None
    overhead: None = None
    perturbation: None = None
    sampling: None = None


@dataclass(frozen=True)
class LivePlaces(_Live):
    by: str
    object: str | None
    rows: list[LivePlaceRow]


class LiveView:
    """The samples of the chosen process images of a recording, with names."""

    def __init__(
        self,
        recording: Recorded,
        images: Sequence[Recorded],
        depth: int = DEPTH,
        wrappers: Sequence[str] = (),
        since: int = 0,
    ) -> None:
        """Of the samples since a moment, in nanoseconds from the recording's beginning."""
        self._since = since
        self.recording = recording
        self.images = list(images)
        self.found: list[Found] = []
        self.facts: dict[tuple[str, str], dict[str, Any]] = {}
        for image in self.images:
            self._read(image, depth, wrappers)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        meta = self.recording.meta
        raise StallscopeError(
            f"{self.recording.path.name} holds samples, no misses that could be counted",
            f"it was recorded by --source {meta.source}",
            "stallscope record --source valgrind -- PROGRAM",
        )

    def _read(self, image: Recorded, depth: int, wrappers: Sequence[str]) -> None:
        names = object_names(image, depth, wrappers)
        for name, row in zip(names, image.table("bucket").to_pylist(), strict=True):
            self._add_facts(name, row)
        columns = ("operation", "function", "file", "line")
        places: dict[int | None, Place] = {
            row["operation"]: (row["function"], row["file"], row["line"])
            for row in image.table("operation").select(columns).to_pylist()
        }
        threads = {row["thread"]: row["name"] for row in image.table("thread").to_pylist()}
        for row in _grouped(image, self._since).to_pylist():
            kernel = row["state"] == "kernel"
            unknown: Place = (KERNEL if kernel else NOWHERE, "", None)
            self.found.append(
                Found(
                    state=row["state"],
                    object=None if row["bucket"] is None else names[row["bucket"]],
                    place=places.get(row["operation"], unknown),
                    thread=threads.get(row["thread"], "") or f"thread {row['thread']}",
                    count=row["weight_count"],
                    weight=row["weight_sum"],
                    cost=row["cost_sum"],
                    confidence=row["confidence_sum"],
                    latency=row["latency_sum"],
                )
            )

    def _add_facts(self, key: tuple[str, str], row: dict[str, Any]) -> None:
        of_one = len(self.images) == 1  # else its number says nothing
        facts = self.facts.setdefault(
            key,
            {
                "type": row["type"],
                "type_confidence": 1.0 if row["type"] else None,
                "site": row["site"] if of_one else None,
                "blocks": 0,
                "bytes": 0,
            },
        )
        facts["blocks"] += row["blocks"]
        facts["bytes"] += row["bytes"]

    def common(self) -> dict[str, Any]:
        """Of any result about these samples."""
        from stallscope.analyses.objects import Process

        meta = self.recording.meta
        metas = [image.meta for image in self.images]
        every = sum(f.count for f in self.found)
        waiting = [f for f in self.found if f.state == "memory"]
        count = sum(f.count for f in waiting)
        return {
            "recording": str(self.recording.path),
            "source": meta.source,
            "machine": "this machine",
            "level": "memory",
            "misses": None,
            "samples": every,
            "waiting": count,
            "addressed": sum(f.count for f in waiting if f.object is not None),
            "lost": sum(m.lost_samples for m in metas),
            "period": meta.sample_period,
            "seconds": meta.seconds,
            "confidence": sum(f.confidence for f in waiting) / count if count else None,
            "states": [_state_row(state, self.found, every) for state in STATES],
            "threads": _thread_rows(self.found, every),
            "processes": [Process(m.name, m.pid, list(m.command)) for m in metas],
            "levels": [],
            "region": None,
        }


def _grouped(image: Recorded, since: int) -> Any:
    import pyarrow.compute as pc

    keys = ["state", "bucket", "operation", "thread"]
    samples = image.table("live_sample")
    if since:
        samples = samples.filter(pc.greater_equal(samples["time"], since))
    # A file may give numbers that a double holds only roughly.
    weight, latency = (samples[name].cast("double", safe=False) for name in ("weight", "latency"))
    cost = pc.multiply(weight, pc.fill_null(latency, 1.0))
    sums = [(name, "sum") for name in ("weight", "cost", "confidence", "latency")]
    return (
        samples.append_column("cost", cost).group_by(keys).aggregate([*sums, ("weight", "count")])
    )


def object_names(
    image: Recorded, depth: int = DEPTH, wrappers: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Name and kind of every bucket of an image."""
    sites = site_names(image.table("site"), depth, wrappers)
    return [(name_of(row, sites), row["kind"]) for row in image.table("bucket").to_pylist()]


def name_of(row: dict[str, Any], sites: Any) -> str:
    """Of a bucket."""
    if row["kind"] == "heap":
        return str(sites.get(row["site"], f"site {row['site']}"))
    if row["kind"] == "stack":
        return "<stack>"
    if row["kind"] == "mapping":
        return row["name"] or "<anonymous memory>"
    return str(row["name"])


def _state_row(state: str, found: list[Found], every: int) -> StateRow:
    count = sum(f.count for f in found if f.state == state)
    return StateRow(state, count, count / max(1, every))


def _thread_rows(found: list[Found], every: int) -> list[ThreadRow]:
    sums: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for f in found:
        sums[f.thread][0] += f.count
        sums[f.thread][1] += f.count if f.state == "memory" else 0
    rows = [ThreadRow(name, n, memory, n / max(1, every)) for name, (n, memory) in sums.items()]
    return sorted(rows, key=lambda row: (-row.samples, row.thread))


@dataclass
class _Sums:
    samples: int = 0
    weight: int = 0
    waiting: int = 0
    waiting_weight: int = 0
    waiting_cost: float = 0.0
    confidence: float = 0.0
    latency: int | None = None

    def add(self, found: Found) -> None:
        self.samples += found.count
        self.weight += found.weight
        if found.state != "memory":
            return
        self.waiting += found.count
        self.waiting_weight += found.weight
        self.waiting_cost += found.cost
        self.confidence += found.confidence
        if found.latency is not None:
            self.latency = (self.latency or 0) + found.latency


def _groups(
    found: list[Found], by: Callable[[Found], Any], keep: Callable[[Found], bool]
) -> dict[Any, _Sums]:
    groups: dict[Any, _Sums] = collections.defaultdict(_Sums)
    for f in found:
        if keep(f):
            groups[by(f)].add(f)
    return groups


def live_objects(view: LiveView, function: str | None = None) -> LiveObjects:
    """Objects by the time waited for them; of one function's accesses when it is given."""

    def keep(f: Found) -> bool:
        return f.state == "memory" and (function is None or f.place[0] == function)

    groups = _groups(view.found, lambda f: f.object or (NO_ADDRESS, "unknown"), keep)
    if function is not None and not groups:
        raise StallscopeError(f"no sample waits in a function {function}")
    whole = _whole(groups)
    unknown = dict.fromkeys(("type_confidence", "site", "blocks", "bytes")) | {"type": ""}
    rows = [
        LiveObjectRow(
            object=name,
            kind=kind,
            **(view.facts.get((name, kind)) or unknown),
            **_numbers(sums, whole),
            latency_per_miss=None if sums.latency is None else sums.latency / sums.waiting,
            confidence=sums.confidence / sums.waiting,
        )
        for (name, kind), sums in groups.items()
    ]
    rows.sort(key=lambda row: (-row.latency_share, row.object))
    return LiveObjects(**view.common(), function=function, rows=rows)


def _whole(groups: dict[Any, _Sums]) -> _Sums:
    return _Sums(
        waiting_weight=sum(sums.waiting_weight for sums in groups.values()),
        waiting_cost=sum(sums.waiting_cost for sums in groups.values()),
    )


def _numbers(sums: _Sums, whole: _Sums) -> dict[str, Any]:
    share = sums.waiting_weight / whole.waiting_weight if whole.waiting_weight else 0.0
    return {
        "misses": None,
        "sampled": sums.waiting,
        "share": share,
        "sampled_share": share,
        "latency": sums.latency,
        "latency_share": sums.waiting_cost / whole.waiting_cost if whole.waiting_cost else 0.0,
    }


def live_places(view: LiveView, *, by_line: bool, object_name: str | None = None) -> LivePlaces:
    """Functions or lines by the time waited there; for one object when it is given."""

    def keep(f: Found) -> bool:
        return object_name is None or (f.object or (NO_ADDRESS,))[0] == object_name

    def by(f: Found) -> Place:
        return (f.place[0], f.place[1], f.place[2] if by_line else None)

    groups = _groups(view.found, by, keep)
    if object_name is not None and not groups:
        raise StallscopeError(
            f"no object is called {object_name}", now="stallscope objects, and copy a name"
        )
    whole = _whole(groups)
    every = sum(sums.weight for sums in groups.values())
    rows = [
        LivePlaceRow(
            function=place[0],
            file=place[1],
            line=place[2],
            **_numbers(sums, whole),
            confidence=sums.confidence / sums.waiting if sums.waiting else None,
            samples=sums.samples,
            time_share=sums.weight / max(1, every),
        )
        for place, sums in groups.items()
    ]
    rows.sort(key=lambda row: (-row.latency_share, -row.time_share, row.function, row.line or 0))
    by_word = "line" if by_line else "function"
    return LivePlaces(**view.common(), by=by_word, object=object_name, rows=rows)
