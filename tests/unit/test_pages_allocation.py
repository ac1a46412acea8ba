# SPDX-License-Identifier: Apache-2.0
"""Sharing memory among regions and programs."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from benchmarks import pages_traces
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope._engine import EngineError, LruStack, allocate, pools, replacement

EPOCH = 20_000


def curve(pages: np.ndarray) -> np.ndarray:
    stack = LruStack()
    stack.append(pages)
    return np.asarray(stack.curve())


def at(misses: np.ndarray, size: int) -> int:
    return int(misses[min(size, len(misses) - 1)])


def array(*misses: int) -> np.ndarray:
    return np.array(misses, np.uint64)


def falling(most: int = 60) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.integers(0, most), min_size=1, max_size=20).map(
        lambda drops: array(*np.cumsum(drops[::-1])[::-1].tolist(), 0)
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(falling(), min_size=1, max_size=3), st.integers(3, 15))
def test_fewest_misses_are_those_of_all_ways_to_share(
    curves: list[np.ndarray], memory: int
) -> None:
    def total(sizes: tuple[int, ...]) -> int:
        return sum(at(c, size) for c, size in zip(curves, sizes, strict=True))

    ways = itertools.product(range(1, memory + 1), repeat=len(curves))
    best = min(total(sizes) for sizes in ways if sum(sizes) == memory)
    found = allocate("fewest", curves, memory, group=1)
    assert sum(found) == memory
    assert total(tuple(found)) == best
    greedy = allocate("throughput", curves, memory, group=1)
    assert sum(greedy) == memory
    assert best <= total(tuple(greedy))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(falling(), min_size=2, max_size=4),
    st.integers(4, 60),
    st.sampled_from(("throughput", "equal", "service")),
)
def test_memory_is_shared_out_to_the_last_page(
    curves: list[np.ndarray], memory: int, way: str
) -> None:
    sizes = allocate(way, curves, memory, group=1, levels=[20.0] * len(curves))
    assert sum(sizes) == memory
    assert min(sizes) >= 1


def test_the_greedy_way_follows_benefit_and_penalty() -> None:
    steep, flat = array(100, 90, 80, 70, 60, 50, 40), array(30, 29, 28, 27, 26)
    assert allocate("throughput", [steep, flat], 6, group=1) == [5, 1]
    # A step that one group does not reach is not seen: the original's way has that weakness.
    step = array(100, 100, 100, 100, 100, 0)
    assert allocate("throughput", [step, flat], 6, group=1) == [2, 4]
    assert allocate("fewest", [step, flat], 6, group=1) == [5, 1]


def test_equal_rates_meet_at_a_line() -> None:
    one = np.linspace(1000, 0, 101).astype(np.uint64)
    other = np.linspace(2000, 0, 101).astype(np.uint64)
    sizes = allocate("equal", [one, other], 120)
    assert abs(at(one, sizes[0]) - at(other, sizes[1])) <= 20
    # Twice the priority: half of the misses.
    sizes = allocate("equal", [one, one], 100, priorities=[2.0, 1.0])
    assert at(one, sizes[0]) * 2 == pytest.approx(at(one, sizes[1]), abs=20)
    # A rate is per reference here: the second has ten times as many.
    sizes = allocate("equal", [one, one], 100, per=[1000.0, 10_000.0])
    assert at(one, sizes[0]) * 10 == pytest.approx(at(one, sizes[1]), abs=100)


def test_service_levels_are_kept_by_priority_while_memory_lasts() -> None:
    line = np.linspace(1000, 0, 101).astype(np.uint64)
    assert allocate("service", [line, line], 120, levels=[300.0, 800.0])[0] >= 70
    scarce = allocate("service", [line, line], 80, levels=[300.0, 300.0], priorities=[1.0, 2.0])
    assert scarce == [10, 70]


@pytest.mark.parametrize(
    ("way", "options", "message"),
    [
        ("fair", {}, "there is no way of allocating called fair"),
        ("throughput", {"memory": 1}, "a memory of 1 pages for 2"),
        ("equal", {"priorities": [1.0]}, "1 numbers for 2 curves"),
        ("equal", {"priorities": [1.0, 0.0]}, "a rate per nothing"),
        ("fewest", {"group": 0}, "groups of 0 pages"),
        ("throughput", {"group": 0}, "groups of 0 pages"),
    ],
)
def test_what_cannot_be_shared_is_refused(way: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        allocate(way, [array(3, 2, 1)] * 2, **{"memory": 10, **options})


def together(*programs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In turns, a reference each."""
    pages = np.stack(programs, axis=1).reshape(-1)
    owners = np.tile(np.arange(len(programs), dtype=np.uint32), len(programs[0]))
    return pages, owners


