# SPDX-License-Identifier: Apache-2.0
"""Sweeps of a real recording."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope as api
from conftest import STALLSCOPE, Ran, Recorder
from stallscope import machines

GRID = ["--set", "l2.size=64K,256K", "--set", "l1d.ways=2,8"]


@pytest.fixture(scope="module")
def recording(shared_record: Recorder, workload: Callable[[str], Path]) -> Path:
    return shared_record(workload("list"), "2000", options=["--trace"]).path


def swept(stallscope: Callable[..., Ran], *words: object) -> dict[str, Any]:
    ran = stallscope("sweep", *words, "--json")
    assert ran.status == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def cells(recording: Path) -> list[Path]:
    return sorted((recording / "results" / "cells").iterdir())


def test_rows_equal_separate_replays(recording: Path, stallscope: Callable[..., Ran]) -> None:
    found = swept(stallscope, recording, *GRID, "--jobs", 2)
    assert found["schema"] == "stallscope.sweep/1"
    assert found["failed"] == 0
    assert len(found["rows"]) == 4 * 7
    base = machines.load("default")
    for size in ("64K", "256K"):
        for ways in (2, 8):
            toml = recording.parent / f"{size}-{ways}.toml"
            toml.write_text(base.with_values({"l2.size": size, "l1d.ways": ways}).to_toml())
            levels = api.replay(api.view(recording, machine=str(toml))).rows
            rows = [
                row for row in found["rows"] if (row["l2.size"], row["l1d.ways"]) == (size, ways)
            ]
            assert [(r["level"], r["accesses"], r["misses"], r["evictions"]) for r in rows] == [
                (r.level, r.accesses, r.misses, r.evictions) for r in levels
            ]


def test_a_cell_is_computed_once_and_the_table_stays_the_same(
    recording: Path, stallscope: Callable[..., Ran]
) -> None:
    first = stallscope("sweep", recording, *GRID, "--json").stdout
    stamps = [path.stat().st_mtime_ns for path in cells(recording)]
    assert stallscope("sweep", recording, *GRID, "--json", "--jobs", 1).stdout == first
    assert [path.stat().st_mtime_ns for path in cells(recording)] == stamps
    before = len(cells(recording))
    found = swept(stallscope, recording, "--set", "l2.size=64K,128K,256K", "--set", "l1d.ways=8")
    assert len(cells(recording)) == before + 1
    assert len(found["designs"]) == 3


def test_an_impossible_design_is_told_in_its_cell(
    recording: Path, stallscope: Callable[..., Ran]
) -> None:
    found = swept(stallscope, recording, "--set", "l2.size=1000,256K,what")
    wrong = [row for row in found["rows"] if row["error"]]
    assert [row["l2.size"] for row in wrong] == [1000, "what"]
    assert "whole number of lines" in wrong[0]["error"]
    assert all(row["misses"] is None and row["level"] is None for row in wrong)
    assert {row["l2.size"] for row in found["rows"] if row["misses"] is not None} == {"256K"}
    shown = stallscope("sweep", recording, "--set", "l2.size=1000,256K").stdout
    assert "impossible" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no design to try"),
        (["--set", "l2.sise=1M"], "l2.size"),
        (["--set", "l2.size="], "there is no value"),
        (["--machine", "none", "--set", "memory_latency=1"], "no machine"),
        (["--set", "l2.size=1M", "--designs", "x.csv"], "at once"),
    ],
)
def test_a_sweep_of_nothing_is_refused_in_a_sentence(
    recording: Path, stallscope: Callable[..., Ran], words: list[str], said: str
) -> None:
    ran = stallscope("sweep", recording, *words)
    assert ran.status == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_recording_without_a_trace_and_one_given_twice_are_refused(
    recording: Path, record: Recorder, stallscope: Callable[..., Ran]
) -> None:
    bare = record("/bin/true").path
    ran = stallscope("sweep", recording, bare, "--set", "l2.size=1M")
    assert ran.status == 2
    assert "--trace" in ran.stderr
    ran = stallscope("sweep", recording, recording, "--set", "l2.size=1M")
    assert ran.status == 2
    assert "twice" in ran.stderr


def test_a_recording_that_vanishes_is_told_in_its_cells(recording: Path, tmp_path: Path) -> None:
    gone, stays = tmp_path / "gone.stallscope", tmp_path / "stays.stallscope"
    for place in (gone, stays):
        shutil.copytree(recording, place)
        shutil.rmtree(place / "results", ignore_errors=True)

    def vanish(progress: Any) -> None:
        if progress.done == 0:
            shutil.rmtree(gone, ignore_errors=True)

    found = api.sweep([gone, stays], {"l2.size": ["64K", "128K"]}, jobs=1, on_progress=vanish)
    assert found.failed == 2
    assert all("no recording" in r["error"] for r in found.rows if r["recording"] == gone.name)
    assert all(r["error"] is None for r in found.rows if r["recording"] == stays.name)
    assert not gone.exists()


def test_an_interrupted_sweep_leaves_no_worker_and_goes_on_where_it_was(
    recording: Path, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    copy = tmp_path / "copy.stallscope"
    shutil.copytree(recording, copy)
    shutil.rmtree(copy / "results", ignore_errors=True)
    words = ["--set", "l2.size=64K..1M*2", "--set", "l2.policy=fifo,srrip", "--jobs", "2", "--json"]
    running = subprocess.Popen(
        [STALLSCOPE, "sweep", copy, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(2000):
        if (copy / "results" / "cells").is_dir() and cells(copy):
            break
        time.sleep(0.02)
    workers = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert b"Traceback" not in err
    for _ in range(500):
        if not any(Path(f"/proc/{pid}").exists() for pid in workers):
            break
        time.sleep(0.02)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not [path for path in cells(copy) if path.name.startswith(".new-")]
    kept = {path.name: path.stat().st_mtime_ns for path in cells(copy)}
    resumed = stallscope("sweep", copy, *words)
    assert resumed.status == 0, resumed.stderr
    assert {p.name: p.stat().st_mtime_ns for p in cells(copy) if p.name in kept} == kept
    shutil.rmtree(copy / "results")
    assert stallscope("sweep", copy, *words).stdout == resumed.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["copy.stallscope"]


def test_pictures_classes_and_lists(
    recording: Path, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    designs = tmp_path / "designs.csv"
    designs.write_text("l1d.size,l1d.ways\n16K,4\n32K,8\n8K,1\n")
    picture = tmp_path / "sweep.svg"
    words = ["--designs", designs, "--probe", "classify", "--plot", picture, "--max-bytes", "10M"]
    found = swept(stallscope, recording, *words)
    assert picture.read_bytes().startswith(b"<?xml")
    for row in found["rows"]:
        assert row["cold"] + row["capacity"] + row["conflict"] == row["misses"]
    assert found["best"]["design"]["l1d.size"] in ("16K", "32K", "8K")
    csv = stallscope("sweep", recording, "--designs", designs, "--csv").stdout.splitlines()
    assert csv[0].startswith("recording,machine,l1d.size,l1d.ways,level")


def test_a_damaged_trace_is_told_in_its_cells(recording: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.stallscope"
    shutil.copytree(recording, damaged)
    shutil.rmtree(damaged / "results", ignore_errors=True)
    stream = damaged / "stream.ss"
    data = bytearray(stream.read_bytes())
    data[len(data) // 2] ^= 0xFF
    stream.write_bytes(data)
    found = api.sweep(damaged, {"l2.size": ["64K"], "l2.policy": ["lru", "fifo"]}, jobs=1)
    assert found.failed == 2
    assert all(row["error"] and row["misses"] is None for row in found.rows)
    assert found.best is None


def test_cells_that_cannot_be_kept_are_counted(recording: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.stallscope"
    shutil.copytree(recording, copy)
    shutil.rmtree(copy / "results", ignore_errors=True)
    (copy / "results").write_text("in the way")
    found = api.sweep(copy, {"l2.size": ["64K", "128K"]}, jobs=1)
    assert (found.failed, found.unkept) == (0, 2)
    assert found.best is not None
