# SPDX-License-Identifier: Apache-2.0
"""Everything that a fleet says in one plain document, from which its page is made: what is waited
for by program and object, how that went from day to day, builds, and what changed from each build
to the next."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from stallscope import __version__
from stallscope.analyses.fleet import BuildRow, DiffRow, FleetDiff, FleetTop, TopRow
from stallscope.errors import StallscopeError
from stallscope.scale import fleet
from stallscope.scale.fleet_folder import is_fleet, opened

SCHEMA = "stallscope.fleet/1"
ROWS = 3000  # of a table
PROGRAMS = 30  # whose objects and changes are told, those that wait most
PAIRS = 3  # of builds of a program that follow each other, the latest
LINES = 8  # programs of the picture over time
ID = 12  # characters of a build id in a sentence

Piece = dict[str, Any]


def fleet_report(folder: str | Path = fleet.FOLDER, *, limit: int = ROWS) -> dict[str, Any]:
    """At most `limit` rows of each table; 0 for all."""
    top = fleet.top(folder)
    most = limit or 10**9
    told = [row.program for row in top.rows[:PROGRAMS]]
    objects = _objects(folder, told)
    builds = fleet.builds(folder).rows
    changes = [
        fleet.diff(old, new, folder, program=program)
        for program in told
        for old, new in _pairs(builds, program)
    ]
    left = [
        f"{len(rows) - most:,} of {len(rows):,} {what}"
        for what, rows in (("programs", top.rows), ("objects", objects), ("builds", builds))
        if len(rows) > most
    ]
    if len(top.rows) > PROGRAMS:
        left.append(f"objects and changes of all but {PROGRAMS} programs")
    return {
        "schema": SCHEMA,
        "stallscope": __version__,
        "fleet": Path(folder).resolve().name,
        "hosts": top.hosts,
        "recordings": top.recordings,
        "first_day": top.first_day,
        "last_day": top.last_day,
        "wait": sum(row.wait for row in top.rows),
        "verdict": _verdict(top, objects, changes),
        "programs": _plain(top.rows[:most]),
        "objects": objects[:most],
        "days": _days(folder, told[:LINES]),
        "builds": _plain(builds[:most]),
        "changes": [change_document(one) for one in changes],
        "left_out": left,
    }


def change_document(one: FleetDiff) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found | {"fleet": Path(one.fleet).resolve().name}


def _plain(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(row) for row in rows]


def _objects(folder: str | Path, programs: Sequence[str]) -> list[dict[str, Any]]:
    """Of these programs: how long all hosts waited for each, and the interval over hosts."""
    of_hosts = {
        (program, row.object): row
        for program in programs
        for row in fleet.objects(program, folder).rows
    }
    found = []
    for row in fleet.top(folder, by="object").rows:
        name = row.object or ""
        more = of_hosts.get((row.program, name))
        if more is not None:
            interval = {"kind": more.kind, "low": more.low, "high": more.high}
            found.append(msgspec.to_builtins(row) | interval)
    return found


def _pairs(builds: Iterable[BuildRow], program: str) -> list[tuple[str, str]]:
    """Builds of a program that follow each other, by their first days."""
    own = sorted((row.first_day, row.build) for row in builds if row.program == program)
    return list(pairwise([build for _, build in own]))[-PAIRS:]


def _days(folder: str | Path, programs: Sequence[str]) -> dict[str, Any]:
    """Shares of its time that each program waited, by day; None where it was not looked at."""
    with opened(folder) as base:
        rows = base.execute(
            """SELECT day, program, sum(samples) / greatest(sum(every), 1) FROM f
               WHERE object IS NULL GROUP BY ALL ORDER BY ALL"""
        ).fetchall()
    days = sorted({day for day, _, _ in rows})
    shares = {(day, program): share for day, program, share in rows}
    return {
        "days": days,
        "programs": [
            {"program": program, "shares": [shares.get((day, program)) for day in days]}
            for program in programs
        ],
    }


def _text(words: str) -> Piece:
    return {"kind": "text", "text": words}


def _object(name: str) -> Piece:
    return {"kind": "object", "name": name, "text": name}


def _verdict(
    top: FleetTop, objects: Sequence[Mapping[str, Any]], changes: Sequence[FleetDiff]
) -> dict[str, Any]:
    """What matters most, in sentences."""
    if not top.rows or not top.rows[0].wait:
        return {"headline": [_text("No program of this fleet waits for memory.")], "sentences": []}
    sentences = [_of_objects(top.rows[0], objects), _of_changes(changes)]
    return {
        "headline": [
            _text(
                f"{top.rows[0].program} waits most: {top.rows[0].share:.0%} of all waiting for "
                f"memory, {top.rows[0].of_time:.0%} of its own time."
            )
        ],
        "sentences": [pieces for pieces in sentences if pieces],
    }


def _of_objects(row: TopRow, objects: Sequence[Mapping[str, Any]]) -> list[Piece]:
    own = [one for one in objects if one["program"] == row.program]
    if not own:
        return []
    words = f" takes {own[0]['of_time']:.0%} of its time, on {own[0]['hosts']:,} of {row.hosts:,}"
    return [_object(own[0]["object"]), _text(f"{words} {_hosts(row.hosts)}.")]


def _hosts(count: int) -> str:
    return "host" if count == 1 else "hosts"


def _of_changes(changes: Sequence[FleetDiff]) -> list[Piece]:
    worse = [(row, one.after) for one in changes for row in one.rows if row.verdict == "worse"]
    if not worse:
        if not changes:
            return [_text("Every program has one build only: there is nothing to compare.")]
        return [_text("No build is worse than the one before it, beyond chance.")]
    row, build = max(worse, key=lambda pair: pair[0].change)
    return [
        _text(f"Worse since {row.since}, with build {build[:ID]} of {row.program}: "),
        _object(row.object),
        _text(f" takes {row.after:.1%} of its time, {row.before:.1%} before{_there(row)}."),
    ]


def _there(row: DiffRow) -> str:
    if not row.changed or row.ratio_there is None:
        return ""
    return f", {row.ratio_there:.1f} times on {row.changed:,} of {row.hosts:,} {_hosts(row.hosts)}"


class FleetDesk:
    """Answers for one fleet, to the server. Methods may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        if not is_fleet(folder):
            raise StallscopeError(f"{folder} is no fleet", now="stallscope fleet ingest")
        self.folder = folder
        self._busy = threading.Lock()
        self._made: tuple[tuple[tuple[str, int], ...], dict[str, Any]] | None = None

    def report(self) -> dict[str, Any]:
        """Made anew when files of the fleet are others."""
        with self._busy:
            state = tuple(_state(self.folder))
            if self._made is None or self._made[0] != state:
                self._made = (state, fleet_report(self.folder))
            return self._made[1]

    def diff(self, program: str, before: str, after: str) -> dict[str, Any]:
        with self._busy:
            return change_document(fleet.diff(before, after, self.folder, program=program))


def _state(folder: Path) -> Iterable[tuple[str, int]]:
    for path in sorted(folder.glob("day=*/program=*/build=*/*.parquet")):
        with contextlib.suppress(OSError):
            yield str(path), path.stat().st_mtime_ns
