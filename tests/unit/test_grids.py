# SPDX-License-Identifier: Apache-2.0
"""Grids, the choice of a design, and workers that are killed, without any recording."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stallscope import machines
from stallscope.analyses import sweep as analysis
from stallscope.errors import StallscopeError
from stallscope.scale import grid, plan
from stallscope.scale.cells import Task
from stallscope.scale.pool import Pool


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("256K,512K,1M", ["256K", "512K", "1M"]),
        ("64K..1M*2", ["64K", "128K", "256K", "512K", "1M"]),
        ("1..4", [1, 2, 3, 4]),
        ("4..16+4", [4, 8, 12, 16]),
        ("lru,srrip", ["lru", "srrip"]),
        ("8,8,4", [8, 4]),
    ],
)
def test_values_and_ranges(given: str, expected: list[object]) -> None:
    assert grid.parse([f"l2.size={given}"]) == {"l2.size": expected}


@pytest.mark.parametrize(
    "settings",
    [
        ["l2.size"],
        ["=4"],
        ["l2.size="],
        ["l2.ways=8..4"],
        ["l2.ways=1..8*1"],
        ["l2.ways=0..8*2"],
        ["l2.ways=a..b"],
        ["l2.ways=1..100000000"],
        ["l2.ways=1", "l2.ways=2"],
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: list[str]) -> None:
    with pytest.raises(StallscopeError):
        grid.parse(settings)


def test_a_grid_has_all_combinations_and_a_limit() -> None:
    assert grid.designs({"a.b": [1, 2], "c": ["x", "y"]}) == [
        {"a.b": 1, "c": "x"},
        {"a.b": 1, "c": "y"},
        {"a.b": 2, "c": "x"},
        {"a.b": 2, "c": "y"},
    ]
    with pytest.raises(StallscopeError, match="designs"):
        grid.designs({"a": list(range(1001)), "b": list(range(1001))})


def test_a_list_of_designs_is_a_table_of_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "designs.csv"
    path.write_text("l2.size,l2.ways\n256K,8\n,4\n")
    assert grid.read_list(path) == [{"l2.size": "256K", "l2.ways": 8}, {"l2.ways": 4}]
    path.write_text("l2.size\n256K,8\n")
    with pytest.raises(StallscopeError, match="line 2"):
        grid.read_list(path)
    path.write_text("l2.size\n")
    with pytest.raises(StallscopeError, match="no designs"):
        grid.read_list(path)
    with pytest.raises(StallscopeError, match="cannot read"):
        grid.read_list(tmp_path / "missing.csv")


def test_the_mean_time_of_an_access_by_hand() -> None:
    machine = machines.load("default").to_engine()
    counts = {
        "L1I": (1000, 0),
        "L1D": (1000, 100),
        "L2": (100, 50),
        "L3": (50, 10),
        "ITLB": (10, 0),
        "DTLB": (1000, 20),
        "STLB": (20, 5),
    }
    waited = 1000 * 4 + 900 * 4 + 50 * 14 + 40 * 50 + 10 * 200 + 15 * 7 + 5 * 40
    assert analysis.mean_latency(machine, counts) == waited / 2000
    assert analysis.total_bytes(machine) == (32 + 32 + 1024 + 8192) << 10


def design(size: int, latency: float) -> analysis.DesignRow:
    return analysis.DesignRow({"machine": "m"}, size, latency, {}, False)


def test_the_best_design_is_the_fastest_that_fits_or_the_smallest_that_is_fast_enough() -> None:
    designs = [design(100, 5.0), design(200, 3.0), design(400, 2.0), design(800, 2.0)]
    assert analysis.choose(designs, None, None) == designs[2]
    assert analysis.choose(designs, 300, None) == designs[1]
    assert analysis.choose(designs, None, 3.5) == designs[1]
    assert analysis.choose(designs, 50, None) is None
    assert analysis._frontier([(d.bytes, d.latency) for d in designs]) == {0, 1, 2}


def task(number: int) -> Task:
    return Task(number, f"/nowhere/{number}.stallscope", "x", ())


def test_a_worker_answers_for_a_recording_that_is_not_there() -> None:
    done = list(Pool(2).run([task(0), task(1), task(2)]))
    assert sorted(one.number for one in done) == [0, 1, 2]
    assert all(one.failure and "there is no recording" in one.failure.what for one in done)


def test_workers_that_are_killed_are_replaced_and_nothing_is_lost_or_done_twice() -> None:
    pool = Pool(2)
    numbers, killed, seen = [], 0, set()
    for done in pool.run([task(number) for number in range(12)]):
        numbers.append(done.number)
        seen.update(pool.pids())
        if killed < 4 and pool.pids():
            os.kill(pool.pids()[0], signal.SIGKILL)
            killed += 1
    assert sorted(numbers) == list(range(12))
    assert not [pid for pid in seen if Path(f"/proc/{pid}").exists()]


def test_a_worker_ends_with_its_input() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "stallscope.scale.worker"], stdin=subprocess.PIPE
    )
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(timeout=60) == 0


def test_designs_that_share_a_pass_stand_together_and_fit_into_memory() -> None:
    base = machines.load("default")
    made = {n: base.with_values({"l2.ways": n + 1, "l2.size": 65536 * (n + 1)}) for n in range(130)}
    documents = {number: machine.to_engine() for number, machine in made.items()}
    documents[130] = base.with_values({"l2.policy": "fifo"}).to_engine()
    documents[131] = base.with_values({"l1i.line": 32}).to_engine()
    tasks = list(plan.group(documents, True))
    assert (False, [130]) in tasks
    assert (True, [131]) in tasks
    assert sorted(n for _, numbers in tasks for n in numbers) == list(range(132))
    assert max(len(numbers) for _, numbers in tasks) <= plan.TOGETHER
    assert all(len(numbers) == 1 for _, numbers in plan.group(documents, False))
    large = {
        n: base.with_values({"l3.size": "1G", "l2.ways": n + 1, "l2.size": 65536 * (n + 1)})
        for n in range(20)
    }
    parts = [
        numbers for _, numbers in plan.group({n: m.to_engine() for n, m in large.items()}, True)
    ]
    assert sorted(n for numbers in parts for n in numbers) == list(range(20))
    assert max(len(numbers) for numbers in parts) * (128 << 20) <= plan.MEMORY
