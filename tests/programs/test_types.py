# SPDX-License-Identifier: Apache-2.0
"""What heap blocks hold: the types that the sources of workloads and test programs give them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Made, Ran, Recorder
from stallscope import workloads

Program = Callable[..., Path]
MACHINE = ("--machine", "risc-64k")
# By the line that allocates: a part of its source text.
WORKLOADS = {
    "list": {"malloc(sizeof *node)": "struct node", "malloc(count * sizeof": "struct node *"},
    "bst": {"malloc(sizeof *node)": "struct node"},
    "hashjoin": {
        "build_side = must": "struct build_row",
        "probe_side = must": "struct probe_row",
        "buckets = must": "struct build_row *",
    },
    "mesh": {
        "mesh->first = must": "uint32_t",
        "mesh->neighbours = must": "uint32_t",
        "mesh->values = must": "double",
        "mesh->next = must": "double",
        "uint32_t* number = must": "uint32_t",
    },
    "quake": {
        "double*** K = must": "double **",
        "K[i] = must": "double *",
        "K[i][j] = must": "double",
        "disp[t][i] = must": "double",
    },
}


def objects(path: Path, stallscope: Callable[..., Ran], *words: str) -> list[dict[str, Any]]:
    ran = stallscope("objects", path, *MACHINE, "--json", *words)
    assert ran.status == 0, ran.stderr
    rows: list[dict[str, Any]] = json.loads(ran.stdout)["rows"]
    return rows


def by_line(rows: list[dict[str, Any]], file: str) -> dict[int, dict[str, Any]]:
    """Heap objects by the line of the file that allocates them."""
    found = {}
    for row in rows:
        first = row["object"].split(" < ")[0]
        if row["kind"] == "heap" and f"({file}:" in first:
            found[int(first.rsplit(":", 1)[1].rstrip(")"))] = row
    return found


def line_of(source: Path, text: str) -> int:
    lines = [i for i, line in enumerate(source.read_text().splitlines(), 1) if text in line]
    assert len(lines) >= 1, text
    return lines[0]


@pytest.mark.parametrize("name", WORKLOADS)
def test_blocks_of_the_workloads_have_the_types_of_their_sources(
    name: str,
    record: Recorder,
    workload: Callable[[str], Path],
    stallscope: Callable[..., Ran],
) -> None:
    arguments = workloads.truth(name).command_arguments("quick")
    made = record(workload(name), *arguments, options=MACHINE)
    found = by_line(objects(made.path, stallscope), f"{name}.c")
    source = workloads.find(name)
    for text, expected in WORKLOADS[name].items():
        row = found[line_of(source, text)]
        assert row["type"] == expected, text
        assert row["type_confidence"] > 0.9, text


C_TYPES = {
    "all = take(": "struct particle",
    "fresh = (cell*)take": "struct cell",
    "buffer = malloc(": "struct buffer",
    "rows[i] = calloc": "double",
    "bytes = malloc(": "char",
}


@pytest.mark.parametrize("flags", [("-O0",), ("-O1",), ("-O3",), ("-O2", "-gdwarf-4")])
@pytest.mark.parametrize("pie", [True, False])
def test_blocks_have_their_types_however_a_program_was_built(
    flags: tuple[str, ...],
    pie: bool,
    record: Recorder,
    program: Program,
    stallscope: Callable[..., Ran],
) -> None:
    made = record(program("typed", extra=flags, pie=pie), options=MACHINE)
    rows = objects(made.path, stallscope, "--wrapper", "take")
    found = by_line(rows, "typed.c")
    source = Path(__file__).with_name("typed.c")
    for text, expected in C_TYPES.items():
        row = found[line_of(source, text)]
        assert row["type"] == expected, text
        assert row["type_confidence"] > 0.9, text


CXX_TYPES = {
    "body = new Body": "world::Body",
    "new world::Counted[kCount]": "world::Counted",
    "std::vector<world::Body> bodies": "world::Body",
    "tree[i * 7919": "std::_Rb_tree_node<std::pair<int const, world::Body> >",
}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_blocks_of_classes_have_their_types(
    level: str, record: Recorder, program: Program, stallscope: Callable[..., Ran]
) -> None:
    made = record(program("typed_cxx", extra=(level,)), options=MACHINE)
    rows = objects(made.path, stallscope)
    found = by_line(rows, "typed_cxx.cpp")
    source = Path(__file__).with_name("typed_cxx.cpp")
    for text, expected in CXX_TYPES.items():
        assert found[line_of(source, text)]["type"] == expected, text
    square = next(row for row in rows if "make_unique<world::Square>" in row["object"])
    assert square["type"] == "world::Square"


def test_the_table_shows_types_shortly(
    record: Recorder, program: Program, stallscope: Callable[..., Ran]
) -> None:
    made = record(program("typed"), options=MACHINE)
    shown = stallscope("objects", made.path, *MACHINE).stdout
    assert "struct particle" in " ".join(shown.split())


def test_a_stripped_program_has_no_types(
    record: Recorder, program: Program, stallscope: Callable[..., Ran]
) -> None:
    made = record(program("typed", strip=True), options=MACHINE)
    rows = [row for row in objects(made.path, stallscope) if row["kind"] == "heap"]
    own = [row for row in rows if "typed" in row["object"]]
    assert own
    assert all(row["type"] == "" and row["type_confidence"] is None for row in own)


@pytest.fixture
def copied(record: Recorder, program: Program, tmp_path: Path) -> tuple[Made, Path]:
    """A recording of a program that may be changed."""
    copy = tmp_path / "program"
    shutil.copy(program("typed"), copy)
    return record(copy, options=MACHINE), copy


def types(made: Made, stallscope: Callable[..., Ran]) -> set[str]:
    rows = objects(made.path, stallscope, "--wrapper", "take")
    return {row["type"] for row in by_line(rows, "typed.c").values()}


def test_types_are_kept_with_the_result(
    copied: tuple[Made, Path], stallscope: Callable[..., Ran]
) -> None:
    made, copy = copied
    before = types(made, stallscope)
    assert "struct particle" in before
    copy.unlink()
    assert types(made, stallscope) == before
    (kept,) = made.path.glob("results/*/type.parquet")
    kept.write_bytes(kept.read_bytes()[:-9])  # a damaged one is made again, if that can be done
    assert types(made, stallscope) == {""}


def test_a_program_that_was_built_anew_is_not_believed(
    copied: tuple[Made, Path], stallscope: Callable[..., Ran]
) -> None:
    made, copy = copied
    words = ["gcc", "-g", "-O1", Path(__file__).with_name("typed.c"), "-o", copy]
    subprocess.run([str(word) for word in words], check=True)
    assert types(made, stallscope) == {""}


def test_types_are_a_table_for_queries(
    record: Recorder, program: Program, stallscope: Callable[..., Ran]
) -> None:
    made = record(program("typed"), options=["--trace"])
    sql = "select type, size, element_size, source from type where type = 'struct particle'"
    ran = stallscope("query", made.path, *MACHINE, "--json", sql)
    assert ran.status == 0, ran.stderr
    assert json.loads(ran.stdout)["rows"] == [
        {"type": "struct particle", "size": 64, "element_size": 64, "source": "accesses"}
    ]
