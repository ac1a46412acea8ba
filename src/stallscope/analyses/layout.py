# SPDX-License-Identifier: Apache-2.0
"""Where heap blocks should lie instead, so that those which evict each other no longer do.

Large blocks of malloc tend to begin at the same place of a page, so that arrays which are used
together meet in the same sets; they are to begin apart from each other. Small blocks have headers,
and other sites' blocks between them; they are to lie together.

A prediction compares the misses of a replay with those of one whose blocks were moved as the policy
says, and with those of a recording that was made under it.

What this cannot see: which blocks are used together at one time, as evictions are counted over the
whole run; and blocks of C++'s new, whose site the preloaded library does not know.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stallscope.analyses.objects import MissView
from stallscope.showing import Shown

if TYPE_CHECKING:
    import pyarrow as pa

LINES = 64  # of a page
LARGE = 4096  # bytes of a block from which on it is moved apart from others
DENSER = 0.85  # small blocks lie together where that takes at most this part of malloc's bytes
LEAST = 0.01  # share of a level's evictions or misses from which a site is worth it
MALLOCS = {"malloc", "calloc", "realloc"}


@dataclass(frozen=True)
class LayoutRow:
    object: str
    site: int
    module: str  # build id
    offset: int  # of the return address in it
    blocks: int
    bytes: int
    share: float  # of the level's evictions (large blocks) or misses (small ones)
    line: int | None  # where in a page the first block begins
    step: int | None  # lines further for each block after it
    packed: bool


@dataclass(frozen=True)
class Change:
    """Misses as recorded, as predicted with blocks moved, and as recorded with blocks placed."""

    before: int
    predicted: int
    ratio: float | None  # predicted over before; None where there were none
    confirmed: int | None = None  # None unless it was recorded again
    error: float | None = None  # of the prediction, over what was confirmed


@dataclass(frozen=True)
class LevelChange(Change):
    level: str = ""


@dataclass(frozen=True)
class ObjectChange(Change):
    """Of the layout's level."""

    object: str = ""
    kind: str = ""
    placed: bool = False


AnyChange = TypeVar("AnyChange", bound=Change)


@dataclass(frozen=True)
class Native:
    """Processor time of runs without a recorder, the plain one and the placed one in turns."""

    runs: int
    plain: float  # seconds, median
    placed: float
    ratio: float  # placed over plain: the median over pairs, and its quartiles
    low: float
    high: float


@dataclass(frozen=True)
class Layout(Shown):
    recording: str
    machine: str
    level: str
    rows: list[LayoutRow]
    moved_blocks: int | None = None  # None unless it was predicted
    levels: list[LevelChange] = field(default_factory=list)
    objects: list[ObjectChange] = field(default_factory=list)
    native: Native | None = None


