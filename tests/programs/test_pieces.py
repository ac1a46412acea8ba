# SPDX-License-Identifier: Apache-2.0
"""A trace in pieces of time: curves exactly, a core as exactly as it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope as api
from conftest import STALLSCOPE, Made, Recorder, run
from stallscope import pipelines
from stallscope.analyses.pages import pages
from stallscope.analyses.stalls import stalls
from stallscope.viewing import page_view


@pytest.fixture(scope="module")
def made(shared_record: Recorder, workload: Callable[[str], Path]) -> Made:
    return shared_record(workload("lzw"), "20000", "1", "slow", options=["--trace"])


def told(*words: object) -> Any:
    ran = run(STALLSCOPE, *words, "--json")
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_curve_in_pieces_is_that_of_pages(made: Made) -> None:
    whole = [(row.pages, row.misses) for row in pages(page_view(made.path)).curve]
    found = told("pages", "exact", made.path, "--shards", "5", "--jobs", "2")
    assert found["schema"] == "stallscope.pages.exact/1"
    assert [(row["pages"], row["misses"]) for row in found["rows"]] == whole
    [kept] = (made.path / "results").glob("curve-*.json")
    before = kept.stat().st_mtime_ns
    again = api.exact_curve(made.path, 3)
    assert [(row.pages, row.misses) for row in again.rows] == whole
    assert kept.stat().st_mtime_ns == before
    for shards, page_size in ((1, 65536), (7, 65536)):
        kept.unlink(missing_ok=True)
        large = api.exact_curve(made.path, shards, page_size=page_size)
        expected = pages(page_view(made.path, page_size=page_size)).curve
        assert [(row.pages, row.misses) for row in large.rows] == [
            (row.pages, row.misses) for row in expected
        ]
        for path in (made.path / "results").glob("curve-*.json"):
            path.unlink()


@pytest.fixture(scope="module")
def whole(made: Made) -> Any:
    return stalls(pipelines.core_view(made.path), by="object")


@pytest.fixture(scope="module")
def split(made: Made) -> Any:
    return told("stalls", made.path, "--shards", "3", "--warmup", "100k", "--by", "object")


def test_a_core_in_pieces_is_near_the_whole_and_says_how_near(whole: Any, split: Any) -> None:
    assert split["instructions"] == whole.instructions
    error = split["cycles"] / whole.cycles - 1
    assert abs(error) < 0.01
    said = split["split"]
    assert (said["pieces"], said["warmup"]) == (3, 100_000)
    assert said["compared"] > 0
    assert said["error"] == pytest.approx(said["difference"] / said["compared"])
    assert said["checked"] == whole.instructions // 5
    assert abs(error) < 2 * said["error"] + 0.001
    assert whole.split is None


def test_what_a_core_counts_in_pieces_adds_up(made: Made, whole: Any, split: Any) -> None:
    assert split["cycles"] == split["completion_cycles"] + split["stall_cycles"]
    assert split["stall_cycles"] == sum(row["cycles"] for row in split["causes"])
    assert sum(row["cycles"] for row in split["timeline"]) == split["cycles"]
    assert sum(row["instructions"] for row in split["timeline"]) == split["instructions"]
    assert split["rows"][0]["name"] == whole.rows[0].name
    view = pipelines.core_view(made.path, pieces=3, warmup=100_000, objects=True)
    alone = pipelines.core_view(made.path, objects=True)
    parts, one = (v.runs[0].table("stall").to_pylist() for v in (view, alone))
    counts = {(r["block"], r["address"]): r["executions"] for r in one}
    shared = [r for r in parts if (r["block"], r["address"]) in counts]
    assert len(shared) > len(parts) / 2
    assert all(r["executions"] == counts[r["block"], r["address"]] for r in shared)
    assert sum(r["cycles"] for r in parts) == split["stall_cycles"]


def test_one_piece_is_the_whole(made: Made, whole: Any) -> None:
    found = told("stalls", made.path, "--shards", "1")
    assert found["cycles"] == whole.cycles
    assert found["split"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stalls", "--shards", "0"], "0 is not in the range"),
        (["pages", "exact", "--shards", "0"], "0 is not in the range"),
        (["pages", "exact", "--page-size", "100"], "cannot be tracked"),
    ],
)
def test_bad_words_are_told(made: Made, words: list[str], said: str) -> None:
    ran = run(STALLSCOPE, *words, made.path)
    assert ran.status == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_recording_without_a_trace_has_no_pieces(
    shared_record: Recorder, workload: Callable[[str], Path]
) -> None:
    plain = shared_record(workload("lzw"), "1000", "1", "slow")
    for words in (["stalls", "--shards", "2"], ["pages", "exact"]):
        ran = run(STALLSCOPE, *words, plain.path)
        assert ran.status == 2
        assert "has no trace" in ran.stderr


def test_a_run_in_pieces_moves_no_data(made: Made) -> None:
    with pytest.raises(api.StallscopeError, match="in pieces has no slices"):
        pipelines.core_view(made.path, pieces=2, slice=1000)
