# SPDX-License-Identifier: Apache-2.0
"""Why a workload misses: a layout whose arrays evict each other, and one whose arrays do not."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import STALLSCOPE, Made, Recorder, run

ROWS, STEPS = 32, 2
KINDS = ("cold", "capacity", "conflict")
MACHINES = ["default", "risc-64k", "power5", "itanium2", "laptop"]


@pytest.fixture(scope="module")
def forms(shared_record: Recorder, workload: Callable[[str], Path]) -> dict[str, Made]:
    program = workload("shallow_water")
    return {
        form: shared_record(program, ROWS, STEPS, form, options=["--trace"])
        for form in ("slow", "cured")
    }


def misses(made: Made, *words: object) -> Any:
    ran = run(STALLSCOPE, "misses", made.path, "--json", *words)
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout)


def test_arrays_that_share_sets_conflict_and_those_apart_do_not(forms: dict[str, Made]) -> None:
    words = ("--classify", "--level", "L1D", "--machine", "default")
    slow, cured = (misses(forms[form], *words) for form in ("slow", "cured"))
    [slow_level], [cured_level] = slow["levels"], cured["levels"]
    assert slow_level["conflict_share"] > 0.5
    assert cured_level["conflict_share"] < 0.05
    assert slow_level["accesses"] == pytest.approx(cured_level["accesses"], rel=0.01)
    assert slow_level["misses"] > 2 * cured_level["misses"]
    arrays = {row["object"]: row for row in slow["rows"]}
    assert arrays["z"]["conflict_share"] > 0.5
    # A cold miss for each line that is touched at all, in whichever form.
    assert slow_level["cold"] == pytest.approx(cured_level["cold"], rel=0.05)


@pytest.mark.parametrize("machine", MACHINES)
def test_kinds_objects_and_lines_add_up_on_every_machine(
    machine: str, forms: dict[str, Made]
) -> None:
    for by in ("object", "function", "line", "level"):
        document = misses(forms["slow"], "--classify", "--machine", machine, "--by", by)
        assert len(document["levels"]) > 0
        for level in document["levels"]:
            rows = [row for row in document["rows"] if row["level"] == level["level"]]
            assert sum(row["misses"] for row in rows) == level["misses"]
            for kind in KINDS:
                assert sum(row[kind] for row in rows) == level[kind]
            assert level["cold"] + level["capacity"] + level["conflict"] == level["misses"]


def test_misses_are_the_same_whether_or_not_it_is_asked_why(forms: dict[str, Made]) -> None:
    words = ("--machine", "default", "--by", "object")
    plain, why = (misses(forms["slow"], *words, *more) for more in ((), ("--classify",)))
    shown = ("level", "object", "kind", "misses", "share")
    assert [[row[name] for name in shown] for row in plain["rows"]] == [
        [row[name] for name in shown] for row in why["rows"]
    ]
    assert plain["rows"][0]["cold"] is None
    assert not plain["classified"]


def test_a_machine_beside_the_program_says_the_same(
    forms: dict[str, Made], record: Recorder, workload: Callable[[str], Path]
) -> None:
    options = ["--machine", "risc-64k", "--probe", "classify"]
    live = record(workload("shallow_water"), ROWS, STEPS, "slow", options=options)
    found = [
        {
            row["object"]: [row[kind] for kind in KINDS]
            for row in misses(made, "--classify", "--machine", "risc-64k")["rows"]
            if row["kind"] == "global" and row["misses"] > 100
        }
        for made in (live, forms["slow"])
    ]
    assert len(found[0]) >= 13
    assert found[0] == found[1]


def test_rows_of_one_object_as_csv(forms: dict[str, Made]) -> None:
    words = ("--classify", "--machine", "default", "--object", "z", "--by", "line", "--csv")
    ran = run(STALLSCOPE, "misses", forms["slow"].path, *words)
    rows = list(csv.DictReader(io.StringIO(ran.stdout)))
    assert {row["function"] for row in rows} >= {"advance", "fluxes"}
    assert all(int(row["misses"]) == sum(int(row[k]) for k in KINDS) for row in rows)


def test_people_see_levels_and_objects(forms: dict[str, Made]) -> None:
    ran = run(STALLSCOPE, "misses", forms["slow"].path, "--classify", "--limit", 3)
    assert ran.status == 0
    assert "conflict" in ran.stdout
    assert "more (--limit 0 shows all)" in ran.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--level", "L9"], "the machine has no level L9"),
        (["--object", "nothing"], "no object is called nothing"),
        (["--by", "planet"], "planet"),
    ],
)
def test_what_there_is_not_gets_a_sentence(
    words: list[str], says: str, forms: dict[str, Made]
) -> None:
    ran = run(STALLSCOPE, "misses", forms["slow"].path, *words)
    assert ran.status == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_a_trace_it_says_how_to_record(
    record: Recorder, workload: Callable[[str], Path]
) -> None:
    options = ["--machine", "risc-64k"]
    made = record(workload("shallow_water"), 4, 1, "slow", options=options)
    ran = run(STALLSCOPE, "misses", made.path, "--classify")
    assert ran.status == 2
    assert "--machine risc-64k --probe classify" in ran.stderr
    assert run(STALLSCOPE, "misses", made.path).status == 0
