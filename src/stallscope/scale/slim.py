# SPDX-License-Identifier: Apache-2.0
"""Recordings of an agent without what no sample fell into: most of a short look is the names of
variables that nothing was seen to touch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stallscope import meta, tables
from stallscope.recording import Recording

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN = 0  # the bucket of addresses that nothing is known of


def slim(folder: Path) -> None:
    """Leaves only buckets and objects of the samples, under new numbers; all else stays as it is.
    Of a recording that nobody else has seen yet."""
    import pyarrow as pa
    import pyarrow.compute as pc

    recording = Recording(folder)
    samples, buckets, objects = map(recording.table, ("live_sample", "bucket", "object"))
    used = sorted({UNKNOWN, *samples["bucket"].drop_null().unique().to_pylist()})
    numbers = pa.array(used, pa.uint32())
    kept = buckets.filter(pc.is_in(buckets["bucket"], value_set=numbers))
    named = pc.is_in(_names(objects), value_set=_names(kept).combine_chunks())
    changed = {
        "bucket": _renumbered(kept, numbers),
        "object": objects.filter(named),
        "live_sample": _renumbered(samples, numbers),
    }
    facts = recording.meta
    files = dict(facts.files)
    for name, table in changed.items():
        writer = tables.TableWriter(folder / f"{name}.parquet", name)
        writer.append(table)
        writer.close()
        files[writer.path.name] = meta.digest(writer.path)
    meta.write(msgspec.structs.replace(facts, files=files), folder)


def _names(table: pa.Table) -> pa.ChunkedArray:
    """Kind and name, which objects and their bucket have in common."""
    import pyarrow as pa
    import pyarrow.compute as pc

    between = pa.scalar("\0", table["kind"].type)
    return pc.binary_join_element_wise(table["kind"], table["name"], between)


def _renumbered(table: pa.Table, numbers: pa.Array) -> pa.Table:
    """Buckets by their place among those that are left."""
    import pyarrow.compute as pc

    at = table.schema.get_field_index("bucket")
    field = table.schema.field(at)
    places = pc.index_in(table["bucket"], value_set=numbers).cast(field.type)
    return table.set_column(at, field, places)
