# SPDX-License-Identifier: Apache-2.0
"""Memory under breakpoints: what was touched again, after how long, and by whom."""

from __future__ import annotations

import json
import math
import re
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope
from conftest import STALLSCOPE, Made, Recorder, run
from stallscope.errors import StallscopeError

pytestmark = pytest.mark.real_time

Build = Callable[..., Path]
ROUNDS = 8_000_000
CIRCLE = 1 << 18  # cells of reuses.c, each read once in so many rounds
TABLES = {1 << 14: 4, 1 << 17: 2, 1 << 20: 1}  # cells, and how many are read at random in a round


@pytest.fixture(scope="module")
def watched(shared_record: Recorder, program: Build) -> Made:
    options = ["--rate", 2000, "--watch", "8"]
    made = shared_record(program("reuses"), ROUNDS, options=options, source="clock")
    assert made.status == 0
    return made


@pytest.fixture(scope="module")
def counted(shared_record: Recorder, program: Build) -> Made:
    return shared_record(program("reuses"), ROUNDS, options=["--machine", "none"])


def functions_of(made: Made) -> dict[int | None, str]:
    return {row["operation"]: row["function"] for row in made.rows("operation")}


def test_reuse_times_are_those_of_the_loop(watched: Made) -> None:
    """A circle comes back after as many rounds as it has cells, in the thread's own time."""
    names = {row["bucket"]: row["name"] for row in watched.rows("bucket")}
    circle = {w["watch"] for w in watched.rows("watch") if names[w["bucket"]] == "circle"}
    cost = watched.images()[0].meta.options["touch_cost_ns"]
    times = [r["ran"] - cost for r in watched.rows("reuse") if r["watch"] in circle and r["ran"]]
    assert len(times) >= 3
    expected = watched.images()[0].meta.cpu_seconds * 1e9 * CIRCLE / ROUNDS
    assert statistics.median(times) == pytest.approx(expected, rel=0.35)


def test_who_touches_is_known(watched: Made) -> None:
    functions = functions_of(watched)
    ended = [r for r in watched.rows("reuse") if r["after"] is not None]
    assert ended
    loops = [r for r in ended if functions.get(r["operation"]) == "turn"]
    assert len(loops) >= 0.8 * len(ended)
    assert all(functions[r["by_operation"]] == "turn" for r in loops[:-1])
    for row in watched.rows("watch"):
        assert row["bytes"] == 8
        assert row["address"] % 8 == 0
        assert row["armed"] >= row["time"]
        assert row["waited"] is None or row["waited"] >= 0


def exact_misses(size: int) -> float:
    """Of an LRU cache: what it holds was read in the last so many rounds."""

    def cells(rounds: float) -> float:
        found = sum(n * -math.expm1(-reads * rounds / n) for n, reads in TABLES.items())
        return found + min(CIRCLE, rounds)

    low, high = 0.0, 1e9
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if cells(middle) < size / 8 else (low, middle)
    missed = sum(reads * math.exp(-reads * low / n) for n, reads in TABLES.items())
    return (missed + (low < CIRCLE)) / (sum(TABLES.values()) + 1)


def test_the_curve_is_near_the_exact_one(watched: Made, counted: Made) -> None:
    estimated = stallscope.reuse(watched.path, counts=counted.path)
    exact = {row.bytes: exact_misses(row.bytes) for row in estimated.curve}
    assert estimated.covered is not None
    assert estimated.covered > 0.8
    shares = [row.misses for row in estimated.curve]
    assert shares == sorted(shares, reverse=True)
    off = [
        abs((row.of_all or 0) - exact[row.bytes]) for row in estimated.curve if row.bytes >= 1 << 15
    ]
    assert len(off) > 10
    assert statistics.mean(off) < 0.15
    plain = [
        abs((row.waiting or 0) - exact[row.bytes])
        for row in estimated.curve
        if row.bytes >= 1 << 15
    ]
    assert statistics.mean(off) < statistics.mean(plain)  # what is waited for is no fair sample


