# SPDX-License-Identifier: Apache-2.0
"""The arithmetic from reuse times to misses, against closed forms and brute force."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analyses.survival import (
    Interval,
    Survival,
    evicted_after,
    filled_after,
    inverse_chances,
    mixture,
    product_limit,
)

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=40)


@given(LENGTHS)
def test_without_open_intervals_it_is_the_plain_share(lengths: list[int]) -> None:
    survival = product_limit(Interval(length, False) for length in lengths)
    for time in range(52):
        longer = sum(length > time for length in lengths) / len(lengths)
        assert survival.at(time) == pytest.approx(longer)


def test_open_intervals_count_until_they_were_given_up() -> None:
    # A textbook's: deaths at 1 and 3, one lost from sight at 2.
    survival = product_limit([Interval(1, False), Interval(2, True), Interval(3, False)])
    assert survival.at(0.5) == 1
    assert survival.at(1) == pytest.approx(2 / 3)
    assert survival.at(2.5) == pytest.approx(2 / 3)
    assert survival.at(3) == 0


@given(LENGTHS, st.integers(1, 50))
def test_what_was_given_up_is_never_taken_for_short(lengths: list[int], allowed: int) -> None:
    """Waiting for the same time everywhere: right up to there, and flat behind."""
    whole = product_limit(Interval(length, False) for length in lengths)
    seen = product_limit(Interval(min(length, allowed), length > allowed) for length in lengths)
    for time in range(52):
        assert seen.at(time) == pytest.approx(whole.at(min(time, allowed)))


def test_those_that_never_end_stay() -> None:
    survival = product_limit([Interval(1, False), Interval(2, False)], never=0.25)
    assert survival.at(5) == pytest.approx(0.25)
    assert survival.shortest(0.5) == 2
    assert survival.shortest(0.9) is None


def test_groups_have_their_weights() -> None:
    short, long = Survival((1.0,), (0.0,)), Survival((10.0,), (0.0,))
    mixed = mixture([(3, short), (1, long)])
    assert [mixed.at(t) for t in (0, 1, 9, 10)] == pytest.approx([1, 0.25, 0.25, 0])


def test_late_touches_stand_for_those_that_were_given_up() -> None:
    # Of four watches two wait for 1 and two for 10; one touch came after 5, where half still wait.
    assert inverse_chances([0.5, 5], [1, 1, 10, 10]) == [1, 2]


@given(st.integers(2, 200), st.integers(1, 400))
def test_a_circle_misses_all_or_nothing(cells: int, size: int) -> None:
    """A circle through n cells misses every time in less than n, and never in n."""
    survival = product_limit([Interval(cells, False)])
    kept = evicted_after(filled_after(survival, 1.0, 1000.0), size)
    if kept is None:
        assert size > cells
    else:
        assert survival.at(kept) == (1 if size < cells else 0)


def test_random_places_miss_as_often_as_they_are_not_there() -> None:
    """Of n cells at random, a cache of c holds each with the chance c/n."""
    cells = 1000
    times = [-cells * math.log(1 - (i + 0.5) / 4000) for i in range(4000)]
    survival = product_limit(Interval(t, False) for t in times)
    points = filled_after(survival, 1.0, 1e9)
    for size in (100, 250, 500, 900):
        kept = evicted_after(points, size)
        assert kept is not None
        assert survival.at(kept) == pytest.approx(1 - size / cells, abs=0.01)
