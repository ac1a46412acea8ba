# SPDX-License-Identifier: Apache-2.0
"""Curves besides the exact LRU one: MRU's, those of page groups, and from a sample of the pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pages_naive
import pytest
from benchmarks import pages_traces
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope._engine import (
    EngineError,
    LruStack,
    MruStack,
    ReversedRank,
    groups_around,
    groups_at,
    groups_of,
    sampled_stack,
)

LOOP = np.tile(np.arange(200, dtype=np.uint64), 5)


def array(pages: Sequence[int]) -> np.ndarray:
    return np.array(pages, dtype=np.uint64)


def lru_curve(pages: np.ndarray) -> np.ndarray:
    stack = LruStack()
    stack.append(pages)
    return np.asarray(stack.curve())


REFERENCES = st.lists(st.integers(0, 6) | st.integers(0, 30), max_size=250)


@settings(max_examples=60, deadline=None)
@given(REFERENCES)
def test_mru_has_its_simulations_misses_at_every_size(pages: list[int]) -> None:
    stack = MruStack()
    stack.append(array(pages))
    sizes = range(1, len(set(pages)) + 1)
    assert stack.curve().tolist()[1:] == [pages_naive.mru(pages, size) for size in sizes]


def test_mru_keeps_most_of_a_loop_and_the_reversed_rank_claims_all_of_it() -> None:
    mru, reversed_rank = MruStack(), ReversedRank()
    for stack in (mru, reversed_rank):
        stack.append(LOOP)
    assert reversed_rank.curve().tolist() == [1000] + [200] * 200
    # With 100 frames 99 pages of the loop stay and the last frame serves the rest.
    assert mru.curve()[100] == pages_naive.mru(LOOP.tolist(), 100)
    assert mru.curve()[200] == 200


def test_mru_has_epochs() -> None:
    stack = MruStack()
    stack.append(LOOP)
    stack.end_epoch()
    stack.append(array([7]))
    assert stack.epoch_curve()[200] == 0
    assert stack.ended_curve()[200] == 200
    assert (stack.references, stack.distinct) == (1001, 200)


@settings(max_examples=60, deadline=None)
@given(REFERENCES, st.sets(st.integers(1, 35), min_size=1).map(sorted), st.integers(0, 250))
def test_groups_know_the_curve_where_they_meet(
    pages: list[int], boundaries: list[int], cut: int
) -> None:
    stack = groups_at(boundaries)
    for part in (pages[:cut], pages[cut:]):
        stack.append(array(part))
    exact = lru_curve(array(pages))
    assert stack.misses().tolist() == [exact[min(size, len(exact) - 1)] for size in boundaries]


@settings(max_examples=30, deadline=None)
@given(REFERENCES, REFERENCES, st.sets(st.integers(1, 35), min_size=1).map(sorted))
def test_groups_are_counted_off_anew_when_memory_changes(
    before: list[int], after: list[int], boundaries: list[int]
) -> None:
    stack = groups_at([3, 5])
    stack.append(array(before))
    stack.set_boundaries(boundaries)
    stack.append(array(after))
    exact = LruStack()
    exact.append(array(before))
    exact.end_epoch()
    exact.append(array(after))
    curve = exact.epoch_curve()
    assert stack.misses().tolist() == [curve[min(size, len(curve) - 1)] for size in boundaries]


def test_four_groups_cost_the_same_for_every_reference() -> None:
    stack = groups_around(memory=150, group=20)
    assert stack.boundaries == [130, 150, 170]
    stack.append(LOOP)
    assert stack.misses().tolist() == [1000] * 3
    assert stack.moves <= 3 * stack.references
    assert groups_of(group=50, most=200).boundaries == [50, 100, 150, 200]
    assert groups_around(memory=5, group=20).boundaries == [5, 25]


@pytest.mark.parametrize("boundaries", [[], [0, 3], [4, 4], [5, 3]])
def test_boundaries_must_ascend(boundaries: list[int]) -> None:
    with pytest.raises(EngineError, match="boundaries of page groups"):
        groups_at(boundaries)


def test_groups_of_nothing_are_refused() -> None:
    with pytest.raises(EngineError, match="no pages"):
        groups_around(0, 10)
    with pytest.raises(EngineError, match="groups of 0 pages"):
        groups_of(0, 10)


def mean_error(pages: np.ndarray, **options: float) -> float:
    """Of the miss ratio, over a thousand sizes."""
    exact = lru_curve(pages) / len(pages)
    stack = sampled_stack(**options)
    for part in np.array_split(pages, 7):
        stack.append(part)
    step, misses = stack.curve()
    sizes = np.linspace(0, len(exact) - 1, 1000).astype(int)
    places = np.minimum(-(-sizes // step), len(misses) - 1)
    return float(np.abs(np.asarray(misses)[places] / len(pages) - exact[sizes]).mean())


@pytest.mark.parametrize("trace", [pages_traces.zipf, pages_traces.mixed])
@pytest.mark.parametrize("options", [{"rate": 0.02}, {"rate": 1.0, "most_pages": 4000}])
def test_a_sample_estimates_the_curve(trace: object, options: dict[str, float]) -> None:
    pages = trace(800_000, 200_000)  # type: ignore[operator]
    errors = [mean_error(pages, seed=seed, **options) for seed in (1, 2, 3)]
    assert max(errors) < 0.01


def test_a_sample_of_all_pages_is_exact() -> None:
    pages = pages_traces.mixed(20_000, 1000)
    stack = sampled_stack(rate=1.0)
    stack.append(pages)
    step, misses = stack.curve()
    assert step == 1
    exact = lru_curve(pages)
    assert np.asarray(misses).tolist() == exact[: len(misses)].tolist()
    assert (exact[len(misses) :] == exact[-1]).all()
    assert stack.sampled == stack.references == 20_000


def test_a_fixed_size_is_kept_by_a_sinking_rate() -> None:
    stack = sampled_stack(rate=1.0, most_pages=500)
    stack.append(np.arange(100_000, dtype=np.uint64))
    assert stack.pages <= 500
    assert 0.004 < stack.rate < 0.006
    assert stack.distinct == pytest.approx(100_000, rel=0.05)


@pytest.mark.parametrize("rate", [0.0, -1.0, 1.5, float("nan")])
def test_a_rate_is_above_zero_and_at_most_one(rate: float) -> None:
    with pytest.raises(EngineError, match="a sampling rate"):
        sampled_stack(rate=rate)


def test_an_empty_sample_says_that_all_is_missed_without_memory() -> None:
    stack = sampled_stack(rate=1e-6)
    assert stack.curve()[1].tolist() == [0]
    stack.append(LOOP)
    assert stack.curve()[1][0] == 1000
