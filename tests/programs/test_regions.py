# SPDX-License-Identifier: Apache-2.0
"""What happens inside a region that the program marks, and names that end with their memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import STALLSCOPE, Made, Recorder, run

Build = Callable[..., Path]
# A cache that everything fits into, so that each line misses once.
MACHINE = ("--machine", "server")
FIRST, SECOND, THIRD, BLOCK = 100, 200, 50, 32


def ask(verb: str, made: Made | Path, *words: object) -> Any:
    path = made.path if isinstance(made, Made) else made
    ran = run(STALLSCOPE, verb, path, *MACHINE, "--json", *words)
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout)


def misses_on(document: Any) -> dict[str, int]:
    return {row["object"]: row["misses"] for row in document["rows"]}


@pytest.fixture(scope="module")
def kept(shared_record: Recorder, program: Build) -> Made:
    return shared_record(program("regions"), options=["--trace"])


@pytest.fixture(scope="module")
def live(shared_record: Recorder, program: Build) -> Made:
    options = [*MACHINE, "--probe", "classify", "--probe", "evictions"]
    return shared_record(program("regions"), options=options)


@pytest.fixture(params=["kept", "live"])
def made(request: pytest.FixtureRequest) -> Made:
    found: Made = request.getfixturevalue(request.param)
    return found


def test_a_region_has_what_happens_in_it_and_in_those_inside(made: Made) -> None:
    outer, inner = (misses_on(ask("objects", made, "--region", r)) for r in ("outer", "inner"))
    assert (outer["first"], outer["second"]) == (FIRST, SECOND)
    assert inner["second"] == SECOND
    assert "first" not in inner
    assert "third" not in outer
    whole = misses_on(ask("objects", made))
    assert (whole["first"], whole["second"]) == (FIRST, SECOND)


def test_samples_and_levels_are_those_of_the_region(made: Made) -> None:
    document = ask("objects", made, "--region", "inner")
    rows = {row["object"]: row for row in document["rows"]}
    assert document["region"] == "inner"
    assert rows["second"]["sampled"] == SECOND  # few misses give few samples, and all of them
    [level] = [row for row in document["levels"] if row["level"] == document["level"]]
    assert level["misses"] == document["misses"] == sum(misses_on(document).values())
    assert 2 * SECOND <= level["accesses"] < 3 * SECOND  # each a load and a store


@pytest.mark.parametrize("verb", ["functions", "lines"])
def test_code_is_told_apart_by_region_too(verb: str, made: Made) -> None:
    document = ask(verb, made, "--region", "inner")
    assert {row["function"]: row["misses"] for row in document["rows"]}["touch"] == SECOND
    assert "block_of" not in {row["function"] for row in document["rows"]}


def test_misses_and_why_by_region(made: Made) -> None:
    document = ask("misses", made, "--classify", "--region", "outer", "--level", "l1d")
    rows = {row["object"]: row for row in document["rows"]}
    assert (rows["first"]["cold"], rows["second"]["cold"]) == (FIRST, SECOND)
    assert rows["second"]["capacity"] == rows["second"]["conflict"] == 0
    [level] = document["levels"]
    assert level["misses"] == sum(row["misses"] for row in document["rows"])


def test_regions_are_listed_with_what_they_cost(made: Made) -> None:
    document = ask("regions", made)
    rows = {row["region"]: row for row in document["rows"]}
    assert set(rows) == {"outer", "inner", "heap", "fork", "<outside>"}
    assert rows["inner"]["inside"] == ["outer"]
    assert rows["outer"]["inside"] == []
    entered = {name: row["entered"] for name, row in rows.items()}
    # The child is born in a region, which it so enters too.
    assert entered == {"outer": 1, "inner": 1, "heap": 1, "fork": 2, "<outside>": 0}
    assert FIRST + SECOND <= rows["outer"]["misses"] < FIRST + SECOND + 20
    apart = [rows[name] for name in ("outer", "heap", "fork", "<outside>")]
    for number in ("instructions", "accesses", "misses"):
        assert sum(row[number] for row in apart) == document[number]


def test_tables_of_regions_add_up_to_those_of_the_run(kept: Made) -> None:
    from stallscope import machines, results

    [image, _] = kept.images()
    probe = results.Probe(evictions=True, classify=True)
    replay = results.replay(image, machines.load("risc-64k"), "risc-64k", probe)
    levels = replay.table("level").to_pylist()
    inside = replay.table("region_level").to_pylist()
    classes = replay.table("miss_class").to_pylist()
    for level in levels:
        for number in ("accesses", "misses", "evictions"):
            parts = [row[number] for row in inside if row["level"] == level["level"]]
            assert sum(parts) == level[number]
        kinds = [row for row in classes if row["level"] == level["level"]]
        found = sum(row["cold"] + row["capacity"] + row["conflict"] for row in kinds)
        assert found == level["misses"]


def test_a_child_goes_on_in_the_region_that_it_was_born_in(live: Made, kept: Made) -> None:
    for made in (live, kept):
        [child] = [image.path for image in made.images()[1:]]
        assert misses_on(ask("objects", child, "--region", "fork"))["third"] == THIRD


def test_a_name_ends_with_its_heap_block(made: Made) -> None:
    [named] = [row for row in made.rows("object") if row["kind"] == "named"]
    block, other = [row for row in made.heap() if row["address"] == named["address"]]
    assert named["name"] == "the block"
    assert named["died"] == block["died"]
    assert named["died"] <= other["born"]
    rows = {row["object"]: row for row in ask("objects", made, "--region", "heap")["rows"]}
    assert rows["the block"]["misses"] == BLOCK  # what takes its place hits, and is not it
    lines = ask("objects", made, "--object", "the block")
    assert {row["function"] for row in lines["rows"]} == {"touch"}


def test_an_unknown_region_names_those_that_there_are(kept: Made) -> None:
    for verb in ("objects", "functions", "lines", "misses", "evictions"):
        ran = run(STALLSCOPE, verb, kept.path, *MACHINE, "--region", "nowhere")
        assert ran.status == 2
        assert "there is no region nowhere" in ran.stderr
        assert "fork, heap, inner, outer" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_a_program_without_regions_is_told_how_to_mark_them(
    record: Recorder, program: Build
) -> None:
    made = record(program("exit_code"), 0, options=["--trace"])
    for words in (["objects", "--region", "hot"], ["regions"]):
        ran = run(STALLSCOPE, words[0], made.path, *words[1:])
        assert ran.status == 2
        assert "the program marks no regions" in ran.stderr
        assert "STALLSCOPE_REGION_BEGIN" in ran.stderr
        assert "stallscope.h" in ran.stderr
