# SPDX-License-Identifier: Apache-2.0
"""A piece of a trace as work for a worker, and its answer: of a core's run, or of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from stallscope.recording import STREAM
from stallscope.scale.cells import Failure
from stallscope.scale.shard_task import Placed, write_table


class CorePieceTask(msgspec.Struct, frozen=True, tag="core-piece"):
    number: int
    recording: str  # absolute path of a process image
    machine: dict[str, Any]
    core: dict[str, Any]
    options: dict[str, Any]
    piece: tuple[int, int, int, int, int]  # instructions: warm, first, last, after, behind
    placed: list[Placed]


class CorePieceDone(msgspec.Struct, frozen=True, tag="core-piece"):
    number: int
    tables: dict[str, bytes] = {}  # as Arrow writes them
    switch_cycles: int = 0
    truncated: bool = False
    cycles_first: int | None = None  # of the overlap at its beginning
    cycles_behind: int | None = None  # and of that behind its end
    failure: Failure | None = None


class PagePieceTask(msgspec.Struct, frozen=True, tag="page-piece"):
    number: int
    recording: str
    page_size: int
    first: int  # instruction
    last: int


class PagePieceDone(msgspec.Struct, frozen=True, tag="page-piece"):
    number: int
    references: int = 0
    # Numbers of 64 bits.
    curve: bytes = b""
    firsts: bytes = b""
    lasts: bytes = b""
    failure: Failure | None = None


PieceTask = CorePieceTask | PagePieceTask
PieceDone = CorePieceDone | PagePieceDone


def compute_piece(task: PieceTask) -> PieceDone:
    from stallscope import _engine

    stream = str(Path(task.recording) / STREAM)
    if isinstance(task, PagePieceTask):
        try:
            piece = _engine.page_piece(stream, task.page_size, task.first, task.last)
        except _engine.EngineError as error:
            return PagePieceDone(task.number, failure=Failure(*error.args[:2]))
        return PagePieceDone(task.number, **piece)
    return _core(task, stream)


def _core(task: CorePieceTask, stream: str) -> CorePieceDone:
    from stallscope import _engine, tables

    options = {**task.options, "piece": task.piece}
    try:
        found = _engine.stalls(stream, task.machine, task.core, options, task.placed)
    except _engine.EngineError as error:
        return CorePieceDone(task.number, failure=Failure(*error.args[:2]))
    written = {
        name: write_table(tables.to_arrow(name, columns))
        for name, columns in found.pop("tables").items()
    }
    return CorePieceDone(task.number, tables=written, **found)
