# SPDX-License-Identifier: Apache-2.0
"""Reuse times and the curve of a trace against a few lines of Python."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from stallscope import _engine, import_trace, reuse
from stallscope.errors import StallscopeError
from stallscope.recording import Recording

ACCESSES = 3000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, list[tuple[int, int]]]:
    draw = random.Random(7)
    sizes = (1, 4, 8, 16)
    accesses = [
        (0x10000 + int(draw.expovariate(1 / 600)), draw.choice(sizes)) for _ in range(ACCESSES)
    ]
    folder = tmp_path_factory.mktemp("reuse")
    file = folder / "accesses.csv"
    lines = ["address,size,kind", *(f"{a},{n},load" for a, n in accesses)]
    file.write_text("\n".join(lines) + "\n")
    made = import_trace(file, output=folder / "it.stallscope")
    return made.recording, accesses


def touches(accesses: list[tuple[int, int]], granule: int) -> list[int]:
    return [
        g
        for address, size in accesses
        for g in range(address // granule, (address + size - 1) // granule + 1)
    ]


@pytest.mark.parametrize("granule", [8, 64])
def test_times_and_curve_are_exact(
    trace: tuple[Recording, list[tuple[int, int]]], granule: int
) -> None:
    recording, accesses = trace
    found = _engine.reuse_of(str(recording.path / "stream.ss"), granule)
    stack: list[int] = []
    last: dict[int, int] = {}
    times: Counter[int] = Counter()
    distances: Counter[int] = Counter()
    every = touches(accesses, granule)
    for now, page in enumerate(every):
        if page in last:
            times[now - last[page]] += 1
            distances[stack.index(page)] += 1
            stack.remove(page)
        stack.insert(0, page)
        last[page] = now
    assert found["touches"] == len(every)
    assert found["granules"] == len(last)
    steps = list(found["shortest"])
    counted: Counter[int] = Counter()
    for time, count in times.items():
        counted[max(s for s in steps if s <= time)] += count
    assert {s: c for s, c in zip(steps, found["times"], strict=True) if c} == counted
    hits = 0
    for memory, misses in enumerate(found["curve"]):
        assert misses == len(every) - hits
        hits += distances[memory]


def test_followed_granules_are_listed(trace: tuple[Recording, list[tuple[int, int]]]) -> None:
    recording, accesses = trace
    every = touches(accesses, 8)
    wanted = every[0]
    found = _engine.reuse_of(str(recording.path / "stream.ss"), 8, [wanted * 8], all=False)
    rows = list(found["followed"])
    assert rows[::3] == [wanted * 8] * (len(rows) // 3)
    assert rows[1::3] == [now for now, g in enumerate(every) if g == wanted]
    assert len(found["curve"]) == 1


def test_a_trace_speaks_for_every_access(trace: tuple[Recording, list[tuple[int, int]]]) -> None:
    result = reuse(trace[0], granule=64)
    assert (result.speaks_for, result.unit, result.covered) == ("every access", "touches", 1.0)
    shares = [row.misses for row in result.curve]
    assert shares == sorted(shares, reverse=True)


def test_wrong_questions_get_a_sentence(trace: tuple[Recording, list[tuple[int, int]]]) -> None:
    recording = trace[0]
    with pytest.raises(StallscopeError, match="a granule of 3 bytes"):
        reuse(recording, granule=3)
    with pytest.raises(StallscopeError, match="holds every access"):
        reuse(recording, counts=recording)
    with pytest.raises(StallscopeError, match="there is no recording"):
        reuse(Path("nowhere.stallscope"))
