# SPDX-License-Identifier: Apache-2.0
"""A trace in pieces of time, each by a worker of its own.

An LRU curve of pages comes out exactly (curves.py says how). A core does not: a piece begins with
an empty pipeline and an untrained predictor, so it runs some instructions before its first one to
warm up, which are not counted; and all that comes before those goes through its caches and TLBs
alone. What that leaves is measured: each piece runs on behind its end, and what the next one took
for the same instructions is compared. The first piece has nothing before it that it could lack, so
behind its end it is the run in one piece; it is half as long as the others, and goes on through
half of the second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from stallscope.errors import StallscopeError
from stallscope.recording import Recording
from stallscope.scale.piece_task import CorePieceDone, CorePieceTask, PagePieceDone, PieceTask
from stallscope.scale.pool import Pool
from stallscope.scale.shard_task import Placed, read_table

if TYPE_CHECKING:
    import pyarrow as pa

WARMUP = 1_000_000  # instructions
END = 2**63  # behind every trace
Done = TypeVar("Done", CorePieceDone, PagePieceDone)

# Of the tables that pieces add up: what tells rows apart, and how the other columns become one.
SUMMED = {
    "stall": (["block", "address", "cause"], ["cycles", "executions"]),
    "stall_object": (["bucket", "cause"], ["cycles"]),
    "stall_source": (["source", "latency"], ["misses", "cycles"]),
}


class InPieces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a core's run was split, and what that cost in exactness."""

    pieces: int
    warmup: int  # instructions before each
    checked: int  # instructions of the second piece, by the first as a run in one piece has them
    overlap: int  # instructions that other pieces and those before them both timed
    compared: int  # cycles of the overlaps, as the earlier pieces have them
    difference: int  # cycles that the later ones took more or less, added up


def ends(instructions: int, pieces: int) -> list[tuple[int, int]]:
    """Pieces about as long as each other; the last goes on to the end, wherever that is."""
    if pieces < 1:
        raise StallscopeError(f"{pieces} pieces", "a trace is cut into 1 or more")
    cuts = [instructions * i // pieces for i in range(pieces)]
    return list(pairwise([*cuts, END]))


def answers(tasks: Sequence[PieceTask], jobs: int | None, kind: type[Done]) -> list[Done]:
    """In the order of the tasks."""
    found: dict[int, Done] = {}
    pool = Pool(jobs or len(os.sched_getaffinity(0)))
    with closing(pool.run(list(tasks))) as done:
        for one in done:
            if one.failure is not None or not isinstance(one, kind):
                what = one.failure.what if one.failure else "a worker answered nothing"
                raise StallscopeError(what, one.failure.why if one.failure else "")
            found[one.number] = one
    return [found[number] for number in range(len(tasks))]


def core_in_pieces(
    recording: Recording,
    machine: dict[str, Any],
    core: dict[str, Any],
    options: dict[str, Any],
    placed: list[Placed],
    *,
    pieces: int,
    warmup: int = WARMUP,
    jobs: int | None = None,
) -> dict[str, Any]:
    """As the engine's stalls, and `in_pieces`: how far it is exact."""
    checked = (recording.meta.instructions or 0) // (2 * pieces - 1)
    overlap = min(warmup, checked)
    firsts = [0, *(checked * (2 * i - 1) for i in range(1, pieces))]
    both = [0, checked, *[overlap] * (pieces - 2), 0]  # at the beginning of each, and at the end
    tasks = [
        CorePieceTask(
            number,
            str(recording.path.resolve()),
            machine,
            core,
            options,
            (max(0, first - warmup), first, last, both[number], both[number + 1]),
            placed,
        )
        for number, (first, last) in enumerate(pairwise([*firsts, END]))
    ]
    done = answers(tasks, jobs, CorePieceDone)
    timed = [
        (before.cycles_behind, after.cycles_first)
        for before, after in pairwise(done)
        if before.cycles_behind is not None and after.cycles_first is not None
    ]
    told = InPieces(
        pieces,
        warmup,
        checked,
        overlap,
        sum(behind for behind, _ in timed),
        sum(abs(first - behind) for behind, first in timed),
    )
    return {
        "tables": {name: _table(name, done) for name in done[0].tables},
        "switch_cycles": sum(one.switch_cycles for one in done),
        "truncated": any(one.truncated for one in done),
        "in_pieces": told,
    }


def _table(name: str, done: Sequence[CorePieceDone]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if name == "bucket":  # numbered as events of memory come, which all read; the last read all
        return read_table(done[-1].tables[name])
    parts = [read_table(one.tables[name]) for one in done]
    if name == "core_count":
        return _counts(parts)
    schema = parts[0].schema
    keys, counts = SUMMED[name]
    if name == "stall":
        executions = _sum(pa.concat_tables([_executions(p) for p in parts]), keys[:2])
        summed = _sum(pa.concat_tables([p.drop_columns(["executions"]) for p in parts]), keys)
        summed = summed.filter(pc.greater(summed["cycles"], 0)).join(executions, keys[:2])
    else:
        summed = _sum(pa.concat_tables(parts), keys)
    if name != "stall_source":  # whose rows are in the order of the machine
        summed = summed.sort_by([(key, "ascending") for key in keys])
    return summed.select(keys + counts).cast(schema)


def _executions(part: pa.Table) -> pa.Table:
    """How often each instruction was executed, which every row of it says."""
    executed = part.group_by(["block", "address"]).aggregate([("executions", "max")])
    return executed.rename_columns(["block", "address", "executions"])


def _sum(table: pa.Table, keys: list[str]) -> pa.Table:
    counts = [name for name in table.column_names if name not in keys]
    summed = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in counts])
    return summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])


def _counts(parts: Sequence[pa.Table]) -> pa.Table:
    """Totals and threads added up; times one after the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = parts[0].schema
    times, began = [], 0
    for part in parts:
        rows = part.filter(pc.equal(part["series"], "time"))
        number = pc.add(rows["number"], pa.scalar(began, pa.uint32()))
        times.append(rows.set_column(1, schema.field(1), number))
        began += len(pc.unique(rows["number"]))
    rest = [part.filter(pc.is_in(part["series"], pa.array(["total", "thread"]))) for part in parts]
    summed = _sum(pa.concat_tables(rest), ["series", "number", "thread", "event"])
    order = [("series", "descending"), ("number", "ascending"), ("event", "ascending")]
    whole = summed.sort_by(order).select(schema.names).cast(schema)
    total = pc.equal(whole["series"], "total")
    return pa.concat_tables([whole.filter(total), *times, whole.filter(pc.invert(total))])
