# SPDX-License-Identifier: Apache-2.0
"""Rows without Arrow are those that Arrow would give."""

from __future__ import annotations

import array
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope import tables

CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "i64": "q", "f64": "d"}
BITS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}


def _values(column: tables.Column, count: int) -> st.SearchStrategy[Any]:
    if column.type in ("string", "bytes"):
        texts = st.lists(st.binary(max_size=5), min_size=count, max_size=count)
        return texts.map(_text)
    if column.type == "f64":
        one: st.SearchStrategy[Any] = st.floats(allow_nan=False)
    elif column.type in BITS:
        one = st.integers(0, 2 ** BITS[column.type] - 1)
    else:
        one = st.integers(-(2**31), 2**31 - 1)
    if column.none is not None:
        one |= st.just(column.none)
    numbers = st.lists(one, min_size=count, max_size=count)
    return numbers.map(lambda found: memoryview(array.array(CODES[column.type], found)))


def _text(found: list[bytes]) -> tuple[memoryview, memoryview]:
    offsets = [0]
    for value in found:
        offsets.append(offsets[-1] + len(value))
    return memoryview(array.array("q", offsets)), memoryview(b"".join(found))


@settings(deadline=None)
@given(st.data(), st.sampled_from(["live_sample", "operation", "site"]), st.integers(1, 4))
def test_rows_are_what_arrow_gives(data: st.DataObject, name: str, count: int) -> None:
    declared = tables.schemas().table(name).columns
    columns = {column.name: data.draw(_values(column, count)) for column in declared}
    assert tables.to_rows(name, columns) == tables.to_arrow(name, columns).to_pylist()
