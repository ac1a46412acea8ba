# SPDX-License-Identifier: Apache-2.0
"""One cell of a sweep: what the levels of one machine did with one recording.

A cell is found by the key of a result (recording, machine, probe, version) and kept below
REC/results/cells/. The sweep itself keeps cells, never its workers: one that is killed leaves
nothing behind.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stallscope import __version__, results
from stallscope.errors import StallscopeError
from stallscope.machines import Machine, from_engine
from stallscope.recording import STREAM, Recording
from stallscope.results import Probe

FOLDER = "cells"


class Level(msgspec.Struct, frozen=True):
    name: str
    kind: str  # cache or tlb
    accesses: int
    misses: int
    evictions: int
    # Why it missed; None unless the probe classifies.
    cold: int | None = None
    capacity: int | None = None
    conflict: int | None = None


class Cell(msgspec.Struct, frozen=True):
    """Of all processes of a recording that have a trace."""

    instructions: int
    accesses: int
    levels: tuple[Level, ...]


class Task(msgspec.Struct, frozen=True, tag="cells"):
    """Work for one worker, on this machine or another: a recording on some machines."""

    number: int
    recording: str  # absolute path
    identity: str  # which recording that was when the sweep began
    machines: tuple[dict[str, Any], ...]  # as Machine.to_engine gives them
    classify: bool = False
    version: str = __version__  # of the sweep: another one may count otherwise
    one_pass: bool = False  # all of them at once: they are such as that is exact for


class Failure(msgspec.Struct, frozen=True):
    what: str
    why: str = ""


class Done(msgspec.Struct, frozen=True, tag="cells"):
    """A worker's answer: a cell for each machine, or why there are none."""

    number: int
    cells: tuple[Cell, ...] = ()
    failure: Failure | None = None


def key(recording: Recording, machine: Machine, probe: Probe) -> str:
    return results.key(recording.meta, machine, probe)


def find(recording: Recording, machine: Machine, probe: Probe) -> Cell | None:
    """The cell that an earlier sweep kept, or what a whole replay left."""
    path = _path(recording, machine, probe)
    with suppress(OSError, msgspec.MsgspecError):  # what is damaged is computed again
        return msgspec.json.decode(path.read_bytes(), type=Cell)
    if recording.children or probe.classify:
        return None
    kept = results.known(recording, machine, probe)
    if kept is None:
        return None
    try:
        replay = results.Replay(recording, kept)
        rows = replay.table("level").to_pylist()
    except (StallscopeError, OSError, msgspec.MsgspecError):
        return None
    return Cell(replay.result.instructions, replay.result.accesses, _levels(rows))


def keep(recording: Recording, machine: Machine, probe: Probe, cell: Cell) -> None:
    """In one step, so that a cell that is there is whole."""
    path = _path(recording, machine, probe)
    try:
        path.parent.mkdir(exist_ok=True, parents=True, mode=0o700)
        handle, fresh = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(msgspec.json.encode(cell))
            Path(fresh).replace(path)
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StallscopeError(
            f"cannot keep what was computed in {path.parent}", error.strerror or ""
        ) from error


def _path(recording: Recording, machine: Machine, probe: Probe) -> Path:
    return recording.path / results.FOLDER / FOLDER / f"{key(recording, machine, probe)}.json"


def _levels(rows: Sequence[dict[str, Any]]) -> tuple[Level, ...]:
    names = ("name", "kind", "accesses", "misses", "evictions")
    return tuple(Level(**{name: row[name] for name in names}) for row in rows)


def compute(task: Task) -> Done:
    """What a worker does. Whatever a user can cause is in the answer."""
    try:
        if task.version != __version__:
            raise StallscopeError(
                f"the worker has stallscope {__version__}", f"the sweep has {task.version}"
            )
        recording = _open(task)
        images = [image for image in recording.processes() if image.meta.trace]
        if not images:
            raise StallscopeError(
                f"{recording.path.name} has no trace to replay", "it was recorded without --trace"
            )
        return Done(task.number, tuple(_cells(task, images)))
    except StallscopeError as error:
        return Done(task.number, failure=Failure(error.what, error.why))
    except OSError as error:
        return Done(task.number, failure=Failure(f"cannot read {task.recording}", str(error)))


def _open(task: Task) -> Recording:
    path = Path(task.recording)
    if not path.exists():
        raise StallscopeError(f"there is no recording {path}", "it was there when the sweep began")
    recording = Recording(path)
    if results.identity(recording.meta) != task.identity:
        raise StallscopeError(f"{path} is another recording now")
    return recording


def _cells(task: Task, images: Sequence[Recording]) -> list[Cell]:
    if task.one_pass:
        parts = [_passed(image, task.machines) for image in images]
        return [_sum(same) for same in zip(*parts, strict=True)]
    alone = [_replayed(image, machine, task) for machine in task.machines for image in images]
    each = len(images)
    return [_sum(alone[i : i + each]) for i in range(0, len(alone), each)]


def _passed(image: Recording, documents: Sequence[dict[str, Any]]) -> list[Cell]:
    """All machines in one pass over the trace."""
    from stallscope import _engine

    machines = [from_engine(document, "design") for document in documents]
    try:
        found = _engine.replay_designs(
            str(image.path / STREAM), [machine.to_engine() for machine in machines]
        )
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    cells = []
    for machine, counted in zip(machines, found["machines"], strict=True):
        cells.append(Cell(found["instructions"], found["accesses"], _named(machine, counted)))
    return cells


def _named(machine: Machine, counts: Iterable[tuple[int, int, int]]) -> tuple[Level, ...]:
    names = [(cache.name, "cache") for cache in machine.caches]
    names += [(tlb.name, "tlb") for tlb in machine.tlbs]
    return tuple(Level(*name, *counted) for name, counted in zip(names, counts, strict=True))


def _replayed(image: Recording, document: dict[str, Any], task: Task) -> Cell:
    from stallscope import _engine

    machine = from_engine(document, "design")
    probe = Probe(classify=task.classify)
    options = {**results.engine_options(machine, probe), "alone": True}
    try:
        found = _engine.replay(str(image.path / STREAM), machine.to_engine(), options, [])
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    columns = found["tables"]["level"]  # Arrow would take longer to load than a short replay
    counts = zip(*(columns[name] for name in ("accesses", "misses", "evictions")), strict=True)
    levels = _named(machine, counts)
    if task.classify:
        from stallscope import tables

        rows = tables.to_arrow("miss_class", found["tables"]["miss_class"]).to_pylist()
        levels = _classified(levels, rows)
    return Cell(found["instructions"], found["accesses"], levels)


def _classified(levels: Sequence[Level], rows: Sequence[dict[str, Any]]) -> tuple[Level, ...]:
    sums = [dict.fromkeys(("cold", "capacity", "conflict"), 0) for _ in levels]
    for row in rows:
        for name in sums[row["level"]]:
            sums[row["level"]][name] += row[name]
    return tuple(
        msgspec.structs.replace(level, **more) for level, more in zip(levels, sums, strict=True)
    )


def _sum(cells: Sequence[Cell]) -> Cell:
    if len(cells) == 1:
        return cells[0]
    levels = [
        msgspec.structs.replace(
            same[0],
            **{
                name: sum(getattr(level, name) for level in same)
                for name in ("accesses", "misses", "evictions", "cold", "capacity", "conflict")
                if getattr(same[0], name) is not None
            },
        )
        for same in zip(*(cell.levels for cell in cells), strict=True)
    ]
    return Cell(sum(c.instructions for c in cells), sum(c.accesses for c in cells), tuple(levels))
