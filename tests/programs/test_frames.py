# SPDX-License-Identifier: Apache-2.0
"""Stacks by the function whose frame it is, not by the one that accesses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import STALLSCOPE, Made, Recorder, run

Build = Callable[..., Path]
MACHINE = ("--machine", "default")
OWNED, DEEP = 400, 300  # lines


@pytest.fixture(scope="module")
def kept(shared_record: Recorder, program: Build) -> Made:
    return shared_record(program("frames"), options=["--trace"])


def ask(verb: str, made: Made, *words: object) -> Any:
    ran = run(STALLSCOPE, verb, made.path, *MACHINE, "--json", *words)
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout)


def stacks(document: Any) -> dict[str, int]:
    rows = [row for row in document["rows"] if row["kind"] == "stack"]
    return {row["object"]: row["misses"] for row in rows}


def test_a_frame_belongs_to_its_function_whoever_fills_it(kept: Made) -> None:
    found = stacks(ask("objects", kept, "--stack-by-function"))
    # In main and in the thread, but for what the loader had left in the cache.
    assert 1.7 * OWNED < found["<stack> of owner"] < 2 * OWNED + 40
    # Three of them; the first begins where owner's was.
    assert 3 * DEEP - OWNED < found["<stack> of deep"] < 3 * DEEP + 40
    assert found.get("<stack> of worker", 0) < 20
    assert "<stack>" in stacks(ask("objects", kept))


def test_frames_of_all_functions_together_are_the_stack(kept: Made) -> None:
    [(name, whole)] = stacks(ask("objects", kept)).items()
    assert name == "<stack>"
    assert sum(stacks(ask("objects", kept, "--stack-by-function")).values()) == whole


def test_the_lines_that_miss_on_a_frame_are_those_of_who_accesses_it(kept: Made) -> None:
    words = ("--stack-by-function", "--object", "<stack> of owner")
    functions = {row["function"] for row in ask("objects", kept, *words)["rows"]}
    assert "worker" in functions


def test_why_a_frame_misses(kept: Made) -> None:
    words = ("--classify", "--stack-by-function", "--level", "L3")
    rows = {row["object"]: row for row in ask("misses", kept, *words)["rows"]}
    owner = rows["<stack> of owner"]
    assert owner["cold"] == owner["misses"] > 1.6 * OWNED


def test_a_recording_that_watched_frames_needs_no_trace(
    kept: Made, record: Recorder, program: Build
) -> None:
    made = record(program("frames"), options=[*MACHINE, "--probe", "frames"])
    live, replayed = (stacks(ask("objects", m, "--stack-by-function")) for m in (made, kept))
    assert live["<stack> of owner"] == replayed["<stack> of owner"]
    plain = record(program("frames"), options=[*MACHINE])
    ran = run(STALLSCOPE, "objects", plain.path, "--stack-by-function")
    assert ran.status == 2
    assert "--probe frames" in ran.stderr
