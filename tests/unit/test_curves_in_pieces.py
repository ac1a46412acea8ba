# SPDX-License-Identifier: Apache-2.0
"""LRU curves split in time against the stack over everything."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.scale.curves import curve_in_pieces


def whole(pages: pa.Array) -> list[int]:
    stack = _engine.LruStack()
    stack.append(pages)
    return [int(count) for count in stack.curve()]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=300), st.integers(1, 70), st.integers(1, 2))
def test_pieces_of_a_trace_give_the_curve_of_the_whole(
    pages: list[int], pieces: int, jobs: int
) -> None:
    column = pa.array(pages, pa.uint64())
    assert curve_in_pieces(column, pieces, jobs) == whole(column)


def test_no_pieces_are_refused() -> None:
    with pytest.raises(StallscopeError):
        curve_in_pieces(pa.array([1], pa.uint64()), 0)
