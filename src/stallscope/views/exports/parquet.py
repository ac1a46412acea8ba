# SPDX-License-Identifier: Apache-2.0
"""One row for each line of code and object, as a Parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stallscope.analyses.export import Export


def render(export: Export) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    words, numbers = ("function", "file", "object", "kind"), ("line", "misses", "latency")
    columns = {
        name: pa.array([_text(getattr(spot, name)) for spot in export.spots], pa.string())
        for name in words
    } | {
        name: pa.array([getattr(spot, name) for spot in export.spots], pa.int64())
        for name in numbers
    }
    sink = pa.BufferOutputStream()
    about = {"stallscope.machine": export.machine, "stallscope.misses": export.misses_unit}
    table = pa.table(columns).replace_schema_metadata(about)
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def _text(text: str) -> str:
    return text.encode(errors="replace").decode()
