# SPDX-License-Identifier: Apache-2.0
"""Which data misses: against cachegrind, live against replayed, sampled against exact."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stallscope import workloads

STALLSCOPE = Path(sys.executable).with_name("stallscope")
PROGRAMS = [name for name in workloads.about_caches() if name != "scoreboards"]
TIMEOUT = 300
SHARE_POINTS = 0.015
MANY_SAMPLES = 5_000


def stallscope(*words: object) -> Any:
    ran = subprocess.run(
        [STALLSCOPE, *map(str, words)], capture_output=True, timeout=TIMEOUT, check=True
    )
    return json.loads(ran.stdout) if "--json" in words else ran.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("misses")
    return {
        name: [
            str(workloads.build(name, folder)),
            *workloads.truth(name).command_arguments("quick"),
        ]
        for name in PROGRAMS
    }


def cachegrind(command: list[str]) -> dict[str, int]:
    ran = subprocess.run(
        [
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--cachegrind-out-file=/dev/null",
            *command,
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    found = re.findall(r"(I1|D1|LL) +misses: +([\d,]+)", ran.stderr)
    return {name: int(number.replace(",", "")) for name, number in found}


@pytest.mark.parametrize("name", PROGRAMS)
def test_misses_agree_with_cachegrind(
    name: str, built: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "r.stallscope"
    stallscope("record", "-q", "--machine", "cachegrind", "-o", path, "--", *built[name])
    levels = {row["level"]: row for row in stallscope("objects", path, "--json")["levels"]}
    truth = cachegrind(built[name])
    assert truth.keys() == {"I1", "D1", "LL"}
    for level, misses in truth.items():
        assert abs(levels[level]["misses"] - misses) <= max(500, 0.005 * misses), level


@pytest.mark.parametrize("name", ["list", "hashjoin"])
def test_a_machine_beside_the_program_finds_what_a_replay_finds(
    name: str, built: dict[str, list[str]], tmp_path: Path
) -> None:
    live, kept = tmp_path / "live.stallscope", tmp_path / "kept.stallscope"
    probe = ("--machine", "risc-64k", "--probe", "evictions")
    stallscope("record", "-q", *probe, "-o", live, "--", *built[name])
    stallscope("record", "-q", "--trace", "-o", kept, "--", *built[name])
    for verb in ("objects", "lines", "evictions"):
        words = ("--machine", "risc-64k", "--json")
        found = [stallscope(verb, path, *words) for path in (live, kept)]
        keys = ("kind", "misses", "latency", "count", "evicted", "by", "function", "line")
        rows = [
            [{key: row[key] for key in keys if key in row} for row in document["rows"]]
            for document in found
        ]
        named = [
            [row for row in table if row.get("kind") in (None, "heap", "global")] for table in rows
        ]
        assert named[0][:10] == named[1][:10]


@pytest.mark.parametrize("name", ["list", "hashjoin", "matmul", "bst"])
def test_sampled_shares_are_near_the_exact_ones(
    name: str, built: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "r.stallscope"
    stallscope("record", "-q", "--machine", "risc-64k", "-o", path, "--", *built[name])
    document = stallscope("objects", path, "--machine", "risc-64k", "--json")
    if document["samples"] < MANY_SAMPLES:
        assert document["misses"] < 2 * MANY_SAMPLES  # few misses give few samples, and all of them
    points = SHARE_POINTS * max(1.0, (10_000 / max(1, document["samples"])) ** 0.5)
    large = [row for row in document["rows"] if row["share"] >= 0.1]
    assert large
    for row in large:
        assert abs(row["share"] - row["sampled_share"]) <= points, row["object"]
    assert sum(row["misses"] for row in document["rows"]) == document["misses"]


def test_the_object_that_dominates_is_the_one_that_the_truth_names(
    built: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "r.stallscope"
    stallscope("record", "-q", "--machine", "risc-64k", "-o", path, "--", *built["list"])
    document = stallscope("objects", path, "--machine", "risc-64k", "--json")
    top = document["rows"][0]
    assert top["kind"] == "heap"
    assert top["object"].startswith("make_node (list.c:")
    assert {"site", "blocks", "bytes", "misses", "sampled", "share", "latency"} <= top.keys()


def test_a_recording_without_trace_or_machine_says_how_to_record(
    built: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "r.stallscope"
    stallscope("record", "-q", "--machine", "none", "-o", path, "--", *built["list"])
    ran = subprocess.run([STALLSCOPE, "objects", path], capture_output=True, text=True)
    assert ran.returncode == 2
    assert "has no trace to replay" in ran.stderr
    assert "record --trace" in ran.stderr
    assert "Traceback" not in ran.stderr
