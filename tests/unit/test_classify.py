# SPDX-License-Identifier: Apache-2.0
"""Why misses happen: the engine against a model made of lists, and closed forms."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope import _engine

LOAD, STORE, FETCH, MODIFY = 0, 1, 2, 3
KINDS = ("cold", "capacity", "conflict")
LINE = 64


class Level(NamedTuple):
    name: str
    sets: int
    ways: int
    line: int = LINE
    policy: str = "lru"
    holds: str = "both"
    write_allocate: bool = True
    write_back: bool = True
    inclusion: str = "neither"


class Tlb(NamedTuple):
    name: str
    entries: int
    ways: int


class Access(NamedTuple):
    address: int
    size: int = 1
    kind: int = LOAD


def machine(levels: list[Level], tlbs: list[Tlb]) -> Any:
    caches = [
        {
            "name": level.name,
            "holds": level.holds,
            "size": level.sets * level.ways * level.line,
            "ways": level.ways,
            "line": level.line,
            "policy": level.policy,
            "write_allocate": level.write_allocate,
            "write_back": level.write_back,
            "inclusion": level.inclusion,
            "latency": 1,
        }
        for level in levels
    ]
    described = [
        {"name": t.name, "holds": "data", "entries": t.entries, "ways": t.ways, "page": 4096}
        | {"latency": 1}
        for t in tlbs
    ]
    return _engine.Machine(
        {
            "caches": caches,
            "tlbs": described,
            "prefetcher": {"kind": "none"},
            "mapping": {"kind": "identity", "seed": 1, "first_touch": "memory"},
            "memory_latency": 100,
            "page_walk": 0,
            "seed": 1,
        }
    )


def classify(
    levels: list[Level], trace: list[Access], tlbs: list[Tlb] | None = None
) -> dict[str, dict[str, int]]:
    """What the engine says: {level: {kind: count}}, and that its sums are the counted misses."""
    made = machine(levels, tlbs or [])
    columns = made.classify(
        array("Q", [a.address for a in trace]),
        array("I", [a.size for a in trace]),
        array("B", [a.kind for a in trace]),
    )
    names = [level.name for level in levels] + [tlb.name for tlb in tlbs or []]
    found = {name: dict.fromkeys(KINDS, 0) for name in names}
    for row, level in enumerate(columns["level"]):
        for kind in KINDS:
            found[names[level]][kind] += columns[kind][row]
    counted = made.counters()
    for name in names:
        assert sum(found[name].values()) == sum(counted[name]["misses"].values()), name
    return found


class NaiveCache:
    """Sets as lists, the most recent (or the newest) line last."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.sets: list[list[int]] = [[] for _ in range(level.sets)]

    def look_up(self, line: int, fill: bool) -> bool:
        ways = self.sets[line % self.level.sets]
        hit = line in ways
        if hit and self.level.policy == "lru":
            ways.remove(line)
            ways.append(line)
        elif not hit and fill:
            if len(ways) == self.level.ways:
                del ways[0]
            ways.append(line)
        return hit


