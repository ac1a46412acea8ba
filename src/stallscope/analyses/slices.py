# SPDX-License-Identifier: Apache-2.0
"""Prefetch slices of a recording's delinquent loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from stallscope.analyses.loads import Limits, LoadRow, Loads, loads, recorded_code
from stallscope.analyses.objects import MissView
from stallscope.showing import Shown
from stallscope.slicing.slice import Flows, Slice, cut
from stallscope.slicing.text import c_of, lines_of
from stallscope.slicing.trace import Declined, Trace, connect

MOST = 10  # slices


@dataclass(frozen=True)
class SliceLine:
    address: int
    role: str
    text: str
    note: str
    line: int | None  # of the source


class SliceRow(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    pc: int
    function: str
    file: str
    line: int | None
    kind: str
    share: float  # of all misses by loads, of the loads that it prefetches
    loads: list[int]
    trace_steps: int
    kept_steps: int
    cells: int
    shadowed: int
    runs_a_visit: float
    grown: list[str]
    reason: str  # why there is none; empty when there is one
    assembly: list[SliceLine]
    c: str | None


@dataclass(frozen=True)
class Slices(Shown):
    recording: str
    machine: str
    level: str
    misses: int | None
    share: float  # of the misses, of loads that have a slice
    rows: list[SliceRow]


@dataclass(frozen=True)
class Made:
    """A slice with the load that it was made for."""

    row: LoadRow
    share: float
    slice: Slice | None
    trace: Trace | None
    reason: str


FlowsOf = Callable[[Trace], Flows]


def make(
    view: MissView, flows: FlowsOf, limits: Limits | None = None, most: int = MOST
) -> tuple[Loads, list[Made]]:
    """Slices of delinquent loads, most misses first; a load on the trace of an earlier one is
    prefetched by that one's slice."""
    limits = limits or Limits()
    found = loads(view, limits)
    code = recorded_code(view)
    shares = {row.pc: row.share for row in found.rows}
    made: list[Made] = []
    covered: set[int] = set()
    for row in found.delinquent:
        if row.pc in covered or row.delinquent != "primary" or len(made) >= most:
            continue
        trace = connect(code, row.pc, limits.least)
        if isinstance(trace, Declined):
            made.append(Made(row, row.share, None, None, trace.reason))
            continue
        others = [one.pc for one in found.delinquent if one.pc in trace.steps]
        slice_ = cut(trace, [at for at in others if at not in covered], flows(trace))
        if isinstance(slice_, Declined):
            made.append(Made(row, row.share, None, trace, slice_.reason))
            continue
        covered |= slice_.loads
        made.append(Made(row, sum(shares[at] for at in slice_.loads), slice_, trace, ""))
    return found, made


def slices(
    view: MissView, flows: FlowsOf, limits: Limits | None = None, most: int = MOST
) -> Slices:
    found, made = make(view, flows, limits, most)
    rows = view.replay.recording.table("operation").select(["address", "line"]).to_pylist()
    lines = {row["address"]: row["line"] for row in rows}
    return Slices(
        found.recording,
        found.machine,
        found.level,
        found.misses,
        sum(one.share for one in made if one.slice),
        [_row(one, lines) for one in made],
    )


def _row(one: Made, lines: dict[int, int | None]) -> SliceRow:
    made, trace = one.slice, one.trace
    return SliceRow(
        one.row.pc,
        one.row.function,
        one.row.file,
        one.row.line,
        one.row.kind,
        one.share,
        sorted(made.loads) if made else [],
        len(trace.steps) if trace else 0,
        len(made.kept) if made else 0,
        len(made.cells) if made else 0,
        len(made.shadowed) if made else 0,
        trace.per_visit if trace else 0.0,
        list(trace.grown) if trace else [],
        one.reason,
        [
            SliceLine(line.address, line.role, line.text, line.note, lines.get(line.address))
            for line in (lines_of(made) if made else [])
        ],
        c_of(made) if made else None,
    )
