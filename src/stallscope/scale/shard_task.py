# SPDX-License-Identifier: Apache-2.0
"""A shard of a replay as work for a worker, and its answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope.errors import StallscopeError
from stallscope.machines import from_engine
from stallscope.recording import STREAM
from stallscope.scale.cells import Failure

if TYPE_CHECKING:
    import pyarrow as pa

Placed = tuple[str, str, str, int, int]


class ShardTask(msgspec.Struct, frozen=True, tag="shard"):
    number: int
    recording: str  # absolute path of a process image
    machine: dict[str, Any]
    shards: int
    shard: int
    evictions: bool
    others: bytes  # levels that others missed, a byte for each crossing access
    placed: list[Placed]


class ShardDone(msgspec.Struct, frozen=True, tag="shard"):
    number: int
    levels: tuple[tuple[int, int, int], ...] = ()  # accesses, misses, evictions
    missed: bytes = b""
    instructions: int = 0
    accesses: int = 0
    absent: int = 0
    fetched: int = 0
    tables: dict[str, bytes] = {}  # as Arrow writes them
    failure: Failure | None = None


def compute_shard(task: ShardTask) -> ShardDone:
    from stallscope import _engine, tables

    try:
        machine = from_engine(task.machine, "machine")
        found = _engine.replay_shard(
            str(Path(task.recording) / STREAM),
            machine.to_engine(),
            task.shards,
            task.shard,
            task.evictions,
            task.others,
            task.placed,
        )
    except (StallscopeError, _engine.EngineError) as error:
        return ShardDone(task.number, failure=Failure(*error.args[:2]))
    written = {
        name: write_table(tables.to_arrow(name, columns))
        for name, columns in found.pop("tables").items()
    }
    return ShardDone(task.number, tables=written, **found)


def write_table(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_table(data: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()
