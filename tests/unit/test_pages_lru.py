# SPDX-License-Identifier: Apache-2.0
"""The LRU stack from Python, against a memory that is simulated at every size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope._engine import EngineError, LruStack


def array(pages: Sequence[int]) -> np.ndarray:
    return np.array(pages, dtype=np.uint64)


def lru_misses(pages: Sequence[int], size: int) -> int:
    resident: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for page in pages:
        if page in resident:
            resident.move_to_end(page)
            continue
        misses += 1
        if size == 0:
            continue
        if len(resident) == size:
            resident.popitem(last=False)
        resident[page] = None
    return misses


def curve(pages: Sequence[int]) -> list[int]:
    stack = LruStack()
    stack.append(array(pages))
    return stack.curve().tolist()


@st.composite
def program_like(draw: st.DrawFn) -> list[int]:
    """Loops, sweeps back and clusters one after the other, as programs have them."""
    pages: list[int] = []
    for _ in range(draw(st.integers(1, 5))):
        base, size = draw(st.integers(0, 30)), draw(st.integers(1, 25))
        kind = draw(st.sampled_from(("loop", "back", "cluster")))
        sweep = list(range(base, base + size))
        if kind == "loop":
            pages += sweep * draw(st.integers(1, 4))
        elif kind == "back":
            pages += sweep + sweep[::-1]
        else:
            pages += draw(st.lists(st.integers(base, base + size // 3), max_size=60))
    return pages


@settings(max_examples=60, deadline=None)
@given(program_like() | st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=200))
def test_the_curve_is_a_simulation_at_every_size(pages: list[int]) -> None:
    sizes = range(len(set(pages)) + 1)
    assert curve(pages) == [lru_misses(pages, size) for size in sizes]


def test_a_loop_misses_always_until_it_fits() -> None:
    assert curve(list(range(200)) * 5) == [1000] * 200 + [200]


def test_distances_count_the_other_pages_since() -> None:
    stack = LruStack()
    cold = 2**32 - 1
    assert stack.distances(array([7, 8, 7, 7, 9, 8])).tolist() == [cold, cold, 1, 0, cold, 2]
    assert stack.pages().tolist() == [8, 9, 7]
    assert (stack.references, stack.distinct) == (6, 3)


def test_arrow_and_read_only_arrays_are_taken() -> None:
    frozen = array([1, 2, 1])
    frozen.flags.writeable = False
    stack = LruStack()
    stack.append(frozen)
    stack.append(pa.array([2, 3], pa.uint64()))
    assert stack.curve().tolist() == [5, 5, 3, 3]


def test_epochs_keep_a_history() -> None:
    stack = LruStack(history=1)
    for pages in ([1, 2, 1], [2, 2]):
        stack.append(array(pages))
        stack.end_epoch()
    assert stack.ended_curve().tolist() == [2, 1, 0]
    assert (stack.epochs, stack.kept) == (2, 1)
    with pytest.raises(EngineError, match="there is no epoch 1 back"):
        stack.ended_curve(1)


@pytest.mark.parametrize("wrong", [[1, 2], "pages", None, np.zeros((2, 2), np.uint64)])
def test_what_is_no_array_of_pages_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        LruStack().append(wrong)
