# SPDX-License-Identifier: Apache-2.0
"""Slices compute the addresses that the program itself goes to, and write nothing of its memory."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Made, Ran, Recorder
from tests.programs.emulator import program_addresses, slice_addresses, snapshots

from stallscope import workloads
from stallscope._engine import flows_of
from stallscope.recording import STREAM, open_recording
from stallscope.slicing.slice import Slice, cut
from stallscope.slicing.tables import steps_of
from stallscope.slicing.trace import Code, Declined, Trace, connect

NAMES = [name for name in workloads.names() if workloads.truth(name).load is not None]
MACHINE = "risc-64k"
RUNS = 700  # of the load, at each of three visits: over 16,000 on eight workloads
VISITS = (0, 150, 400)
FED = {"graph", "health"}  # stores of the program feed loads of the slice


@dataclass(frozen=True)
class Case:
    name: str
    made: Made
    program: Path
    arguments: list[str]
    top: dict[str, Any]
    bias: int


@pytest.fixture(scope="module")
def case(shared_record: Recorder, workload: Callable[[str], Path]) -> Callable[[str], Case]:
    @functools.cache
    def make(name: str) -> Case:
        from stallscope.analyses.loads import loads
        from stallscope.viewing import view

        arguments = workloads.truth(name).command_arguments("quick")
        made = shared_record(workload(name), *arguments, options=["--trace"])
        top = loads(view(made.path, machine=MACHINE, event="llc")).rows[0]
        module = next(row for row in made.rows("module") if row["path"] == str(workload(name)))
        return Case(name, made, workload(name), arguments, {"pc": top.pc}, module["bias"])

    return make


def sliced(case: Case, base: int) -> Slice | Declined:
    """The slice for the program as it lies in memory, from what was recorded of it elsewhere."""
    recording = open_recording(case.made.path)
    module = next(row for row in case.made.rows("module") if row["path"] == str(case.program))
    moved = base - case.bias

    def inside(row: dict[str, Any]) -> bool:
        return bool(module["start"] <= row["address"] < module["end"])

    blocks, operations = (
        [row | {"address": row["address"] + moved} for row in case.made.rows(name) if inside(row)]
        for name in ("block", "operation")
    )
    trace = connect(Code(steps_of(blocks, operations)), case.top["pc"] + moved)
    assert isinstance(trace, Trace)
    steps = [step - moved for step in trace.steps]
    flows = flows_of(str(recording.path / STREAM), steps)
    return cut(trace, (), frozenset((store + moved, load + moved) for store, load, _ in flows))


def visits(case: Case) -> Iterator[tuple[Any, Slice]]:
    for snapshot in snapshots(case.program, case.arguments, case.top["pc"] - case.bias, VISITS):
        slice_ = sliced(case, snapshot.base)
        assert isinstance(slice_, Slice)
        yield snapshot, slice_


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_goes_where_the_program_goes(name: str, case: Callable[[str], Case]) -> None:
    same = runs = 0
    for snapshot, slice_ in visits(case(name)):
        native = program_addresses(snapshot, slice_, RUNS)
        ahead = slice_addresses(snapshot, slice_, RUNS)
        assert not isinstance(ahead, Declined), ahead
        same += sum(mine == its for mine, its in zip(ahead, native, strict=False))
        runs += len(native)
        if name not in FED:
            assert ahead == native
    assert runs >= 1300
    assert same >= 0.9 * runs, f"{runs - same} of {runs} addresses diverge"


def test_the_control_slice_takes_the_same_way(case: Callable[[str], Case]) -> None:
    snapshot, slice_ = next(visits(case("list")))
    control = slice_addresses(snapshot, slice_, RUNS, prefetch=False)
    assert control == slice_addresses(snapshot, slice_, RUNS)


def test_slices_are_shown_as_assembly_and_as_c(
    case: Callable[[str], Case], stallscope: Callable[..., Ran]
) -> None:
    path = case("list").made.path
    ran = stallscope("slices", path, "--machine", MACHINE, "--json")
    assert ran.status == 0, ran.stderr
    row = json.loads(ran.stdout)["rows"][0]
    assert row["class"] == "chase"
    assert [line["role"] for line in row["assembly"]] == ["load", "data", "data", "branch"]
    assert "__builtin_prefetch((const void*)(rdi + 8));" in row["c"]
    shown = stallscope("slices", path, "--machine", MACHINE)
    assert "prefetched" in shown.stdout
    assert "4 of 5 instructions" in shown.stdout
    assert "goto" in stallscope("slices", path, "--machine", MACHINE, "--c").stdout


def test_a_load_in_no_loop_is_declined_with_a_reason(case: Callable[[str], Case]) -> None:
    rows = case("bst").made
    code = Code(steps_of(rows.rows("block"), rows.rows("operation")))
    operations = [row for row in rows.rows("operation") if row["function"] == "free_tree"]
    found = connect(code, max(operations, key=lambda row: row["executions"])["address"])
    assert isinstance(found, Declined)
    assert "it calls itself" in found.reason


def test_a_recording_without_a_trace_is_refused(
    record: Recorder, workload: Callable[[str], Path], stallscope: Callable[..., Ran]
) -> None:
    made = record(workload("list"), 100, 2, options=["--machine", MACHINE, "--event", "llc"])
    ran = stallscope("slices", made.path)
    assert ran.status == 2
    assert "--trace" in ran.stderr