def test_without_counts_it_says_for_what_it_speaks(watched: Made) -> None:
    ran = run(STALLSCOPE, "reuse", watched.path)
    assert ran.status == 0
    said = " ".join(ran.stdout.split())
    assert "speaks for accesses that are waited for" in said
    assert "a miss curve needs how often memory is touched" in said
    document = json.loads(run(STALLSCOPE, "reuse", watched.path, "--json").stdout)
    assert document["schema"] == "stallscope.reuse/1"
    assert document["curve"] == []
    assert document["touch_cost"] > 0
    objects = {row["object"]: row for row in document["rows"]}
    assert {"small", "middle", "large", "circle"} <= set(objects)
    assert objects["small"]["median"] < objects["middle"]["median"]


def test_threads_that_touch_the_same_are_told(record: Recorder, program: Build) -> None:
    options = ["--rate", 2000, "--watch", "8"]
    made = record(program("sharers"), 2500, options=options, source="clock")
    result = stallscope.reuse(made.path)
    pairs = {(row.object, row.thread, row.other) for row in result.pairs}
    assert ("shared_cells", "left", "right") in pairs
    assert not {name for name, *_ in pairs} & {"left_cells", "right_cells"}


def test_top_shows_them_live(program: Build) -> None:
    target = subprocess.Popen([program("sharers"), "60000"], stdout=subprocess.PIPE)
    try:
        words = ["top", "-p", str(target.pid), "--watch", "--duration", "2", "--rate", "2000"]
        document = json.loads(run(STALLSCOPE, *words, "--json").stdout)
        assert target.poll() is None
    finally:
        target.kill()
        target.wait()
    names = {(row["object"], row["thread"], row["other"]) for row in document["reuse"]["pairs"]}
    assert ("shared_cells", "left", "right") in names
    assert document["rows"]


def test_wider_granules_take_all_breakpoints(record: Recorder, program: Build) -> None:
    options = ["--rate", 2000, "--watch", "32"]
    made = record(program("reuses"), 1_000_000, options=options, source="clock")
    rows = made.rows("watch")
    assert rows
    assert all(row["bytes"] == 32 and row["address"] % 32 == 0 for row in rows)


def test_a_debugger_that_has_the_breakpoints_is_no_harm(
    record: Recorder, program: Build, tmp_path: Path
) -> None:
    """Somebody who watches the same process may take all of them; nothing is lost but reuse."""
    target = subprocess.Popen([program("spin"), "60"], stdout=subprocess.PIPE)
    try:
        folder = tmp_path / "spin.stallscope"
        words = ["--pid", target.pid, "--duration", 0.5, "--watch", "-o", folder]
        both = [
            subprocess.Popen(
                [STALLSCOPE, "record", *map(str, words[:-1]), f"{folder}{n}"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for n in range(2)
        ]
        assert [one.wait(60) for one in both] == [0, 0]
        assert target.poll() is None
    finally:
        target.kill()
        target.wait()


def refused(*words: Any) -> str:
    ran = run(STALLSCOPE, *words)
    assert ran.status not in (0, None)
    assert "Traceback" not in ran.stderr
    return " ".join(ran.stderr.split())


def test_wrong_questions_get_a_sentence(
    watched: Made, counted: Made, record: Recorder, program: Build
) -> None:
    plain = record(program("waits"), 100, source="clock")
    assert "nothing was watched" in refused("reuse", plain.path)
    assert "it holds samples, no counts" in refused("reuse", watched.path, "--counts", plain.path)
    other = record(program("two_arrays"), options=["--machine", "none"])
    said = refused("reuse", watched.path, "--counts", other.path)
    assert "another program" in said
    assert "was watched by 8 bytes" in refused("reuse", watched.path, "--granule", 64)
    assert "has no trace" in refused("reuse", other.path, "--process", other.images()[0].meta.pid)
    said = refused("record", "--watch", "--", "true")
    assert "--watch is not for --source valgrind" in said
    with pytest.raises(StallscopeError, match=re.escape("--watch 7: breakpoints watch 8, 16, 32")):
        stallscope.record(["true"], source="clock", watch=7)
