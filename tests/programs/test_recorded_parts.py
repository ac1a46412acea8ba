# SPDX-License-Identifier: Apache-2.0
"""Measuring a part of a run, and what a program says about itself through stallscope.h."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Made, Recorder

Build = Callable[..., Path]
BOTH = pytest.mark.parametrize("mode", [[], ["--trace"]], ids=["counts", "trace"])


def loads_of(made: Made, function: str) -> int:
    rows = made.rows("operation")
    return sum(r["executions"] for r in rows if (r["function"], r["kind"]) == (function, 0))


def phases(made: Made) -> tuple[int, int, int]:
    warmup, work, cool = (loads_of(made, name) for name in ("warmup", "work", "cool"))
    return warmup // 10_000 * 10_000, work // 10_000 * 10_000, cool // 10_000 * 10_000


@BOTH
def test_the_whole_run_is_measured_without_options(
    mode: list[str], record: Recorder, program: Build
) -> None:
    made = record(program("skip"), options=mode)
    assert phases(made) == (10_000, 20_000, 30_000)


@BOTH
def test_from_a_function_on(mode: list[str], record: Recorder, program: Build) -> None:
    made = record(program("skip"), options=[*mode, "--from", "work"])
    assert phases(made) == (0, 20_000, 30_000)
    assert made.ran.stdout == "sum=69930004\n"


@BOTH
def test_up_to_a_function(mode: list[str], record: Recorder, program: Build) -> None:
    made = record(program("skip"), options=[*mode, "--to", "work"])
    assert phases(made) == (10_000, 0, 0)


@BOTH
def test_from_one_function_to_another(mode: list[str], record: Recorder, program: Build) -> None:
    made = record(program("skip"), options=[*mode, "--from", "work", "--to", "cool"])
    assert phases(made) == (0, 20_000, 0)
    assert "measure_on" in {row["kind"] for row in made.rows("event")}


@BOTH
def test_a_number_of_instructions_is_skipped(
    mode: list[str], record: Recorder, program: Build
) -> None:
    whole = record(program("skip"), options=mode)
    made = record(program("skip"), options=[*mode, "--skip", 300_000])
    assert abs(whole.info.instructions - made.info.instructions - 300_000) < 100
    assert loads_of(made, "cool") == loads_of(whole, "cool")
    assert loads_of(made, "warmup") < loads_of(whole, "warmup")


@BOTH
def test_measuring_ends_at_a_number_of_instructions(
    mode: list[str], record: Recorder, program: Build
) -> None:
    made = record(program("skip"), options=[*mode, "--max-instructions", "200k"])
    assert 200_000 <= made.info.instructions < 200_100
    assert made.ran.stdout == "sum=69930004\n"
    assert loads_of(made, "cool") == 0
    assert made.info.complete


@BOTH
def test_skip_and_max_together_measure_a_window(
    mode: list[str], record: Recorder, program: Build
) -> None:
    options = [*mode, "--skip", 100_000, "--max-instructions", 50_000]
    made = record(program("skip"), options=options)
    assert 50_000 <= made.info.instructions < 50_100


def test_a_function_that_is_never_entered_leaves_nothing_to_measure(
    record: Recorder, program: Build
) -> None:
    made = record(program("skip"), options=["--from", "no_such_function"])
    assert made.status == 0
    assert made.info.instructions == 0


@BOTH
def test_regions_nest_and_repeat_in_every_thread(
    mode: list[str], record: Recorder, program: Build
) -> None:
    made = record(program("marks"), options=mode)
    assert made.status == 0
    assert made.ran.stderr == "recorded=1\n"
    events = made.events("region_begin", "region_end")
    begun = Counter((e["text"], e["thread"]) for e in events if e["kind"] == "region_begin")
    assert begun == {("load", 1): 2, ("parse", 1): 4, ("compute", 1): 1, ("compute", 2): 1}
    stacks: dict[int, list[str]] = {1: [], 2: []}
    for event in events:
        stack = stacks[event["thread"]]
        if event["kind"] == "region_begin":
            assert (stack == ["load"]) == (event["text"] == "parse")
            stack.append(event["text"])
        else:
            assert stack.pop() == event["text"]
    assert stacks == {1: [], 2: []}


@BOTH
def test_what_lies_between_stop_and_start_is_not_measured(
    mode: list[str], record: Recorder, program: Build
) -> None:
    made = record(program("marks"), options=mode)
    assert loads_of(made, "unmeasured") == 0
    assert loads_of(made, "measured") >= 3000
    kinds = [row["kind"] for row in made.events("measure_on", "measure_off")]
    assert kinds == ["measure_off", "measure_on"]


def test_memory_that_the_program_named_is_named(record: Recorder, program: Build) -> None:
    made = record(program("marks"))
    named = {r["name"]: r for r in made.rows("object") if r["kind"] == "named"}
    assert set(named) == {"the table", "second half", "on the stack"}
    assert {row["size"] for row in named.values()} == {4000}
    [heap] = [row for row in made.heap() if row["size"] == 8000]
    assert named["second half"]["address"] == heap["address"] + 4000
    [table] = [r for r in made.rows("object") if (r["kind"], r["name"]) == ("global", "table")]
    assert named["the table"]["address"] == table["address"]


def test_a_region_ends_when_an_exception_leaves_it(record: Recorder, program: Build) -> None:
    made = record(program("marks_cxx"))
    assert made.ran.stdout == "sum=3000 left by exception\n"
    kinds = [row["kind"] for row in made.events("region_begin", "region_end")]
    assert kinds == ["region_begin", "region_end"] * 2
