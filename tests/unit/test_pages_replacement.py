# SPDX-License-Identifier: Apache-2.0
"""Replacement policies against their papers' pseudo-code, and against libcachesim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pages_naive
import pytest
from benchmarks import pages_traces
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope._engine import EngineError, LruStack, replacement, replacement_policies

NAMES = [name for name, _, _ in replacement_policies()]
PEERS = {
    "lru": "LRU",
    "belady": "Belady",
    "clock": "Clock",
    "arc": "ARC",
    "lirs": "LIRS",
    "s3-fifo": "S3FIFO",
}
TRACES = {
    "zipf": pages_traces.zipf(60_000, 5_000),
    "mixed": pages_traces.mixed(60_000, 5_000),
    "loop": pages_traces.loop_and_noise(60_000, 5_000),
}


def misses(policy: str, pages: Sequence[int] | np.ndarray, memory: int) -> int:
    simulated = replacement(policy, memory)
    simulated.append(np.asarray(pages, np.uint64))
    return simulated.misses()["misses"]


def test_every_policy_has_its_naive_form() -> None:
    assert set(NAMES) == set(pages_naive.POLICIES)


@st.composite
def long_traces(draw: st.DrawFn) -> list[int]:
    """Runs of a loop, of anything and of a few pages; hypothesis's own lists stay short."""
    random = Random(draw(st.integers(0, 2**32)))
    most = draw(st.integers(2, 60))
    pages: list[int] = []
    while len(pages) < 500:
        start, size = random.randrange(most), random.randrange(1, most + 1)
        kind = random.randrange(3)
        if kind == 0:
            pages += [start + i % size for i in range(random.randrange(100))]
        else:
            span = most if kind == 1 else max(1, size // 4)
            pages += [start + random.randrange(span) for _ in range(random.randrange(100))]
    return pages


@pytest.mark.parametrize("policy", NAMES)
@settings(max_examples=40, deadline=None)
@given(memory=st.integers(2, 30), pages=long_traces() | st.lists(st.integers(0, 12)))
def test_misses_are_those_of_the_papers_procedure(
    policy: str, memory: int, pages: list[int]
) -> None:
    assert misses(policy, pages, memory) == pages_naive.POLICIES[policy](pages, memory)


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("trace", TRACES)
def test_misses_are_those_of_the_papers_procedure_on_longer_traces(policy: str, trace: str) -> None:
    pages = TRACES[trace][:1500].tolist() if policy == "belady" else TRACES[trace][:6000].tolist()
    memory = 130
    assert misses(policy, pages, memory) == pages_naive.POLICIES[policy](pages, memory)


def of_libcachesim(policy: str, trace: np.ndarray, memory: int, folder: Path) -> int:
    libcachesim = pytest.importorskip("libcachesim")
    file = folder / "trace.oracleGeneral.bin"
    if not file.exists():
        pages_traces.write_oracle(trace, file)
    reader = libcachesim.TraceReader(
        str(file),
        libcachesim.TraceType.ORACLE_GENERAL_TRACE,
        libcachesim.ReaderInitParam(ignore_obj_size=True),
    )
    cache = getattr(libcachesim, PEERS[policy])(memory, hashpower=16)
    return round(cache.process_trace(reader)[0] * len(trace))


@pytest.mark.parametrize("trace", TRACES)
def test_misses_are_those_of_libcachesim(trace: str, tmp_path: Path) -> None:
    pages = TRACES[trace]
    for memory in (50, 500, 1500):
        for policy in ("lru", "belady", "clock", "arc"):
            theirs = of_libcachesim(policy, pages, memory, tmp_path)
            assert misses(policy, pages, memory) == theirs, (policy, memory)
        lirs = of_libcachesim("lirs", pages, memory, tmp_path)
        assert misses("lirs", pages, memory) == pytest.approx(lirs, abs=0.005 * len(pages))


def test_s3_fifo_differs_from_libcachesim_by_where_pages_go_before_the_first_eviction(
    tmp_path: Path,
) -> None:
    pages = TRACES["zipf"][:12_000]
    for memory in (50, 300):
        theirs = of_libcachesim("s3-fifo", pages, memory, tmp_path)
        assert pages_naive.s3_fifo_of_libcachesim(pages.tolist(), memory) == theirs
        assert misses("s3-fifo", pages, memory) == pytest.approx(theirs, abs=0.005 * len(pages))


def test_lirs_differs_from_libcachesim_by_what_a_hit_outside_of_the_stack_does(
    tmp_path: Path,
) -> None:
    pages = TRACES["zipf"][:12_000]
    for memory in (3, 10, 50):
        theirs = of_libcachesim("lirs", pages, memory, tmp_path)
        assert pages_naive.lirs_of_libcachesim(pages.tolist(), memory) == theirs
        assert misses("lirs", pages, memory) == pytest.approx(theirs, abs=0.005 * len(pages))


def test_lru_is_a_point_of_its_curve_and_belady_the_bound() -> None:
    for trace in TRACES.values():
        stack = LruStack()
        stack.append(trace)
        curve = stack.curve()
        for memory in (2, 40, 700, 4000):
            assert misses("lru", trace, memory) == curve[min(memory, stack.distinct)]
            least = misses("belady", trace, memory)
            assert all(misses(policy, trace, memory) >= least for policy in NAMES)


def test_looping_over_a_little_more_than_memory_is_for_mru_and_lirs() -> None:
    loop = list(range(200)) * 50
    of = {policy: misses(policy, loop, 180) for policy in NAMES}
    assert of["lru"] == len(loop)
    assert of["mru"] * 5 < of["lru"]
    assert of["lirs"] * 5 < of["lru"]


@pytest.mark.parametrize("policy", NAMES)
def test_memory_for_all_pages_misses_each_once_and_throws_none_out(policy: str) -> None:
    simulated = replacement(policy, 5_000)
    simulated.append(TRACES["mixed"])
    numbers = simulated.misses()
    assert numbers["misses"] == len(np.unique(TRACES["mixed"]))
    assert numbers["evictions"] == 0
    assert numbers["references"] == len(TRACES["mixed"])


@pytest.mark.parametrize("policy", NAMES)
def test_batches_give_the_same_misses(policy: str) -> None:
    trace = TRACES["loop"][:20_000]
    pieces = replacement(policy, 300)
    for piece in np.array_split(trace, 57):
        pieces.append(piece)
    assert pieces.misses()["misses"] == misses(policy, trace, 300)


@pytest.mark.parametrize("policy", NAMES)
def test_dirty_pages_are_written_back_when_they_go(policy: str) -> None:
    pages = np.arange(100, dtype=np.uint64)  # each page once: all of them miss
    simulated = replacement(policy, 10)
    simulated.append(pages, (pages % 2 == 0).astype(np.uint8))
    simulated.append(pages + 1000)  # nothing is said of writes
    numbers = simulated.misses()
    assert numbers["misses"] == 200
    assert numbers["evictions"] == 190
    assert numbers["write_misses"] == 50
    # Some dirty pages may still be there.
    assert 45 <= numbers["writebacks"] <= 50


@pytest.mark.parametrize(
    ("policy", "memory", "message"),
    [
        ("lru", 0, "a memory of 0 pages is too small for lru"),
        ("lirs", 1, "a memory of 1 page is too small for lirs"),
        ("arc", 2**40, "a memory of 1099511627776 pages is too large to simulate"),
        ("fifo", 10, "there is no replacement policy fifo"),
    ],
)
def test_what_cannot_be_simulated_is_refused(policy: str, memory: int, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        replacement(policy, memory)


def test_writes_must_fit_the_references() -> None:
    with pytest.raises(EngineError, match="there are 2 marks of writes for 3 references"):
        replacement("lru", 3).append(np.zeros(3, np.uint64), np.zeros(2, np.uint8))


def test_no_references_are_no_misses() -> None:
    for policy in NAMES:
        assert misses(policy, [], 10) == 0
