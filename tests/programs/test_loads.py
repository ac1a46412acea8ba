# SPDX-License-Identifier: Apache-2.0
"""The loads that miss most are those that the workloads' truths name, and of their kind."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Made, Ran, Recorder

from stallscope import workloads
from stallscope.analyses.loads import Limits, loads
from stallscope.viewing import view

NAMES = [name for name in workloads.names() if workloads.truth(name).load is not None]
MACHINE = "risc-64k"  # one cache that none of the quick sizes fits into


@pytest.fixture(scope="module")
def made(shared_record: Recorder, workload: Callable[[str], Path]) -> Callable[[str], Made]:
    @functools.cache
    def record(name: str) -> Made:
        arguments = workloads.truth(name).command_arguments("quick")
        return shared_record(workload(name), *arguments, options=["--trace"])

    return record


def test_every_workload_of_the_issue_names_its_load() -> None:
    assert {"list", "array", "bst", "hashjoin", "graph", "spmv", "flow", "health"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_top_load_is_the_one_that_the_truth_names(
    name: str, made: Callable[[str], Made], stallscope: Callable[..., Ran]
) -> None:
    known = workloads.truth(name)
    assert known.load is not None
    ran = stallscope("loads", made(name).path, "--machine", MACHINE, "--json")
    assert ran.status == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.loads/1"
    top: dict[str, Any] = document["rows"][0]
    assert (top["function"], top["line"]) == (known.load.function, known.line_of(known.load.text))
    assert top["class"] == known.load.kind
    assert top["delinquent"] == "primary"
    assert {"pc", "function", "line", "object", "misses", "share", "class"} <= set(top)
    assert document["covering"] <= 10
    assert sum(row["share"] for row in document["rows"]) == pytest.approx(1)
    assert sum(row["misses"] for row in document["rows"]) == document["misses"]


def test_a_lower_secondary_threshold_finds_more_loads_of_the_trace(
    made: Callable[[str], Made],
) -> None:
    seen = view(made("bst").path, machine=MACHINE, event="llc", period=1)
    top = loads(seen).rows[0].samples
    counts = [
        len(loads(seen, Limits(threshold=top, secondary=share)).delinquent) for share in (1.0, 0.25)
    ]
    assert counts[0] == 1 < counts[1]


def test_a_larger_portion_of_samples_is_known_later(made: Callable[[str], Made]) -> None:
    seen = view(made("spmv").path, machine=MACHINE, event="llc")
    known = [
        loads(seen, Limits(buffer=size, read_at=size)).rows[0].identified for size in (10, 4000)
    ]
    assert known[0] is not None
    assert known[1] is not None
    assert known[0] < known[1]


def test_a_program_without_delinquent_loads_says_so(
    made: Callable[[str], Made], stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("loads", made("list").path, "--machine", MACHINE, "--threshold", 10**9)
    assert ran.status == 0
    assert "no load is delinquent" in ran.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threshold", "0"], "at least 1"),
        (["--secondary", "2"], "a share from 0 to 1"),
        (["--read-at", "101"], "from 1 to the buffer's 100"),
        (["--event", "l9"], "l9"),
    ],
)
def test_wrong_limits_are_refused(
    options: list[str], words: str, made: Callable[[str], Made], stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("loads", made("list").path, *options)
    assert ran.status == 2
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


def test_loads_of_a_native_run_come_from_clock_samples(
    shared_record: Recorder, workload: Callable[[str], Path], stallscope: Callable[..., Ran]
) -> None:
    clocked = shared_record(workload("list"), 200000, 12, source="clock")
    ran = stallscope("loads", clocked.path, "--threshold", 2, "--json")
    assert ran.status == 0, ran.stderr
    top = json.loads(ran.stdout)["rows"][0]
    assert (top["function"], top["class"], top["misses"]) == ("walk", "chase", None)
