# SPDX-License-Identifier: Apache-2.0
"""Misses by level, and why they happened: cold, capacity or conflict."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stallscope.analyses.objects import MissView, Process
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

BY = ("level", "object", "function", "line")
KINDS = ("cold", "capacity", "conflict")
CODE = "<code>"  # misses of instruction fetches


@dataclass(frozen=True)
class Kinds:
    """How many misses of each kind, and their shares; all None where it was not asked for."""

    cold: int | None
    capacity: int | None
    conflict: int | None
    cold_share: float | None
    capacity_share: float | None
    conflict_share: float | None


@dataclass(frozen=True)
class MissLevelRow(Kinds):
    level: str
    kind: str  # cache or tlb
    accesses: int
    misses: int
    miss_ratio: float


@dataclass(frozen=True)
class MissRow(Kinds):
    """Misses of one level, on one object or at one place, or all of them."""

    level: str
    object: str | None
    kind: str | None  # of the object
    function: str | None
    file: str | None
    line: int | None
    misses: int
    share: float  # of the level's misses


@dataclass(frozen=True)
class Misses(Shown):
    recording: str
    machine: str
    region: str | None
    by: str
    classified: bool
    object: str | None  # the accesses to which rows tell of; None: to anything
    processes: list[Process]
    levels: list[MissLevelRow]
    rows: list[MissRow]

    def top(
        self, level: str, most: int, least: float = 0.0
    ) -> tuple[list[MissRow], MissRow | None]:
        """A level's first rows, of those with at least this share of its misses, and what the
        others come to together."""
        rows = [row for row in self.rows if row.level == level]
        shown = [row for row in rows if row.share >= least][:most]
        left = rows[len(shown) :]  # rows of a level are in the order of their shares
        return shown, _others(left, self.classified) if left else None


@dataclass(frozen=True)
class _Part:
    """Misses of one level on one bucket by one operation; both None for fetches."""

    level: int
    bucket: int | None
    operation: int | None
    misses: int
    kinds: tuple[int, int, int]


def misses(
    view: MissView,
    *,
    classify: bool = False,
    by: str | None = None,
    level: str | None = None,
    object_name: str | None = None,
) -> Misses:
    """Rows by misses. By level unless it is asked why, then by object."""
    by = by or ("object" if classify or object_name else "level")
    if by not in BY:
        raise StallscopeError(f"misses by {by} are not known", f"there are: {', '.join(BY)}")
    chosen = view.level_number(level)
    every = [
        part
        for part in (_classified(view) if classify else _plain(view))
        if chosen is None or part.level == chosen
    ]
    totals: dict[int, list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
    groups: dict[tuple[Any, ...], list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
    for part in every:
        _add(totals[part.level], part)
        what = _object(view, part)
        if object_name is None or what[0] == object_name:
            _add(groups[(part.level, *_key(view, part, by, what))], part)
    if object_name is not None and not groups:
        raise StallscopeError(
            f"no object is called {object_name}", now="stallscope objects, and copy a name"
        )
    return Misses(
        recording=str(view.replay.recording.path),
        machine=view.replay.result.machine_name,
        region=view.region,
        by=by,
        classified=classify,
        object=object_name,
        processes=view.processes(),
        levels=[
            _level_row(row, totals[row["level"]], classify)
            for row in view.levels
            if chosen is None or row["level"] == chosen
        ],
        rows=_rows(view, groups, totals, classify),
    )


def _others(rows: list[MissRow], classified: bool) -> MissRow:
    group = [sum(row.misses for row in rows)]
    group += [sum(getattr(row, kind) or 0 for row in rows) for kind in KINDS]
    return MissRow(
        level=rows[0].level,
        object=f"{len(rows):,} others",
        kind="others",
        function=None,
        file=None,
        line=None,
        misses=group[0],
        share=sum(row.share for row in rows),
        **_kinds(group, classified),
    )


def _plain(view: MissView) -> Iterator[_Part]:
    fetches = {row["level"]: row["misses"] for row in view.levels}
    for row in view.rows("miss"):
        fetches[row["level"]] -= row["misses"]
        if row["misses"]:
            yield _Part(row["level"], row["bucket"], row["operation"], row["misses"], (0, 0, 0))
    for level, count in fetches.items():
        if count:
            yield _Part(level, None, None, count, (0, 0, 0))


def _classified(view: MissView) -> Iterator[_Part]:
    for row in view.rows("miss_class"):
        kinds = (row["cold"], row["capacity"], row["conflict"])
        yield _Part(row["level"], row["bucket"], row["operation"], sum(kinds), kinds)


def _add(group: list[int], part: _Part) -> None:
    for i, count in enumerate((part.misses, *part.kinds)):
        group[i] += count


def _object(view: MissView, part: _Part) -> tuple[str, str]:
    if part.bucket is None:
        return (CODE, "code")
    return (view.name(part.bucket), view.buckets[part.bucket]["kind"])


def _key(view: MissView, part: _Part, by: str, what: tuple[str, str]) -> tuple[Any, ...]:
    if by == "level":
        return (None, None, None, None, None)
    if by == "object":
        return (*what, None, None, None)
    unknown = (CODE if part.operation is None else "?", "", None)
    function, file, line = view.places.get(part.operation, unknown)
    return (None, None, function, file, line if by == "line" else None)


def _kinds(group: list[int], classified: bool) -> dict[str, Any]:
    if not classified:
        return {name: None for kind in KINDS for name in (kind, f"{kind}_share")}
    counts = dict(zip(KINDS, group[1:], strict=True))
    return counts | {f"{kind}_share": n / max(1, group[0]) for kind, n in counts.items()}


def _level_row(row: dict[str, Any], group: list[int], classified: bool) -> MissLevelRow:
    return MissLevelRow(
        level=row["name"],
        kind=row["kind"],
        accesses=row["accesses"],
        misses=row["misses"],
        miss_ratio=row["misses"] / max(1, row["accesses"]),
        **_kinds(group, classified),
    )


def _rows(
    view: MissView,
    groups: dict[tuple[Any, ...], list[int]],
    totals: dict[int, list[int]],
    classified: bool,
) -> list[MissRow]:
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -item[1][0], repr(item[0])))
    return [
        MissRow(
            level=view.levels[level]["name"],
            object=name,
            kind=kind,
            function=function,
            file=file,
            line=line,
            misses=group[0],
            share=group[0] / max(1, totals[level][0]),
            **_kinds(group, classified),
        )
        for (level, name, kind, function, file, line), group in ordered
        if group[0]
    ]
