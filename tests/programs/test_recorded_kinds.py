# SPDX-License-Identifier: Apache-2.0
"""Threads, signals, jumps, loaded and generated code, and every kind of executable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import stallscope as api
from conftest import Made, Ran, Recorder, run

Build = Callable[..., Path]
BOTH = pytest.mark.parametrize("options", [(), ("--trace",)], ids=["counts", "trace"])


def accesses_of(made: Made, function: str, kind: int, size: int) -> int:
    return sum(
        row["executions"]
        for row in made.rows("operation")
        if (row["function"], row["kind"], row["size"]) == (function, kind, size)
    )


@BOTH
def test_two_hundred_threads_keep_names_that_were_set_late(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("threads200"), options=options)
    assert (made.status, made.ran.stdout) == (0, "threads=200 sum=104755200\n")
    assert made.info.threads == 201
    names = [row["name"] for row in made.rows("thread")]
    wanted = [f"late-{n:03}" if n % 2 == 0 else f"given-{n:03}" for n in range(200)]
    assert names == ["threads200", *wanted]
    assert all(row["instructions"] > 1000 for row in made.rows("thread"))
    assert all(row["ended"] is not None for row in made.rows("thread")[1:])
    assert all(row["parent"] == 1 for row in made.rows("thread")[1:])


def test_prefetch_instructions_bring_lines_and_are_no_accesses(
    record: Recorder, program: Build
) -> None:
    """Of every form, also where nothing but the prefetch needs the address."""
    made = record(program("prefetches"), options=["--trace", "--machine", "default"])
    assert (made.status, made.ran.stdout) == (0, "sum=0\n")
    lines = 40
    prefetches = [row for row in made.rows("operation") if row["kind"] == 4]
    assert sum(row["executions"] for row in prefetches) == 6 * lines + 2
    assert {row["function"] for row in prefetches} == {"prefetch_all", "prefetch_maybe"}
    reads = accesses_of(made, "read_all", 0, 1)
    assert reads == 7 * lines
    misses = {row.object: row.misses for row in api.objects(api.view(made.path)).rows}
    assert misses["none"] == lines
    prefetched = ("plain", "based", "scaled", "lost", "maybe", "written", "near", "own")
    assert [misses.get(name, 0) for name in prefetched] == [0] * len(prefetched)


@BOTH
def test_locks_are_respected_and_leave_marks(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("locks"), options=options)
    assert (made.status, made.ran.stdout) == (0, "counter=80000 turns=1000\n")
    kinds = Counter(row["kind"] for row in made.rows("event"))
    assert kinds["clone"] == 6
    assert kinds["exit"] == 6
    assert kinds["futex_wait"] >= kinds["futex_woken"] > 0
    assert kinds["futex_wake"] > 0
    turns = [row["turns"] for row in made.rows("thread")]
    assert sum(turns) >= 2 * len(turns)  # the last one left has only one


def test_short_turns_interleave_threads(record: Recorder, workload: Callable[[str], Path]) -> None:
    command = [workload("scoreboards"), 6, 2, 400, 1]  # threads that live long enough to meet
    turns = [
        sum(row["turns"] for row in record(*command, options=["--turn", n]).rows("thread"))
        for n in (100, 100_000)
    ]
    assert turns[0] > 2 * turns[1]


@BOTH
def test_signal_handlers_leave_marks(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("signals"), options=options)
    assert (made.status, made.ran.stdout) == (
        0,
        "users=20 deepest=2 own_stack=1 ticks=enough\n",
    )
    entered = Counter(row["value"] for row in made.events("signal"))
    left = Counter(row["value"] for row in made.events("signal_return"))
    assert (entered[10], entered[12], entered[23]) == (10, 10, 1)
    assert entered[14] >= 5
    assert entered == left


@BOTH
def test_longjmp_out_of_frames_and_handlers_is_survived(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("longjmp"), options=options)
    assert (made.status, made.ran.stdout) == (0, "jumps=1000\nfaults=10\nsignals=10\n")
    entered = Counter(row["value"] for row in made.events("signal"))
    assert (entered[11], entered[10]) == (10, 10)


@BOTH
def test_a_handler_of_faults_sees_the_exact_instruction(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("fault_address"), options=options)
    assert (made.status, made.ran.stdout) == (0, "exact=3 other=0 sum=80\n")


@BOTH
def test_a_library_that_comes_and_goes_is_named_each_time(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("dlopen"), options=options)
    assert (made.status, made.ran.stdout) == (0, "sum=4951\nsum=19901\nsum=44851\n")
    loads = [row for row in made.rows("module") if row["path"].endswith("dlopen_plugin.so")]
    assert len(loads) == 3
    assert all(row["loaded"] < row["unloaded"] for row in loads)
    sites = {row["site"] for row in made.rows("site") if row["function"] == "plugin_sum"}
    blocks = [row["size"] for row in made.heap() if row["site"] in sites]
    assert blocks == [400, 800, 1200]
    functions = {row["function"] for row in made.rows("block")}
    assert "plugin_sum" in functions


@BOTH
def test_code_that_is_rewritten_is_recorded_with_its_bytes(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("jit"), options=options)
    assert (made.status, made.ran.stdout) == (0, "sum=111100\nsum=222200\nsum=333300\n")
    wanted = {b"\xb8" + (n * 1111).to_bytes(4, "little") + b"\xc3" for n in (1, 2, 3)}
    generated = [row for row in made.rows("block") if row["bytes"] in wanted]
    assert {row["bytes"] for row in generated} == wanted
    assert sum(row["executions"] for row in generated) == 300
    assert {row["module"] for row in generated} == {None}


def test_generated_code_has_the_name_that_its_maker_left(record: Recorder, program: Build) -> None:
    made = record(program("jit"), "Lcode::made(int)")
    Path(f"/tmp/perf-{made.info.processes[0].pid}.map").unlink()
    named = [row for row in made.rows("block") if row["function"] == "Lcode::made(int)"]
    assert sum(row["executions"] for row in named) == 300


def test_mappings_have_the_history_that_the_program_gave_them(
    record: Recorder, program: Build
) -> None:
    made = record(program("mmaps"))
    assert made.ran.stdout == "first=10 middle=3 moved=200 break=3 elf=1\n"
    mappings = [row for row in made.rows("object") if row["kind"] == "mapping"]
    anonymous = [row for row in mappings if row["name"] == ""]
    pages = Counter(row["size"] // 4096 for row in anonymous if row["died"] is not None)
    assert pages[4] >= 2  # unmapped from the middle, and what was left in front of it
    assert pages[2] >= 1  # over part of the hole
    # Remapped: what moved, and what it grew by, end to end and gone together.
    [grown] = [row for row in anonymous if row["size"] == 56 * 4096]
    [moved] = [row for row in anonymous if row["address"] == grown["address"] - 8 * 4096]
    assert (moved["size"], moved["died"]) == (8 * 4096, grown["died"])
    assert all(row["died"] is None or row["born"] <= row["died"] for row in mappings)


@pytest.mark.parametrize(
    "kind", [{}, {"pie": False}, {"strip": True}, {"pie": False, "strip": True}], ids=str
)
def test_every_kind_of_executable_runs_and_counts_alike(
    kind: dict[str, bool], record: Recorder, program: Build
) -> None:
    made = record(program("skip", **kind))
    assert (made.status, made.ran.stdout) == (0, "sum=69930004\n")
    name = str(program("skip", **kind))
    [module] = [row for row in made.rows("module") if row["path"] == name]
    own = {row["block"] for row in made.rows("block") if row["module"] == module["module"]}
    loads = [row for row in made.rows("operation") if row["block"] in own and row["kind"] == 0]
    assert sum(row["executions"] for row in loads if row["size"] == 4) == 60_000
    functions = {row["function"] for row in made.rows("block") if row["module"] == module["module"]}
    if kind.get("strip"):
        assert not {"warmup", "work", "cool"} & functions
        # Each under the address where it begins: what unwinds them is left.
        nameless = {function for function in functions if function.startswith("skip+0x")}
        assert {20_000, 30_000} <= {accesses_of(made, one, 0, 4) for one in nameless}
    else:
        assert {"main", "warmup", "work", "cool"} <= functions
        assert accesses_of(made, "work", 0, 4) == 20_000
        assert accesses_of(made, "cool", 0, 4) == 30_000


def test_a_static_program_is_recorded_and_says_that_its_heap_is_unknown(
    record: Recorder, program: Build, stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    static = program("skip", static=True)
    made = record(static)
    assert (made.status, made.ran.stdout) == (0, "sum=69930004\n")
    assert accesses_of(made, "cool", 0, 4) == 30_000
    assert len(made.rows("module")) <= 2
    loud = stallscope("record", static, cwd=tmp_path)
    assert "static" in loud.stderr
    assert "heap" in loud.stderr


def test_many_blocks_of_code_are_all_there(record: Recorder, program: Build) -> None:
    made = record(program("many_blocks"), options=["--trace"])
    assert made.ran.out == run(program("many_blocks")).out
    functions = {row["function"] for row in made.rows("block")}
    assert {f"f{n}" for n in range(2500)} <= functions
