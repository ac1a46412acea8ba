# SPDX-License-Identifier: Apache-2.0
"""Where inside of objects misses fall: at the fields that the programs use, and nowhere else."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope as api
from conftest import Made, Ran, Recorder
from stallscope import workloads

Program = Callable[..., Path]
Command = Callable[..., Ran]
MACHINE = ("--machine", "risc-64k")


def ask(stallscope: Command, path: Path, *words: str) -> Any:
    ran = stallscope("objects", path, *MACHINE, "--json", *words)
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout)


def fields(document: Any, begins: str) -> dict[str, int]:
    """Misses by field of the objects whose names begin so."""
    found: collections.Counter[str] = collections.Counter()
    for row in document["rows"]:
        if row["object"].startswith(begins):
            found[row["field"]] += row["misses"]
    return found


def described(document: Any, begins: str) -> Any:
    return next(one for one in document["objects"] if one["object"].startswith(begins))


@pytest.fixture(scope="module")
def typed(shared_record: Recorder, program: Program) -> Made:
    return shared_record(program("typed"), options=["--trace"])


@pytest.fixture(scope="module")
def typed_cxx(shared_record: Recorder, program: Program) -> Made:
    return shared_record(program("typed_cxx"), options=["--trace"])


def test_every_miss_on_a_block_or_variable_is_somewhere_in_it(
    typed: Made, stallscope: Command
) -> None:
    inside = ask(stallscope, typed.path, "--offsets")
    sums: collections.Counter[str] = collections.Counter()
    waits: collections.Counter[str] = collections.Counter()
    for row in inside["rows"]:
        sums[row["object"]] += row["misses"]
        waits[row["object"]] += row["latency"]
    whole = ask(stallscope, typed.path)["rows"]
    counted = [row for row in whole if row["kind"] in ("heap", "global")]
    assert len(counted) > 5
    for row in counted:
        assert sums[row["object"]] == row["misses"], row["object"]
        assert waits[row["object"]] == row["latency"], row["object"]
    assert sum(row["share"] for row in inside["rows"]) == pytest.approx(1)


def test_fields_of_an_array_of_structs(typed: Made, stallscope: Command) -> None:
    document = ask(stallscope, typed.path, "--offsets", "--wrapper", "take")
    particles = fields(document, "make_particles")
    assert particles["velocity.y"] > 5 * particles["name[3]"] > 0
    used = {"velocity.y", "velocity.z", "name[3]", "nearest"}
    other = sum(misses for name, misses in particles.items() if name not in used)
    assert other <= 2000 + 2000 * 64 / 32  # memset touches each line once, wherever that is
    about = described(document, "make_particles")
    assert (about["type"], about["element_size"], about["by"]) == ("struct particle", 64, "field")
    row = next(r for r in document["rows"] if r["field"] == "velocity.y")
    assert (row["offset"], row["size"], row["type"]) == (20, 4, "float")


def test_functions_that_touch_a_field(typed: Made, stallscope: Command) -> None:
    words = ("--offsets", "--by-function", "--wrapper", "take")
    rows = ask(stallscope, typed.path, *words)["rows"]
    by = {row["function"] for row in rows if row["field"] == "velocity.y"}
    assert by == {"move"}
    assert {row["function"] for row in rows if row["field"] == "weight"} >= {"weigh"}


def test_the_nodes_of_a_list(
    record: Recorder, workload: Callable[[str], Path], stallscope: Command
) -> None:
    made = record(
        workload("list"),
        *workloads.truth("list").command_arguments("quick"),
        options=[*MACHINE, "--probe", "offsets"],
    )
    document = ask(stallscope, made.path, "--offsets")
    nodes = fields(document, "make_node")
    walked = nodes["next"] + nodes["payload[0]"]
    assert walked > 0.9 * sum(nodes.values())
    assert described(document, "make_node")["element_size"] == 64


def test_rows_of_a_hash_join_are_folded_while_it_runs(
    record: Recorder, workload: Callable[[str], Path], stallscope: Command
) -> None:
    arguments = workloads.truth("hashjoin").command_arguments("default")
    live = record(workload("hashjoin"), *arguments, options=[*MACHINE, "--probe", "offsets"])
    document = ask(stallscope, live.path, "--offsets")
    (build,) = (one for one in document["objects"] if one["type"] == "struct build_row")
    rows = fields(document, build["object"])
    assert set(rows) <= {"key", "payload[0]", "payload[1]", "next"}
    assert rows["key"] > rows["payload[1]"] > 0
    folds = api.view(live.path, machine="risc-64k", offsets=True).replay.table("fold")
    periods = [row["period"] for row in folds.to_pylist()]
    assert 32 in periods
    assert 16 in periods


def test_a_machine_beside_the_program_finds_what_a_replay_finds(
    typed: Made, record: Recorder, program: Program, stallscope: Command
) -> None:
    live = record(program("typed"), options=[*MACHINE, "--probe", "offsets"])
    found = [ask(stallscope, path, "--offsets") for path in (live.path, typed.path)]
    rows = [
        sorted(
            (r["object"], r["field"], r["offset"], r["misses"], r["latency"])
            for r in document["rows"]
            if "typed.c" in r["object"]
        )
        for document in found
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) > 100


def test_an_array_with_a_count_in_front_of_it(typed_cxx: Made, stallscope: Command) -> None:
    document = ask(stallscope, typed_cxx.path, "--offsets")
    counted = next(one for one in document["objects"] if one["type"] == "world::Counted")
    rows = fields(document, counted["object"])
    # The line that a value is in misses at the first of its values that is used: c comes first.
    assert rows["c"] > 0.8 * sum(rows.values())
    assert rows["b"] == 0


def test_fields_of_base_classes(typed_cxx: Made, stallscope: Command) -> None:
    document = ask(stallscope, typed_cxx.path, "--offsets")
    square = next(one for one in document["objects"] if one["type"] == "world::Square")
    assert set(fields(document, square["object"])) <= {"_vptr.Shape", "scale", "side"}
    node = next(one for one in document["objects"] if "_Rb_tree_node" in one["type"])
    assert {"_M_left", "_M_right"} <= set(fields(document, node["object"]))


def test_without_a_type_there_are_words_and_lines(
    record: Recorder, program: Program, stallscope: Command
) -> None:
    made = record(program("typed", strip=True), options=[*MACHINE, "--probe", "offsets"])
    document = ask(stallscope, made.path, "--offsets")
    own = [one for one in document["objects"] if "typed+" in one["object"]]
    assert {one["by"] for one in own} == {"word", "line"}
    assert all(one["type"] == "" and one["type_confidence"] is None for one in own)
    for row in document["rows"]:
        if "typed+" in row["object"]:
            assert row["field"] == ""
            assert row["offset"] % row["size"] == 0
            assert row["size"] in (8, 64)


def test_the_table_says_what_offsets_count_from(typed: Made, stallscope: Command) -> None:
    name = next(
        row["object"]
        for row in ask(stallscope, typed.path)["rows"]
        if row["type"] == "struct particle"
    )
    ran = stallscope("objects", typed.path, *MACHINE, "--offsets", "--object", name)
    text = " ".join(ran.stdout.split())
    assert "struct particle, by field of its 64 bytes" in text
    assert "velocity.y float" in text
    other = next(
        row["object"] for row in ask(stallscope, typed.path)["rows"] if row["type"] == "double"
    )
    ran = stallscope("objects", typed.path, *MACHINE, "--offsets", "--object", other)
    assert "in lines of 64 bytes" in " ".join(ran.stdout.split())


def test_python_says_the_same(typed: Made, stallscope: Command) -> None:
    view = api.view(typed.path, machine="risc-64k", offsets=True)
    found = api.offsets(view)
    rows = ask(stallscope, typed.path, "--offsets")["rows"]
    assert [(row.object, row.field, row.misses) for row in found.rows] == [
        (row["object"], row["field"], row["misses"]) for row in rows
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--offsets", "--object", "nobody"), "no object is called nobody"),
        (("--offsets", "--object", "<stack>"), "it is not known where in <stack>"),
        (("--by-function",), "--by-function is for --offsets"),
        (("--offsets", "--function", "main"), "--offsets is not for --function"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_sentence(
    typed: Made, stallscope: Command, words: tuple[str, ...], message: str
) -> None:
    ran = stallscope("objects", typed.path, *MACHINE, *words)
    assert ran.status == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_recording_without_offsets_says_how_to_record(
    record: Recorder, program: Program, stallscope: Command
) -> None:
    made = record(program("typed"), options=MACHINE)
    ran = stallscope("objects", made.path, *MACHINE, "--offsets")
    assert ran.status == 2
    assert "--probe offsets" in ran.stderr
