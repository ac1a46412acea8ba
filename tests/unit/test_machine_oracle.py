# SPDX-License-Identifier: Apache-2.0
"""The machine against pycachesim: the same hits, misses, evictions and contents, exactly.

pycachesim's stores neither refresh a line nor count as hits, so a store is put to it as a load of
what is there followed by the store; both then do the same to every set. What it has no equal of
(exclusive caches that really move lines, tree-PLRU, SRRIP, write-backs that pass a level by) is
tested against the naive model of the engine's own tests.
"""

from __future__ import annotations

from array import array
from random import Random
from typing import Any, NamedTuple

import pytest
from cachesim import Cache, CacheSimulator, MainMemory
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope import _engine

LOAD, STORE = 0, 1
QUICK = settings(max_examples=60, deadline=None)


class Level(NamedTuple):
    sets: int
    ways: int
    line: int
    policy: str
    write_back: bool = True
    write_allocate: bool = True


class Access(NamedTuple):
    address: int
    size: int
    kind: int


def name(index: int) -> str:
    return f"L{index + 1}"


def our_machine(levels: list[Level]) -> Any:
    caches = [
        {
            "name": name(i),
            "holds": "both",
            "size": level.sets * level.ways * level.line,
            "ways": level.ways,
            "line": level.line,
            "policy": level.policy.lower(),
            "write_allocate": level.write_allocate,
            "write_back": level.write_back,
            "inclusion": "neither",
            "latency": 1,
        }
        for i, level in enumerate(levels)
    ]
    return _engine.Machine(
        {
            "caches": caches,
            "tlbs": [],
            "prefetcher": {"kind": "none"},
            "mapping": {"kind": "identity", "seed": 1, "first_touch": "memory"},
            "memory_latency": 100,
            "page_walk": 0,
            "seed": 1,
        }
    )


def run_ours(machine: Any, trace: list[Access]) -> dict[str, Any]:
    counters: dict[str, Any] = machine.run(
        array("Q", [a.address for a in trace]),
        array("I", [a.size for a in trace]),
        array("B", [a.kind for a in trace]),
    )
    return counters


def their_caches(levels: list[Level]) -> list[Any]:
    memory = MainMemory()
    caches: list[Any] = []
    for i, level in reversed(list(enumerate(levels))):
        outer = caches[0] if caches else None
        cache = Cache(
            name(i),
            level.sets,
            level.ways,
            level.line,
            replacement_policy=level.policy,
            write_back=level.write_back,
            write_allocate=level.write_allocate,
            load_from=outer,
            store_to=outer,
        )
        caches.insert(0, cache)
    memory.load_to(caches[-1])
    memory.store_from(caches[-1])
    CacheSimulator(caches[0], memory)
    return caches


def load(cache: Any, access: Access) -> None:
    cache.iterload([access.address], length=access.size)