def layout(view: MissView) -> Layout:
    """What to place, large blocks first."""
    addresses = _addresses(view)
    heap = [b for b in view.buckets if b["kind"] == "heap" and b["site"] in addresses]
    large = {b["bucket"]: b for b in heap if b["bytes"] >= LARGE * b["blocks"]}
    small = {b["bucket"]: b for b in heap if b["blocks"] and _denser(b["bytes"] // b["blocks"])}
    rows = [*_apart(view, large, addresses), *_together(view, small, addresses)]
    name = view.levels[view.event]["name"]
    path, machine = str(view.replay.recording.path), view.replay.result.machine_name
    return Layout(path, machine, name, _once(rows) if len(view.replay.images) > 1 else rows)


def _once(rows: list[LayoutRow]) -> list[LayoutRow]:
    """Processes of one program have the same sites; the one that suffers most says where to."""
    first: dict[tuple[str, str, int, bool], LayoutRow] = {}
    for row in rows:
        first.setdefault((row.object, row.module, row.offset, row.packed), row)
    return list(first.values())


def _denser(size: int) -> bool:
    """Whether blocks of this size share lines better without malloc's headers. The near allocator
    lets none cross a line; malloc gives at least 32 bytes, in steps of 16."""
    if not 0 < size <= 64:
        return False
    together = 64 / (64 // ((size + 7) // 8 * 8))
    return together <= DENSER * max(32, (size + 8 + 15) // 16 * 16)


def predicted(made: Layout, before: MissView, after: MissView) -> Layout:
    """With misses before and after blocks were moved."""
    levels = [
        LevelChange(
            before=row["misses"],
            predicted=moved["misses"],
            ratio=_over(moved["misses"], row["misses"]),
            level=row["name"],
        )
        for row, moved in zip(before.levels, after.levels, strict=True)
    ]
    sites = {row.object for row in made.rows}
    old, new = _misses(before, made.level), _misses(after, made.level)
    objects = [
        ObjectChange(
            before=old[name, kind],
            predicted=new[name, kind],
            ratio=_over(new[name, kind], old[name, kind]),
            object=name,
            kind=kind,
            placed=kind == "heap" and name in sites,
        )
        for name, kind in {**old, **new}
    ]
    objects.sort(key=lambda row: (-row.before, -row.predicted, row.object))
    moved_blocks = after.replay.result.moved_blocks
    return replace(made, moved_blocks=moved_blocks, levels=levels, objects=objects)


def confirmed(made: Layout, placed: MissView, native: Native | None) -> Layout:
    """A prediction beside what a recording under the policy, and native runs, showed."""
    by_level = {row["name"]: row["misses"] for row in placed.levels}
    by_object = _misses(placed, made.level)
    levels = [_confirmed(row, by_level[row.level]) for row in made.levels]
    objects = [_confirmed(row, by_object[row.object, row.kind]) for row in made.objects]
    return replace(made, levels=levels, objects=objects, native=native)


def _confirmed(row: AnyChange, found: int) -> AnyChange:
    ratio = _over(row.predicted, found)
    return replace(row, confirmed=found, error=None if ratio is None else ratio - 1)


def _over(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _misses(view: MissView, level: str) -> collections.Counter[tuple[str, str]]:
    """By name and kind of object."""
    number = next(n for n, row in enumerate(view.levels) if row["name"] == level)
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for row in view.replay.table("miss").to_pylist():
        if row["level"] == number:
            bucket = row["bucket"]
            found[view.name(bucket), view.buckets[bucket]["kind"]] += row["misses"]
    return found


class _Recorded(Protocol):
    def table(self, name: str) -> pa.Table: ...


def return_addresses(recording: _Recorded) -> dict[int, tuple[str, int]]:
    """Build id and offset of the innermost return address of each allocation site."""
    modules = {row["module"]: row for row in recording.table("module").to_pylist()}
    found: dict[int, tuple[str, int]] = {}
    for row in recording.table("site").to_pylist():
        module = modules.get(row["module"])
        if row["depth"] == 0 and module and module["build_id"]:
            # What is recorded is an address within the call instruction, one below its end.
            found[row["site"]] = (module["build_id"], row["address"] - module["bias"] + 1)
    return found


def _addresses(view: MissView) -> dict[int, tuple[str, int]]:
    """Those of the sites that call malloc, calloc or realloc."""
    recording = view.replay.recording
    objects = recording.table("object").select(["site", "allocator"]).to_pylist()
    wanted = {row["site"] for row in objects if row["allocator"] in MALLOCS}
    every = return_addresses(recording)
    return {site: address for site, address in every.items() if site in wanted}


def _apart(
    view: MissView, large: dict[int, dict[str, Any]], addresses: dict[int, tuple[str, int]]
) -> list[LayoutRow]:
    weights: collections.Counter[int] = collections.Counter()
    everything = 0
    for row in view.replay.table("eviction").to_pylist():
        if row["level"] != view.event:
            continue
        everything += row["count"]
        if row["victim"] in large and row["culprit"] in large:
            weights[row["victim"]] += row["count"]
    chosen = [b for b, count in weights.most_common() if count >= LEAST * everything]
    blocks = sum(min(large[bucket]["blocks"], LINES) for bucket in chosen)
    rows, before = [], 0
    for bucket in chosen:
        # Blocks take turns over the page as if they all were one site's.
        line, step = before * LINES // blocks % LINES, max(LINES // blocks, 1) % LINES
        before += min(large[bucket]["blocks"], LINES)
        rows.append(
            _row(view, large[bucket], addresses, weights[bucket] / everything, line, step, False)
        )
    return rows


def _together(
    view: MissView, small: dict[int, dict[str, Any]], addresses: dict[int, tuple[str, int]]
) -> list[LayoutRow]:
    misses: collections.Counter[int] = collections.Counter()
    for count in view.counts():
        misses[count.bucket] += count.misses
    everything = max(misses.total(), 1)
    return [
        _row(view, small[bucket], addresses, count / everything, None, None, True)
        for bucket, count in misses.most_common()
        if bucket in small and count >= LEAST * everything
    ]


def _row(
    view: MissView,
    bucket: dict[str, Any],
    addresses: dict[int, tuple[str, int]],
    share: float,
    line: int | None,
    step: int | None,
    packed: bool,
) -> LayoutRow:
    module, offset = addresses[bucket["site"]]
    name = view.name(bucket["bucket"])
    blocks, size = bucket["blocks"], bucket["bytes"]
    return LayoutRow(name, bucket["site"], module, offset, blocks, size, share, line, step, packed)
