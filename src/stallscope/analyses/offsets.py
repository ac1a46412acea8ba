# SPDX-License-Identifier: Apache-2.0
"""Where inside of an object misses fall: at which field of a struct, in which part of an array."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from stallscope.analyses.objects import MissView, Process, added_up
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

WORD, LINE = 8, 64  # bytes
FEW = 64  # places that are shown one by one where they are no fields of a struct


@dataclass(frozen=True)
class OffsetRow:
    object: str
    offset: int  # of the first byte, in the element or the block
    size: int  # bytes
    field: str  # empty when the type is not known
    type: str  # of the field
    function: str | None  # when asked for
    misses: int
    share: float
    latency: int
    latency_share: float
    latency_per_miss: float


@dataclass(frozen=True)
class OffsetObject:
    """What the offsets of one object count from."""

    object: str
    type: str
    type_confidence: float | None
    element_size: int | None  # offsets are within an element of this many bytes
    granule: int  # bytes that are shown together where there are no fields
    by: str  # field, word, line or granule
    blocks: int
    misses: int
    latency: int


@dataclass(frozen=True)
class Offsets(Shown):
    recording: str
    machine: str
    level: str
    region: str | None
    object: str | None
    misses: int
    latency: int
    processes: list[Process]
    objects: list[OffsetObject]
    rows: list[OffsetRow]

    def top(self, most: int, least: float = 0.0) -> tuple[list[OffsetRow], OffsetRow | None]:
        """The first rows, of those with at least this share of the misses or the latency, and what
        the others come to together."""
        shown = [r for r in self.rows if max(r.share, r.latency_share) >= least][:most]
        left = [row for row in self.rows if row not in shown]
        if not left:
            return shown, None
        words = {"object": "", "offset": 0, "size": 0, "type": "", "function": None}
        rest = added_up(left, field=f"{len(left):,} others", **words)
        return shown, replace(rest, latency_per_miss=_ratio(rest.latency, rest.misses))


@dataclass(frozen=True)
class _Place:
    offset: int
    size: int
    field: str
    type: str


_Groups = dict[tuple[str, _Place, str | None], list[int]]  # misses and cycles, by function if asked


def offsets(
    view: MissView, object_name: str | None = None, *, by_function: bool = False
) -> Offsets:
    """Places by latency; in one object when it is given, and by the functions that touch them."""
    counted = [
        row
        for row in view.rows("offset")
        if object_name is None or view.name(row["bucket"]) == object_name
    ]
    if not counted:
        raise _nothing(view, object_name)
    places = _places(view, {row["bucket"] for row in counted})
    groups: _Groups = collections.defaultdict(lambda: [0, 0])
    for row in counted:
        function = view.places.get(row["operation"], ("?",))[0] if by_function else None
        place = places[row["bucket"]].at(row["offset"])
        group = groups[view.name(row["bucket"]), place, function]
        group[0] += row["misses"]
        group[1] += row["latency"]
    rows = _rows(groups)
    return Offsets(
        recording=str(view.replay.recording.path),
        machine=view.replay.result.machine_name,
        level=view.levels[view.event]["name"],
        region=view.region,
        object=object_name,
        misses=sum(row.misses for row in rows),
        latency=sum(row.latency for row in rows),
        processes=view.processes(),
        objects=_objects(view, places, rows),
        rows=rows,
    )


def _rows(groups: _Groups) -> list[OffsetRow]:
    misses = sum(group[0] for group in groups.values())
    latency = sum(group[1] for group in groups.values())
    rows = [
        OffsetRow(
            object=name,
            offset=place.offset,
            size=place.size,
            field=place.field,
            type=place.type,
            function=function,
            misses=missed,
            share=_ratio(missed, misses),
            latency=cycles,
            latency_share=_ratio(cycles, latency),
            latency_per_miss=_ratio(cycles, missed),
        )
        for (name, place, function), (missed, cycles) in groups.items()
    ]
    return sorted(rows, key=lambda r: (-r.latency, -r.misses, r.object, r.offset, r.function or ""))


def _nothing(view: MissView, object_name: str | None) -> StallscopeError:
    if object_name is None:
        return StallscopeError("no access to a block or variable missed")
    if any(view.name(row["bucket"]) == object_name for row in view.buckets):
        return StallscopeError(
            f"it is not known where in {object_name} misses fall",
            "none of its accesses missed, or it is a stack or the allocator's own memory",
        )
    return StallscopeError(
        f"no object is called {object_name}", now="stallscope objects, and copy a name"
    )


class _Places:
    """From the offsets of one bucket to what is shown."""

    def __init__(
        self,
        bucket: dict[str, Any],
        fold: dict[str, Any],
        fields: dict[int, dict[str, Any]],
        offsets: Iterable[int],
    ) -> None:
        self.fields = fields
        self.blocks = bucket["blocks"]
        self.element = max((field["element"] for field in fields.values()), default=0)
        self.element = self.element or fold["period"]
        distinct = {field["start"] for field in fields.values()} or {o // WORD for o in offsets}
        whole = bool(fields) and (bool(self.element) or len(distinct) <= FEW)
        granule = WORD if len(distinct) <= FEW else LINE
        self.granule = max(granule, fold["granule"])
        self.by = "field" if whole and fold["granule"] <= WORD else _unit(self.granule)
        self.first: dict[int, str] = {}
        for offset in sorted(fields):
            self.first.setdefault(offset // self.granule, fields[offset]["name"])

    def at(self, offset: int) -> _Place:
        field = self.fields.get(offset)
        if field is not None and self.by == "field":
            return _Place(field["start"], field["size"], field["name"], field["type"])
        start = offset // self.granule
        name = self.first.get(start, "")
        return _Place(start * self.granule, self.granule, name and f"{name} …", "")


def _unit(granule: int) -> str:
    return {WORD: "word", LINE: "line"}.get(granule, "granule")


def _places(view: MissView, buckets: set[int]) -> dict[int, _Places]:
    folds = {row["bucket"]: row for row in view.replay.table("fold").to_pylist()}
    fields: dict[int, dict[int, dict[str, Any]]] = collections.defaultdict(dict)
    for row in view.replay.table("field").to_pylist():
        fields[row["bucket"]][row["offset"]] = row
    offsets: dict[int, set[int]] = collections.defaultdict(set)
    for row in view.replay.table("offset").select(["bucket", "offset"]).to_pylist():
        offsets[row["bucket"]].add(row["offset"])
    return {
        bucket: _Places(view.buckets[bucket], folds[bucket], fields[bucket], offsets[bucket])
        for bucket in buckets
    }


def _objects(
    view: MissView, places: dict[int, _Places], rows: list[OffsetRow]
) -> list[OffsetObject]:
    guesses = {row["bucket"]: row for row in view.replay.table("type").to_pylist()}
    found: dict[str, OffsetObject] = {}
    sums: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        sums[row.object][0] += row.misses
        sums[row.object][1] += row.latency
    for bucket, place in sorted(places.items()):
        name = view.name(bucket)
        guess = guesses.get(bucket)
        declared = view.buckets[bucket]["type"]
        found.setdefault(
            name,
            OffsetObject(
                object=name,
                type=guess["type"] if guess else declared,
                type_confidence=guess["confidence"] if guess else 1.0 if declared else None,
                element_size=place.element or None,
                granule=place.granule,
                by=place.by,
                blocks=place.blocks,
                misses=sums[name][0],
                latency=sums[name][1],
            ),
        )
    return sorted(found.values(), key=lambda one: (-one.latency, -one.misses, one.object))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
