# SPDX-License-Identifier: Apache-2.0
"""Tables as the schemas declare them, between the engine's columns, Arrow and Parquet."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import _engine
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

# What the engine hands out for one table: {column: memoryview or (offsets, bytes)}.
Columns = Mapping[str, Any]


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str
    meaning: str
    unit: str
    none: int | None


class Table(msgspec.Struct, frozen=True):
    meaning: str
    columns: tuple[Column, ...]


class Schemas(msgspec.Struct, frozen=True):
    format_version: int
    stream_version: int
    choices: dict[str, dict[str, int]]
    tables: dict[str, Table]  # of every recording
    captured: dict[str, Table]  # besides, of some by the capture tool
    sampled: dict[str, Table]  # besides, of a recording at native speed
    results: dict[str, Table]  # of a replay through a machine
    on_request: dict[str, Table]  # made and kept when somebody asks

    def table(self, name: str) -> Table:
        every = (self.tables, self.captured, self.sampled, self.results, self.on_request)
        return next(group[name] for group in every if name in group)


@functools.cache
def schemas() -> Schemas:
    path = Path(_engine.__file__).with_name("schemas.json")
    return msgspec.json.decode(path.read_bytes(), type=Schemas)


@functools.cache
def arrow_schema(table: str) -> pa.Schema:
    import pyarrow as pa

    types = {
        "u8": pa.uint8(),
        "u16": pa.uint16(),
        "u32": pa.uint32(),
        "u64": pa.uint64(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "f64": pa.float64(),
        "string": pa.large_string(),
        "bytes": pa.large_binary(),
    }
    return pa.schema(
        [
            pa.field(c.name, types[c.type], nullable=c.none is not None)
            for c in schemas().table(table).columns
        ]
    )


def _text(column: tuple[memoryview, memoryview], kind: Any) -> pa.Array:
    import pyarrow as pa

    offsets, data = column
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(kind, len(offsets) - 1, buffers)
    if kind == pa.large_binary():
        return array
    try:
        array.validate(full=True)
        return array
    except pa.ArrowInvalid:  # names are bytes to the kernel; what is no text is shown escaped
        raw = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
        cleaned = [value.as_py().decode("utf-8", "backslashreplace") for value in raw]
        return pa.array(cleaned, kind)


def to_arrow(table: str, columns: Columns) -> pa.Table:
    """The engine's columns as an Arrow table, without copies; "no value" becomes null.

    Not with pyarrow.compute: importing it takes longer than writing a small recording.
    """
    import pyarrow as pa

    schema = arrow_schema(table)
    arrays = []
    for column, field in zip(schemas().table(table).columns, schema, strict=True):
        data = columns[column.name]
        if isinstance(data, tuple):
            arrays.append(_text(data, field.type))
            continue
        valid = None if column.none is None else _engine.valid_bits(data, column.none)
        buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(data)]
        arrays.append(pa.Array.from_buffers(field.type, len(data), buffers))
    return pa.Table.from_arrays(arrays, schema=schema)


def to_rows(table: str, columns: Columns) -> list[dict[str, Any]]:
    """The same as rows, without Arrow, which takes a quarter of a second to import: for who looks
    at a few of them while a program waits."""
    wanted = schemas().table(table).columns
    values = (_plain(columns[column.name], column) for column in wanted)
    names = [column.name for column in wanted]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _plain(data: Any, column: Column) -> list[Any]:
    if not isinstance(data, tuple):
        return [None if value == column.none else value for value in data.tolist()]
    offsets, bytes_ = data[0].tolist(), bytes(data[1])
    found = [bytes_[begin:end] for begin, end in itertools.pairwise(offsets)]
    if column.type == "bytes":
        return found
    return [value.decode("utf-8", "backslashreplace") for value in found]


def memory_of(column: pa.Array) -> Any:
    """Of a column of numbers without nulls, as it lies there; for the engine."""
    width = column.type.bit_width // 8
    begin = column.offset * width
    whole: Any = memoryview(column.buffers()[1])
    return whole[begin : begin + len(column) * width].cast({1: "B", 4: "I", 8: "Q"}[width])


class TableWriter:
    """Appends to one Parquet file, with page checksums."""

    def __init__(self, path: Path, table: str) -> None:
        import pyarrow.parquet as pq

        self.path = path
        kinds = {column.name: column.type for column in schemas().table(table).columns}
        large = [name for name, kind in kinds.items() if kind in ("u64", "i64")]
        # Addresses, times and counts hardly repeat, but are near each other: a dictionary of them
        # costs time and space. Text has few values; least and greatest ones help nobody there.
        self._writer = pq.ParquetWriter(
            path,
            arrow_schema(table),
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in kinds if name not in large],
            column_encoding=dict.fromkeys(large, "DELTA_BINARY_PACKED"),
            write_statistics=[
                name for name, kind in kinds.items() if kind not in ("string", "bytes")
            ],
            write_page_checksum=True,
        )

    def append(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        """After a failed write. Arrow would try to write again when the object goes."""
        with contextlib.suppress(OSError):
            self._writer.close()
        self._writer.is_open = False


def read(path: Path, table: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_table(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise StallscopeError(
            f"{path} is damaged", str(error), "record the program again"
        ) from error
    if found.schema.remove_metadata() != arrow_schema(table):
        raise StallscopeError(f"{path} does not have the columns of table {table}")
    return found
