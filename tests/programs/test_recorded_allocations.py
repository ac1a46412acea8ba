# SPDX-License-Identifier: Apache-2.0
"""Heap blocks: exact numbers, real layout, and the functions that made them."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope
from conftest import Made, Recorder, run
from stallscope import workloads
from stallscope.record import valgrind

Build = Callable[..., Path]


def check_disjoint(made: Made) -> None:
    """No byte belongs to two heap blocks at once."""
    changes = []
    for number, row in enumerate(made.heap()):
        if row["died"] == row["born"] or row["size"] == 0:
            continue
        changes.append((row["born"], 1, number, row))
        if row["died"] is not None:
            changes.append((row["died"], 0, number, row))
    alive: dict[int, int] = {}
    for _, begins, _, row in sorted(changes, key=lambda change: change[:3]):
        if begins:
            for line in range(row["address"], row["address"] + row["size"]):
                assert line not in alive, f"{line:#x} belongs to two blocks"
                alive[line] = row["size"]
        else:
            for line in range(row["address"], row["address"] + row["size"]):
                del alive[line]


@pytest.mark.parametrize(
    ("name", "aligned"),
    [("allocators", 5), ("allocators_jemalloc", 4), ("allocators_tcmalloc", 5)],
)
def test_every_allocation_function_is_counted_exactly(
    name: str, aligned: int, record: Recorder, program: Build
) -> None:
    made = record(program(name))
    assert (made.status, made.ran.stdout) == (0, "ended=1 aligned=1 failures=3\n")
    paths = {
        row["site"] for row in made.rows("site") if row["function"] in ("main", "aligned_family")
    }
    kinds = Counter(row["allocator"] for row in made.heap() if row["site"] in paths)
    # printf's buffer is a malloc too, and main is further up its path.
    assert kinds == {"malloc": 3, "calloc": 1, "realloc": 3, "aligned": aligned}
    sizes = {row["allocator"]: [] for row in made.heap()}
    for row in made.heap():
        if row["site"] in paths:
            sizes[row["allocator"]].append(row["size"])
    assert sizes["realloc"] == [30, 3000, 6000]
    assert sizes["calloc"] == [200]
    ended = [row for row in made.heap() if row["site"] in paths and row["died"] is not None]
    # They end by free, by realloc(block, 0), and taken in by a realloc; printf's buffer lives on.
    assert len(ended) == 6 + aligned
    check_disjoint(made)


@pytest.mark.parametrize("name", ["cxx_new", "cxx_new_jemalloc", "cxx_new_tcmalloc"])
def test_every_form_of_new_is_counted_exactly(name: str, record: Recorder, program: Build) -> None:
    made = record(program(name))
    assert (made.status, made.ran.stdout) == (0, "vector=4 thrown=1 null=1\n")
    own = {row["site"] for row in made.rows("site") if row["function"] == "main"}
    blocks = [row for row in made.heap() if row["site"] in own]
    news = [row for row in blocks if row["allocator"] in ("new", "new_array")]
    assert [row["size"] for row in sorted(news, key=lambda row: row["born"])] == [
        *(4, 4, 256, 256),
        *(40, 80, 768, 1024),
        *(4, 8, 12, 16),
    ]
    assert all(row["died"] is not None for row in news)
    if name != "cxx_new_tcmalloc":  # there new and new[] are one function under two names
        assert Counter(row["allocator"] for row in news) == {"new": 8, "new_array": 4}
    check_disjoint(made)


def test_the_numbers_of_churn_are_its_truth(
    record: Recorder, workload: Callable[[str], Path]
) -> None:
    truth = workloads.truth("churn")
    made = record(workload("churn"), *truth.command_arguments("quick"))
    values = truth.values("quick", made.ran.stdout)
    functions: dict[int, str] = {}
    for row in made.rows("site"):
        named = {allocation.function for allocation in truth.allocations}
        if row["function"] in named:
            functions.setdefault(row["site"], row["function"])
    counted = Counter((functions.get(row["site"]), row["allocator"]) for row in made.heap())
    for allocation in truth.allocations:
        wanted = workloads.evaluate(allocation.calls, values)
        assert counted[allocation.function, allocation.allocator] == wanted
    grown = values["grown"]
    assert made.info.frees == workloads.evaluate(truth.frees, values) + grown


@pytest.mark.parametrize("name", ["heapmap", "heapmap_cxx"])
@pytest.mark.parametrize("options", [(), ("--trace",)], ids=["counts", "trace"])
def test_heap_distances_are_the_same_natively_and_recorded(
    name: str, options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    native = run(program(name))
    made = record(program(name), options=options)
    assert len(native.out.splitlines()) > 100
    assert made.ran.out == native.out
    check_disjoint(made)


@pytest.mark.parametrize("name", ["heapmap", "heapmap_cxx"])
def test_recorded_distances_are_the_printed_ones(
    name: str, record: Recorder, program: Build
) -> None:
    made = record(program(name))
    printed = [int(line.split()[-1]) for line in made.ran.stdout.splitlines()]
    own = {row["site"] for row in made.rows("site") if row["function"] in ("main", "make")}
    blocks = sorted(
        (row for row in made.heap() if row["site"] in own and row["size"] != 4096),
        key=lambda row: row["born"],
    )
    # `new Small[n]` shows the first element, behind the count that the block begins with.
    shown = [row["address"] for row in blocks]
    if name == "heapmap_cxx":
        forms = [re.sub(r" -?\d+$", "", line) for line in made.ran.stdout.splitlines()]
        forms.insert(0, "new")
        shown = [
            a + (8 if form == "new[] with count" else 0)
            for a, form in zip(shown, forms, strict=True)
        ]
    assert [b - a for a, b in itertools.pairwise(shown)] == printed


def test_call_paths_name_the_functions_from_the_inside_out(
    record: Recorder, program: Build
) -> None:
    made = record(program("dlopen"))
    site = next(row["site"] for row in made.rows("site") if row["function"] == "plugin_sum")
    path = [row for row in made.rows("site") if row["site"] == site]
    assert [row["depth"] for row in path] == list(range(len(path)))
    functions = [row["function"] for row in path]
    assert functions[0] == "plugin_sum"
    assert functions.index("use") < functions.index("main")
    assert path[0]["file"].endswith("dlopen_plugin.c")
    assert path[0]["line"] == 8


class Slow:
    """A recorder between whose two answers, finished processes and rows, the target always ends."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.asked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder, name)

    def _after_the_end(self, taken: Any) -> Any:
        while not self.asked and self.recorder.progress()[2] == 0:
            time.sleep(0.01)  # it has not begun
        while not self.asked and self.recorder.progress()[2] > 0:
            time.sleep(0.01)
        self.asked = True
        return taken

    def take_batches(self) -> Any:
        return self._after_the_end(self.recorder.take_batches())

    def take_finished(self) -> Any:
        return self._after_the_end(self.recorder.take_finished())