class NaiveLevel:
    """A cache, the fully associative one beside it, and the lines that it was ever asked for."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.real = NaiveCache(level)
        self.full = NaiveCache(Level("full", 1, level.sets * level.ways, level.line))
        self.seen: set[int] = set()
        self.kinds: Counter[str] = Counter()

    def access(self, first: int, last: int, fill: bool) -> bool:
        """One look-up; the first line that misses says why the access missed."""
        why = None
        for line in range(first // self.level.line, last // self.level.line + 1):
            seen, full = line in self.seen, self.full.look_up(line, fill)
            self.seen.add(line)
            if not self.real.look_up(line, fill) and why is None:
                why = "conflict" if full else "capacity" if seen else "cold"
        if why:
            self.kinds[why] += 1
        return why is None


def naive(levels: list[Level], trace: list[Access]) -> dict[str, dict[str, int]]:
    hierarchy = [NaiveLevel(level) for level in levels]
    for access in trace:
        wrong = "data" if access.kind == FETCH else "instructions"
        writing, found = access.kind in (STORE, MODIFY), False
        for one in hierarchy:
            if one.level.holds == wrong or (found and not writing):
                continue
            fills = one.level.write_allocate or access.kind != STORE or not writing
            hit = one.access(access.address, access.address + access.size - 1, fills)
            writing = writing and not (one.level.write_back and (hit or fills))
            found = found or hit
    return {one.level.name: {kind: one.kinds[kind] for kind in KINDS} for one in hierarchy}


@st.composite
def hierarchies(draw: st.DrawFn) -> list[Level]:
    def level(name: str, line: int, holds: str = "both") -> Level:
        return Level(
            name,
            sets=draw(st.sampled_from([1, 2, 3, 4, 8])),
            ways=draw(st.integers(1, 5)),
            line=line,
            policy=draw(st.sampled_from(["lru", "fifo"])),
            holds=holds,
            write_allocate=draw(st.booleans()),
            write_back=draw(st.booleans()),
        )

    first = [level("L1I", 64, "instructions"), level("L1D", 64, "data")]
    outer = draw(st.integers(0, 2))
    lines = sorted(draw(st.lists(st.sampled_from([64, 128]), min_size=outer, max_size=outer)))
    return first + [level(f"L{i + 2}", line) for i, line in enumerate(lines)]


accesses = st.builds(
    Access,
    address=st.integers(0, 60 * LINE),
    size=st.sampled_from([1, 8, 32, 200]),
    kind=st.sampled_from([LOAD, LOAD, STORE, FETCH, MODIFY]),
)


@settings(max_examples=150, deadline=None)
@given(hierarchies(), st.lists(accesses, max_size=400))
def test_every_miss_is_of_the_kind_that_the_naive_model_says(
    levels: list[Level], trace: list[Access]
) -> None:
    assert classify(levels, trace) == naive(levels, trace)


@settings(max_examples=80, deadline=None)
@given(st.lists(accesses, max_size=300), st.sampled_from(["srrip", "plru", "random", "lru"]))
def test_kinds_add_up_to_the_misses_on_every_machine(trace: list[Access], policy: str) -> None:
    levels = [
        Level("L1D", 4, 2, policy=policy, holds="data"),
        Level("L1I", 2, 2, policy=policy, holds="instructions"),
        Level("L2", 4, 4, policy=policy, inclusion="inclusive"),
        Level("L3", 4, 8, policy=policy, inclusion="exclusive"),
    ]
    classify(levels, trace, [Tlb("DTLB", 2, 1), Tlb("STLB", 4, 2)])


def test_a_walk_around_one_line_too_many_is_cold_once_and_then_capacity() -> None:
    lines, rounds = 16, 10
    walk = [Access(line * LINE) for _ in range(rounds) for line in range(lines + 1)]
    found = classify([Level("L1", 1, lines)], walk)
    assert found["L1"] == {"cold": lines + 1, "capacity": (rounds - 1) * (lines + 1), "conflict": 0}


def test_two_lines_that_share_a_set_are_conflicts_after_the_first() -> None:
    sets, rounds = 16, 50
    walk = [Access(line * LINE) for _ in range(rounds) for line in (0, sets)]
    found = classify([Level("L1", sets, 1)], walk)
    assert found["L1"] == {"cold": 2, "capacity": 0, "conflict": 2 * rounds - 2}


def test_a_policy_that_loses_against_lru_here_and_wins_there_has_no_negative_counts() -> None:
    lines = 8
    walk = [Access(line * LINE) for _ in range(200) for line in range(lines + 1)]
    found = classify([Level("L1", 1, lines, policy="random")], walk)["L1"]
    assert found["cold"] == lines + 1
    assert found["conflict"] == 0  # full LRU misses always, so nothing would have hit there
    assert 0 < found["capacity"] < 200 * (lines + 1) - found["cold"]


def test_a_page_that_comes_back_too_late_for_the_tlb_is_a_capacity_miss() -> None:
    walk = [Access(page * 4096) for _ in range(3) for page in range(5)]
    found = classify([Level("L1", 64, 4)], walk, [Tlb("DTLB", 4, 4)])
    assert found["DTLB"] == {"cold": 5, "capacity": 10, "conflict": 0}


@pytest.mark.parametrize("lengths", [(2, 1, 2), (2, 2, 1)])
def test_lists_of_different_lengths_are_refused(lengths: tuple[int, int, int]) -> None:
    made = machine([Level("L1", 1, 1)], [])
    with pytest.raises(_engine.EngineError, match="differ in length"):
        made.classify(
            array("Q", [64] * lengths[0]),
            array("I", [1] * lengths[1]),
            array("B", [0] * lengths[2]),
        )
