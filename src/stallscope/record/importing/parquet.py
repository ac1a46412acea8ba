# SPDX-License-Identifier: Apache-2.0
"""Accesses in a Parquet file, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope import _engine
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

ORDER = ("address", "size", "kind", "ip", "thread", "time")
BATCH_ROWS = 1 << 16


def columns_of(path: Path) -> Iterator[tuple[float, list[bytes]]]:
    """How far it is, and the bytes of each column in ORDER; empty for one that is not there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        names = _names(path, file.schema_arrow.names)
        rows = file.metadata.num_rows
        if rows == 0:
            raise StallscopeError(f"{path} has no accesses")
        done = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=list(names.values())):
            yield done / rows, [_bytes(path, batch, names, column, done) for column in ORDER]
            done += len(batch)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise StallscopeError(f"{path} is no Parquet file, or damaged", reason) from error


def _names(path: Path, given: list[str]) -> dict[str, str]:
    """The columns that are needed, by what they hold."""
    names: dict[str, str] = {}
    for name in given:
        holds = _engine.access_column(name)
        if holds is None:
            why = f"there is no column {name!r}; known are {_engine.access_columns()}"
            raise StallscopeError(f"{path} cannot be read", why)
        if holds in names:
            raise StallscopeError(f"{path} cannot be read", "two columns mean the same")
        names[holds] = name
    if "address" not in names:
        raise StallscopeError(f"{path} cannot be read", "there is no column address")
    return names


def _bytes(
    path: Path, batch: pa.RecordBatch, names: dict[str, str], column: str, row: int
) -> bytes:
    if column not in names:
        return b""
    values = batch.column(names[column])
    if values.null_count:
        why = f"column {names[column]!r} has an empty field from row {row} on"
        raise StallscopeError(f"{path} cannot be read", why)
    return _kinds(path, values, row) if column == "kind" else _numbers(path, values, column, row)


def _numbers(path: Path, values: Any, column: str, row: int) -> bytes:
    import pyarrow as pa

    try:
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = pa.array([int(text, 0) for text in values.to_pylist()], pa.uint64())
        elif pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
            values = values.cast(pa.int64()).cast(pa.uint64())
        else:
            values = values.cast(pa.uint64())
    except (pa.ArrowException, ValueError, OverflowError) as error:
        why = f"column {column!r} holds something that is no number from row {row} on: {error}"
        raise StallscopeError(f"{path} cannot be read", why) from error
    return _flat(values)


def _kinds(path: Path, values: Any, row: int) -> bytes:
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kinds = {text: _engine.access_kind(str(text)) for text in values.unique().to_pylist()}
    for text, kind in kinds.items():
        if kind is None:
            why = f"{text!r} is no kind, from row {row} on; known are load, store and modify"
            raise StallscopeError(f"{path} cannot be read", why)
    return bytes(kinds[text] for text in values.to_pylist())  # type: ignore[misc]


def _flat(values: Any) -> bytes:
    """The numbers as they lie in memory."""
    start = values.offset * 8
    data: bytes = values.buffers()[1].to_pybytes()[start : start + len(values) * 8]
    return data