def run(memory: int, programs: tuple[np.ndarray, ...], **options: Any) -> list[dict[str, Any]]:
    shared = pools(len(programs), memory, epoch=EPOCH, **options)
    shared.append(*together(*programs))
    return shared.states()


LOOP = np.resize(np.arange(3000), 200_000).astype(np.uint64)
POPULAR = pages_traces.zipf(200_000, 4000)


def test_global_sharing_is_lru_over_all() -> None:
    states = run(1000, (LOOP, POPULAR), sharing="global")
    order: OrderedDict[tuple[int, int], None] = OrderedDict()
    misses = [0, 0]
    for i, pair in enumerate(zip(LOOP.tolist(), POPULAR.tolist(), strict=True)):
        for pool, page in enumerate(pair):
            key = (pool, page)
            if key in order:
                order.move_to_end(key)
                continue
            misses[pool] += 1
            if len(order) == 1000:
                order.popitem(last=False)
            order[key] = None
        if i == 60_000:
            break
    part = run(1000, (LOOP[:60_001], POPULAR[:60_001]), sharing="global")
    assert [state["misses"] for state in part] == misses
    assert sum(state["granted"] for state in states) == 1000


def test_fixed_shares_are_memories_of_their_own() -> None:
    states = run(1000, (LOOP, POPULAR), sharing="fixed")
    for state, pages in zip(states, (LOOP, POPULAR), strict=True):
        alone = replacement("lru", 500)
        alone.append(pages)
        assert state["misses"] == alone.misses()["misses"]


def test_throughput_takes_memory_from_a_loop_that_never_fits() -> None:
    everyone = sum(s["misses"] for s in run(1500, (LOOP, POPULAR), sharing="global"))
    states = run(1500, (LOOP, POPULAR), sharing="throughput", group=32)
    assert sum(s["misses"] for s in states) < 0.95 * everyone
    assert states[1]["granted"] > 1300
    assert sum(s["granted"] for s in states) == 1500


def test_equal_rates_bring_the_misses_together() -> None:
    other = pages_traces.zipf(200_000, 12_000, seed=5)
    shared = pools(2, 3000, epoch=EPOCH, sharing="equal")
    shared.append(*together(POPULAR, other))
    late = [row for row in shared.history() if row["epoch"] >= 10]
    misses = [sum(r["misses"] for r in late if r["pool"] == pool) for pool in (0, 1)]
    assert misses[0] == pytest.approx(misses[1], rel=0.1)


def test_regions_find_their_policies_by_themselves() -> None:
    states = run(4000, (LOOP, POPULAR), choose_policy=True, group=32, sharing="fixed")
    assert [state["policy"] for state in states] == ["mru", "lru"]
    assert [state["switches"] for state in states] == [1, 0]
    plain = run(4000, (LOOP, POPULAR), sharing="fixed")
    assert states[0]["misses"] * 2 < plain[0]["misses"]
    assert states[1]["misses"] == plain[1]["misses"]


def test_regions_with_policies_share_better_than_one_order() -> None:
    one_order = sum(s["misses"] for s in run(3500, (LOOP, POPULAR), sharing="global"))
    regions = run(3500, (LOOP, POPULAR), sharing="throughput", group=32, choose_policy=True)
    assert sum(s["misses"] for s in regions) < 0.5 * one_order


def test_history_has_a_row_for_each_pool_and_epoch() -> None:
    shared = pools(2, 100, epoch=1000, sharing="throughput", group=8)
    shared.append(*together(LOOP[:2500], POPULAR[:2500]))
    rows = shared.history()
    assert [(row["epoch"], row["pool"]) for row in rows] == [
        (e, p) for e in range(5) for p in (0, 1)
    ]
    assert sum(row["references"] for row in rows) == 5000
    assert all(
        a["granted"] + b["granted"] <= 100 for a, b in zip(rows[::2], rows[1::2], strict=True)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pools": 0}, "a memory of 10 pages for 0 pools"),
        ({"memory": 0}, "a memory of 0 pages for 2 pools"),
        ({"sharing": "fair"}, "there is no way of sharing called fair"),
        ({"epoch": 0}, "pools without a group"),
        ({"priorities": [1.0]}, "1 priorities or levels for 2 pools"),
        ({"priorities": [1.0, -1.0]}, "a priority of 0 or less"),
    ],
)
def test_pools_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        pools(**{"pools": 2, "memory": 10, **options})


def test_a_reference_needs_a_pool_that_is_there() -> None:
    shared = pools(2, 10)
    with pytest.raises(EngineError, match="a reference to pool 2"):
        shared.append(np.zeros(1, np.uint64), np.full(1, 2, np.uint32))
    with pytest.raises(EngineError, match="1 pools for 2 references"):
        shared.append(np.zeros(2, np.uint64), np.zeros(1, np.uint32))
