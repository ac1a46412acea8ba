# SPDX-License-Identifier: Apache-2.0
"""Questions about a recording of several processes: all of them together, or one."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stallscope as api
from conftest import PROGRAMS, Made, Ran, Recorder
from stallscope import meta

MACHINE = ("--machine", "risc-64k")
# What programs that read the documents may rely on; more may come.
OF_ALL = {"recording", "machine", "processes", "rows"}
SHARES = {"misses", "sampled", "share", "sampled_share", "latency", "latency_share"}
PROMISED = {
    "objects": (
        {"level", "misses", "samples", "period", "seed", "levels"},
        {"object", "kind", "type", "site", "blocks", "bytes", "latency_per_miss", *SHARES},
    ),
    "functions": ({"level", "misses", "samples", "levels"}, {"function", "file", *SHARES}),
    "lines": ({"level", "misses", "samples", "levels"}, {"function", "file", "line", *SHARES}),
    "evictions": (
        {"samples", "period", "levels"},
        {"level", "evicted", "by", "function", "line", "count", "share", "share_all"},
    ),
    "misses": ({"levels"}, {"level", "object", "function", "line", "misses", "share"}),
    "replay": ({"instructions", "accesses"}, {"level", "accesses", "misses", "hit_ratio"}),
}
# What makes rows of each verb comparable, and what is counted in them.
VERBS = {
    "objects": (("object", "kind"), "misses"),
    "functions": (("function", "file"), "misses"),
    "lines": (("function", "file", "line"), "misses"),
    "evictions": (("level", "evicted", "by"), "count"),
    "misses": (("level",), "misses"),
    "replay": (("level",), "misses"),
}


@pytest.fixture(scope="module")
def tree(shared_record: Recorder, program: Callable[..., Path]) -> Made:
    options = [*MACHINE, "--probe", "evictions"]
    return shared_record(program("two_arrays"), options=options)


@pytest.fixture(scope="module")
def script(shared_record: Recorder) -> Made:
    return shared_record(PROGRAMS / "pipeline.sh", options=["--trace"])


def ask(verb: str, made: Made, process: object = None) -> Any:
    """As Python does, which is quicker; one test below asks on the command line as well."""
    view = api.view(made.path, machine="risc-64k", process=process, evictions=True)
    return msgspec.to_builtins(getattr(api, verb)(view))


def counted(verb: str, document: Any) -> collections.Counter[tuple[object, ...]]:
    names, count = VERBS[verb]
    found: collections.Counter[tuple[object, ...]] = collections.Counter()
    for row in document["rows"]:
        key = tuple(row[name] for name in names)
        assert key not in found, "rows of the same name are one row"
        found[key] = row[count]
    return found


@pytest.mark.parametrize("which", ["tree", "script"])
@pytest.mark.parametrize("verb", VERBS)
def test_all_processes_together_are_the_sum_of_each(
    verb: str, which: str, request: pytest.FixtureRequest
) -> None:
    made: Made = request.getfixturevalue(which)
    together = ask(verb, made)
    images = [(row.name, row.pid) for row in made.info.processes]
    assert [(row["name"], row["pid"]) for row in together["processes"]] == images
    assert len(images) > 1
    alone: collections.Counter[tuple[object, ...]] = collections.Counter()
    for name, _ in images:
        one = ask(verb, made, name)
        assert [row["name"] for row in one["processes"]] == [name]
        alone.update(counted(verb, one))
    assert counted(verb, together) == alone
    assert ask(verb, made, "all") == together


def test_each_process_has_its_own_array_and_both_the_function(
    tree: Made,
) -> None:
    root, child = (row.pid for row in tree.info.processes)
    assert tree.ran.stdout == "sum=80000 child=0\n"
    for pid, array, lines in ((root, "of_parent", 80000), (child, "of_child", 20000)):
        rows = ask("objects", tree, pid)["rows"]
        assert (rows[0]["object"], rows[0]["misses"]) == (array, lines)
    together = ask("functions", tree)["rows"]
    assert (together[0]["function"], together[0]["misses"]) == ("walk", 100_000)
    assert ask("objects", tree)["levels"][0]["misses"] > 100_000


def test_samples_of_different_periods_weigh_what_they_stand_for(
    tree: Made,
) -> None:
    root, child = (row.pid for row in tree.info.processes)
    periods = [ask("objects", tree, p)["period"] for p in (root, child)]
    assert periods[0] > periods[1] == 1
    rows = ask("objects", tree)["rows"]
    shares = {row["object"]: (row["share"], row["sampled_share"]) for row in rows[:2]}
    for exact, sampled in shares.values():
        assert sampled == pytest.approx(exact, abs=0.015)
    assert shares["of_parent"][0] > 3.5 * shares["of_child"][0]
    assert sum(row["sampled_share"] for row in rows) == pytest.approx(1)


def test_a_process_of_several_images_is_all_of_them(
    record: Recorder, program: Callable[..., Path]
) -> None:
    made = record(program("exec_chain"), options=[*MACHINE, "--probe", "evictions"])
    [pid] = {row.pid for row in made.info.processes}
    assert len(ask("objects", made, pid)["processes"]) == 4
    assert len(ask("objects", made, f"{pid}.2")["processes"]) == 1


@pytest.mark.parametrize("wrong", ["1", "all of them", "", "-3", "99999999"])
def test_an_unknown_process_gets_those_there_are(
    wrong: str, tree: Made, stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("objects", tree.path, "--process", wrong)
    assert ran.status == 2
    assert "has no process" in ran.stderr
    for row in tree.info.processes:
        assert f"{row.pid} (two_arrays)" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_processes_without_a_trace_are_left_out_and_named(
    record: Recorder, program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    made = record(program("fork_tree"), 1, options=["--trace"])
    child = made.images()[1]
    meta.write(msgspec.structs.replace(child.meta, trace=False), child.path)
    ran = stallscope("objects", made.path, *MACHINE, "--json")
    assert ran.status == 0
    assert f"left out, as they have no trace: {child.meta.name}" in ran.stderr
    assert len(json.loads(ran.stdout)["processes"]) == 2
    alone = stallscope("objects", made.path, *MACHINE, "--process", child.meta.pid)
    assert alone.status == 2
    assert "has no trace to replay" in alone.stderr


def test_people_are_told_that_processes_are_together(
    tree: Made, stallscope: Callable[..., Ran]
) -> None:
    for verb in VERBS:
        assert "2 processes together" in stallscope(verb, tree.path, *MACHINE).stdout
    one = stallscope("objects", tree.path, *MACHINE, "--process", tree.info.processes[1].pid)
    assert one.status == 0
    assert "together" not in one.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_the_command_line_asks_with_the_same_words(
    verb: str, tree: Made, stallscope: Callable[..., Ran]
) -> None:
    pid = tree.info.processes[1].pid
    ran = stallscope(verb, tree.path, *MACHINE, "--process", pid, "--json")
    assert ran.status == 0, ran.stderr
    assert json.loads(ran.stdout) == {"schema": f"stallscope.{verb}/1", **ask(verb, tree, pid)}


@pytest.mark.parametrize("verb", VERBS)
def test_documents_keep_their_promised_keys(verb: str, tree: Made) -> None:
    document = ask(verb, tree)
    keys, row_keys = PROMISED[verb]
    assert OF_ALL | keys <= document.keys()
    assert document["rows"]
    for row in document["rows"]:
        assert row_keys <= row.keys()
    for process in document["processes"]:
        assert {"name", "pid", "command"} <= process.keys()
    for level in document.get("levels", []):
        assert {"level", "accesses", "misses"} <= level.keys()


@pytest.mark.parametrize(
    ("verb", "suffix"),
    [("objects", ".png"), ("functions", ".svg"), ("lines", ".html"), ("evictions", ".html")],
)
def test_a_picture_comes_beside_the_answer(
    verb: str, suffix: str, tree: Made, stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    file = tmp_path / f"picture{suffix}"
    ran = stallscope(verb, tree.path, *MACHINE, "--json", "--plot", file)
    assert (ran.status, ran.err) == (0, b"")
    assert json.loads(ran.out)["rows"] == ask(verb, tree)["rows"]
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".html": b"<!doctype html>"}[suffix]
    data = file.read_bytes()
    assert data.startswith(start)
    if suffix != ".png":
        assert b"2 processes together" in data
        assert (b"of_parent" if verb == "evictions" else b"walk") in data


@pytest.mark.parametrize(
    ("name", "said"),
    [("p.gif", ".png, .svg, .html"), ("no/p.png", "there is no folder"), ("", "which kind")],
)
def test_a_picture_that_cannot_be_made_is_one_sentence_before_any_work(
    name: str, said: str, tree: Made, stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = stallscope("objects", tree.path, "--plot", f"{tmp_path}/{name}" if name else "")
    assert ran.status == 2
    assert said in ran.stderr
    assert ran.out == b""
    assert "Traceback" not in ran.stderr