def by_line(access: Access, line: int) -> list[Access]:
    """An access that crosses lines as one access for each: a set has to see them in this order."""
    first, end = access.address, access.address + access.size
    starts = [first, *range(first // line * line + line, end, line)]
    ends = [*starts[1:], end]
    return [Access(a, b - a, access.kind) for a, b in zip(starts, ends, strict=True)]


def run_theirs(caches: list[Any], levels: list[Level], trace: list[Access]) -> None:
    for access in trace:
        if access.kind == LOAD:
            load(caches[0], access)
            continue
        for part in by_line(access, levels[0].line):
            # Every level that the store reaches first does to the line what ours does.
            for cache, level in zip(caches, levels, strict=True):
                if level.write_allocate or part.address in cache.cached:
                    load(cache, part)
                if level.write_back and level.write_allocate:
                    break
            caches[0].iterstore([part.address], length=part.size)


def resident(cache: Any, line: int) -> set[int]:
    return {byte // line * line for byte in cache.cached}


def check_same(levels: list[Level], trace: list[Access], oracle: list[Level] | None = None) -> None:
    """The oracle has other levels where it needs other write rules to do the same to its lines."""
    oracle = oracle or levels
    machine, caches = our_machine(levels), their_caches(oracle)
    ours = run_ours(machine, trace)
    run_theirs(caches, oracle, trace)
    for i, (level, cache) in enumerate(zip(oracle, caches, strict=True)):
        counters, theirs = ours[name(i)], cache.stats()
        lines = resident(cache, level.line)
        assert set(machine.resident(name(i))) == lines
        assert counters["fills"] == theirs["MISS_count"]
        assert counters["evictions"] == theirs["MISS_count"] - len(lines)
        if level.write_back:
            assert counters["writebacks"] == theirs["EVICT_count"]


def geometry(line: int, ways: int) -> st.SearchStrategy[Level]:
    return st.builds(
        Level,
        sets=st.integers(1, 9),
        ways=st.integers(1, ways),
        line=st.just(line),
        policy=st.sampled_from(["LRU", "FIFO"]),
        write_back=st.just(True),
        write_allocate=st.just(True),
    )


@st.composite
def hierarchies(draw: st.DrawFn, most: int = 3, ways: int = 17) -> list[Level]:
    levels: list[Level] = []
    line = draw(st.sampled_from([16, 64]))
    for _ in range(draw(st.integers(1, most))):
        levels.append(draw(geometry(line, ways)))
        line *= draw(st.sampled_from([1, 2]))
    return levels


class Trace(NamedTuple):
    """A few hundred lines in random order, given by few numbers so that a failure reads well."""

    seed: int
    length: int
    lines: int

    def accesses(self, *kinds: int, crossing: bool = False) -> list[Access]:
        random = Random(self.seed)
        accesses = []
        for _ in range(self.length):
            size = random.choice([1, 2, 4, 8])
            address = 0x7FFF00000000 + random.randrange(self.lines) * 16
            address += random.randrange(16) if crossing else random.randrange(16 // size) * size
            accesses.append(Access(address, size, random.choice(kinds)))
        return accesses


TRACES = st.builds(
    Trace, seed=st.integers(0, 2**32), length=st.integers(1, 500), lines=st.integers(1, 300)
)


@QUICK
@given(hierarchies(), TRACES)
def test_loads_through_several_levels(levels: list[Level], trace: Trace) -> None:
    machine, caches = our_machine(levels), their_caches(levels)
    ours = run_ours(machine, trace.accesses(LOAD))
    run_theirs(caches, levels, trace.accesses(LOAD))
    for i, cache in enumerate(caches):
        counters, theirs = ours[name(i)], cache.stats()
        assert counters["accesses"] == {"load": theirs["LOAD_count"], "store": 0, "fetch": 0}
        assert counters["misses"]["load"] == theirs["MISS_count"]
        hits = counters["accesses"]["load"] - counters["misses"]["load"]
        assert hits == theirs["HIT_count"]
        assert set(machine.resident(name(i))) == resident(cache, levels[i].line)
        assert counters["evictions"] == theirs["MISS_count"] - len(machine.resident(name(i)))


@QUICK
@given(hierarchies(most=1), TRACES)
def test_stores_that_write_back_and_accesses_across_lines(
    levels: list[Level], trace: Trace
) -> None:
    check_same(levels, trace.accesses(LOAD, STORE, crossing=True))


@QUICK
@given(hierarchies(most=2), TRACES)
def test_write_backs_leave_the_next_level_in_order(levels: list[Level], trace: Trace) -> None:
    # What L1 throws out changes no set of the next level: to pycachesim, a level that takes no
    # line for a store and passes stores on.
    passive = [level._replace(write_back=False, write_allocate=False) for level in levels[1:]]
    check_same(levels, trace.accesses(LOAD, STORE), oracle=[levels[0], *passive])


@QUICK
@given(hierarchies(most=2, ways=4), TRACES)
def test_stores_through_a_cache_that_does_not_allocate(levels: list[Level], trace: Trace) -> None:
    through = levels[0]._replace(write_back=False, write_allocate=False)
    check_same([through, *levels[1:]], trace.accesses(LOAD, STORE))


@pytest.mark.parametrize("policy", ["LRU", "FIFO"])
def test_a_geometry_of_a_real_machine(policy: str) -> None:
    levels = [Level(64, 8, 64, policy), Level(1024, 16, 64, policy), Level(2048, 11, 64, policy)]
    state, trace = 1, []
    for i in range(60_000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        spread = 2**14 if i % 3 else 2**23
        trace.append(Access(0x7F0000000000 + (state >> 33) % spread * 8, 8, LOAD))
    check_same(levels, trace)


def missed(mapping_seed: int, seed: int, policy: str) -> list[int]:
    """Misses so far after each of four walks over the pages that would just fill a large cache."""
    machine = _engine.Machine(
        {
            "caches": [
                {
                    "name": "L1",
                    "holds": "both",
                    "size": 1 << 20,
                    "ways": 2,
                    "line": 64,
                    "policy": policy,
                    "write_allocate": True,
                    "write_back": True,
                    "inclusion": "neither",
                    "latency": 1,
                }
            ],
            "tlbs": [],
            "prefetcher": {"kind": "none"},
            "mapping": {"kind": "random", "seed": mapping_seed, "first_touch": "memory"},
            "memory_latency": 100,
            "page_walk": 0,
            "seed": seed,
        }
    )
    pages = [Access(page * 4096, 8, LOAD) for page in range(240)]
    return [run_ours(machine, pages)["L1"]["misses"]["load"] for _ in range(4)]


def test_the_mapping_has_a_seed_of_its_own() -> None:
    """Which pages meet in a set depends on mapping.seed alone: seed is of random replacement."""
    assert missed(1, 1, "lru") == missed(1, 2, "lru")
    assert missed(1, 1, "lru") != missed(2, 1, "lru")
    assert missed(7, 1, "random") != missed(7, 2, "random")