def test_no_row_is_lost_when_a_target_ends_while_its_rows_are_taken(
    workload: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 300_000  # more than rows are handed over at a time
    real = valgrind._recorder
    monkeypatch.setattr(valgrind, "_recorder", lambda *words: Slow(real(*words)))
    command = [str(workload("churn")), str(steps), "512"]
    made = stallscope.record(command, output=tmp_path / "r.stallscope")
    kinds = made.recording.table("object").column("kind").to_pylist()
    assert kinds.count("heap") == made.recording.meta.allocations >= steps


def test_without_the_heap_its_misses_are_those_of_the_mapping(record: Recorder) -> None:
    command = (workloads.build("churn"), "2000", "64")
    told = record(*command, options=("--machine", "default"))
    untold = record(*command, options=("--machine", "default", "--no-heap"))
    assert told.heap() and not untold.heap()
    rows = [stallscope.objects(stallscope.view(made.path)).rows for made in (told, untold)]
    kinds = [{row.kind for row in some} for some in rows]
    assert "heap" in kinds[0]
    assert "heap" not in kinds[1]
    assert sum(row.misses for row in rows[0]) == sum(row.misses for row in rows[1])


@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O2", "-fno-omit-frame-pointer")])
def test_paths_that_share_a_stack_pointer_are_told_apart(
    flags: tuple[str, ...], record: Recorder, program: Build
) -> None:
    """Walks are remembered: never beyond what they read."""
    made = record(program("paths", extra=flags))
    assert made.status == 0
    paths: dict[int, list[str]] = {}
    for row in sorted(made.rows("site"), key=lambda row: (row["site"], row["depth"])):
        paths.setdefault(row["site"], []).append(row["function"])
    found = Counter()
    for row in made.heap():
        if row["size"] in (101, 102, 103) or 200 <= row["size"] < 208:
            path = paths[row["site"]]
            found[row["size"], " ".join(path[1 : path.index("main")])] += 1
    turns = {}
    for turn in range(8):
        sides = ["right" if turn >> bit & 1 else "left" for bit in range(3)]
        turns[200 + turn, f"turn {' turn '.join(sides)} turn"] = len(range(turn, 60, 8))
    expected = {(101, "inner first"): 80, (102, "inner second"): 60, (103, "moved"): 60}
    assert found == expected | turns
