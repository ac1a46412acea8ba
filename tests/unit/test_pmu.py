# SPDX-License-Identifier: Apache-2.0
"""Groups of events, orders of slices, and estimates from what was counted."""

from __future__ import annotations

import itertools
import random

import pytest

from stallscope import StallscopeError
from stallscope.analyses import estimators, pmu
from stallscope.analyses.counters import plan, trust
from stallscope.analyses.estimators import Seen
from stallscope.counting import events, known_events

KNOWN = known_events()
NAMES = [name for name, _, _ in KNOWN]


def test_there_are_at_least_forty_events_with_a_meaning_and_a_counter() -> None:
    rows = events("ppc970").rows
    assert len(rows) >= 40
    assert {"bus_busy", "miss_cycles"} <= {row.event for row in rows}
    for row in rows:
        assert row.meaning
        assert row.counters or row.event in pmu.FIXED


def fewest(allowed: dict[str, list[int]], counters: int) -> int:
    """By trying everything."""
    names = list(allowed)
    for count in itertools.count(1):
        for choice in itertools.product(*(allowed[name] for name in names)):
            loads = [choice.count(c) for c in range(counters)]
            if max(loads) <= count:
                return count
    raise AssertionError


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_the_fewest_and_without_conflicts(seed: int) -> None:
    draw = random.Random(seed)
    counters = draw.randint(1, 4)
    allowed = {
        f"e{i}": sorted(draw.sample(range(counters), draw.randint(1, counters)))
        for i in range(draw.randint(1, 7))
    }
    rows = [pmu.EventRow(name, "", "", where) for name, where in allowed.items()]
    groups = pmu.group(rows, list(allowed), counters + len(pmu.FIXED))
    assert len(groups) == fewest(allowed, counters)
    assert sorted(event for group in groups for event in group) == sorted(allowed)
    for group in groups:
        assert len(set(group.values())) == len(group)
        assert all(counter in allowed[event] for event, counter in group.items())


def test_all_events_fit_into_ten_groups_on_eight_counters() -> None:
    made = plan(KNOWN, ["all"], 8)
    assert made.ratio == len(made.groups) == 10
    assert made.round == 10 * 200_000
    assert {event for group in made.groups for event in group.events} == set(NAMES) - set(pmu.FIXED)


def test_rare_events_share_groups_with_longer_slices() -> None:
    rates = {name: 1.0 if name.startswith("stall") else 1e-4 for name in NAMES}
    made = plan(KNOWN, ["all"], 8, rates=rates)
    spans = [group.span * made.unit for group in made.groups]
    assert set(spans) == {200_000, 500_000}
    for group, span in zip(made.groups, spans, strict=True):
        common = any(rates[event] * 100 >= 1 for event in group.events)
        assert span == (200_000 if common else 500_000)
    assert made.round == sum(spans)


def test_every_round_has_all_groups_in_an_order_of_its_own() -> None:
    made = plan(KNOWN, ["all"], 8, ratio=12)
    orders = pmu.orders(made.groups, 50, 7)
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert set(orders[0]) == {group.group for group in made.groups}
    assert len({tuple(order) for order in orders}) > 45
    assert pmu.orders(made.groups, 50, 7) == orders
    assert pmu.orders(made.groups, 50, 8) != orders


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"events": ["l1d_load_mises"]}, "there is no event 'l1d_load_mises'"),
        ({"counters": 0}, "0 counters cannot count"),
        ({"counters": 2}, "2 counters leave none for events"),
        ({"ratio": 3}, "groups do not fit into a round of 3 slices"),
        ({"ratio": 0}, "is longer than the round"),
        ({"slice_length": 0}, "is too short"),
        ({"by": "seconds"}, "slices cannot be measured in 'seconds'"),
    ],
)
def test_an_impossible_plan_gets_its_sentence(words: dict[str, object], sentence: str) -> None:
    given = {"events": ["all"], "counters": 8} | words
    with pytest.raises(StallscopeError) as error:
        plan(KNOWN, given.pop("events"), given.pop("counters"), **given)
    assert sentence in error.value.what


def test_an_unknown_event_lists_near_names() -> None:
    with pytest.raises(StallscopeError) as error:
        pmu.choose(["mispredict"], NAMES)
    assert "mispredicts" in error.value.why


def made_up(seed: int, rounds: int = 60, ratio: int = 10) -> tuple[dict, dict, dict]:
    """Two phases that alternate, in which events come at other rates; their truth beside them."""
    draw = random.Random(seed)
    slices = rounds * ratio
    fast = [(i // 35) % 2 == 0 for i in range(slices)]
    exposures = {
        "cycles": [1000.0] * slices,
        "instructions": [(1500.0 if f else 500.0) + draw.gauss(0, 20) for f in fast],
    }
    rates = {"mispredicts": (100, 20), "direction_mispredicts": (80, 10), "target_mispredicts": 0}
    truth: dict[str, list[float]] = {"direction_mispredicts": [], "target_mispredicts": []}
    for f in fast:
        truth["direction_mispredicts"].append(max(0, round(draw.gauss(80 if f else 10, 5))))
        truth["target_mispredicts"].append(max(0, round(draw.gauss(20 if f else 10, 3))))
    parts = zip(*truth.values(), strict=True)
    truth["mispredicts"] = [a + b for a, b in parts]
    order = [[*range(ratio)] for _ in range(rounds)]
    for one in order:
        draw.shuffle(one)
    turn = {event: number for number, event in enumerate(rates)}
    seen = {}
    for event, number in turn.items():
        at = [r * ratio + order[r].index(number) for r in range(rounds)]
        seen[event] = Seen(at, [truth[event][i] for i in at])
    return seen, exposures, truth


def by_round(counts: list[float], ratio: int = 10) -> list[float]:
    return [sum(counts[i : i + ratio]) for i in range(0, len(counts), ratio)]


@pytest.mark.parametrize("seed", range(5))
def test_what_uses_more_is_nearer_to_the_truth(seed: int) -> None:
    seen, exposures, truth = made_up(seed)
    distances = {}
    for name in estimators.NAMES:
        found = estimators.estimate(name, seen, exposures, 10)
        distances[name] = sum(
            estimators.kl(by_round(truth[event]), one.rounds) for event, one in found.items()
        )
        for event, one in found.items():
            assert min(one.rounds) >= 0
            assert abs(one.total() - sum(truth[event])) <= 1.5 * one.half_width()
    assert distances["invariants"] < distances["linear"]


def test_parts_never_exceed_their_whole() -> None:
    seen, exposures, _ = made_up(3)
    found = estimators.estimate("invariants", seen, exposures, 10)
    parts = [found["direction_mispredicts"], found["target_mispredicts"]]
    for i, whole in enumerate(found["mispredicts"].rounds):
        assert sum(part.rounds[i] for part in parts) <= whole * (1 + 1e-9) + 1e-6


def test_equal_slices_are_estimated_exactly() -> None:
    exposures = {"cycles": [100.0] * 40, "instructions": [50.0] * 40}
    seen = {"loads": Seen([1, 13, 28, 35], [7.0] * 4)}
    for name in estimators.NAMES:
        one = estimators.estimate(name, seen, exposures, 10)["loads"]
        assert one.rounds == pytest.approx([70.0] * 4)


def test_the_distance_is_none_for_equal_shapes_and_finite_for_zeros() -> None:
    assert estimators.kl([10, 20, 30], [10, 20, 30]) == pytest.approx(0)
    assert 0 < estimators.kl([10, 0, 30], [0, 0, 40]) < 10
    # Worked by hand: (3.5, 0.5)/4 against (2, 2)/4 -> 0.875 log2 1.75 + 0.125 log2 0.25.
    assert estimators.kl([3, 0], [1.5, 1.5]) == pytest.approx(0.875 * 0.8073549 - 0.25)


def test_a_count_that_cannot_be_trusted_says_how_much_longer_to_run() -> None:
    assert trust(1000, 100) == ""
    assert trust(1000, 300) == "±30%: run 4 times as long"
    assert trust(0, 0) == "never seen"
