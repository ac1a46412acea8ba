# SPDX-License-Identifier: Apache-2.0
"""What slices would bring, in replay; and the patch that says the same."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Made, Ran, Recorder, run

from stallscope import workloads

# 8 KB and 64 KB, memory 300 cycles away: the quick sizes do not fit, as real ones do not elsewhere.
MACHINE = """
memory_latency = 300
[[cache]]
name = "L1D"
holds = "data"
size = "8K"
ways = 4
latency = 2
[[cache]]
name = "L2"
size = "64K"
ways = 8
latency = 18
"""
NAMES = [name for name in workloads.names() if workloads.truth(name).load is not None]
SIZES = {"list": (3000, 40, "shuffled"), "bst": (2000, 60000)}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("machine") / "small.toml"
    path.write_text(MACHINE)
    return path


@pytest.fixture(scope="module")
def made(shared_record: Recorder, workload: Callable[[str], Path]) -> Callable[..., Made]:
    @functools.cache
    def record(name: str, *arguments: object) -> Made:
        words = arguments or SIZES.get(name, ())
        words = words or tuple(workloads.truth(name).command_arguments("quick"))
        return shared_record(workload(name), *words, options=["--trace"])

    return record


@pytest.fixture
def predicted(
    made: Callable[..., Made], machine: Path, stallscope: Callable[..., Ran]
) -> Callable[..., dict[str, Any]]:
    def predict(name: str, *options: object, arguments: tuple[object, ...] = ()) -> dict[str, Any]:
        path = made(name, *arguments).path
        words = ("--machine", machine, "--threads", "smt", "--every", "--json", *options)
        ran = stallscope("prefetch", "predict", path, *words)
        assert ran.status == 0, ran.stderr
        document: dict[str, Any] = json.loads(ran.stdout)
        return document | {"run": {row["run"]: row for row in document["rows"]}}

    return predict


@pytest.mark.parametrize("name", NAMES)
def test_slices_remove_a_third_of_the_misses(
    name: str, predicted: Callable[..., dict[str, Any]]
) -> None:
    runs = predicted(name)["run"]
    assert runs["slices"]["removed"] >= 0.35
    assert runs["slices"]["misses"] + runs["slices"]["in_flight"] > 0
    # The control costs what slices cost, and brings nothing.
    assert abs(runs["control"]["removed"]) < 0.02
    assert runs["control"]["speedup"] <= 1.001


def test_a_list_in_order_loses_nearly_all(predicted: Callable[..., dict[str, Any]]) -> None:
    runs = predicted("list", arguments=(3000, 60, "inorder"))["run"]
    assert runs["slices"]["removed"] > 0.9


def test_with_work_between_the_misses_lines_come_in_time(
    predicted: Callable[..., dict[str, Any]],
) -> None:
    slow = predicted("list")["run"]["slices"]
    runs = predicted("list", arguments=(3000, 90, "shuffled", 60))["run"]
    assert runs["slices"]["removed"] > 0.9
    assert runs["slices"]["late"] < 0.1 < slow["late"]
    assert runs["slices"]["speedup"] > 1.3 > slow["speedup"]


def test_a_patch_of_the_source_compiles_and_prints_the_same(
    made: Callable[..., Made],
    machine: Path,
    stallscope: Callable[..., Ran],
    workload: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    for name in ("spmv", "flow", "hashjoin"):
        ran = stallscope("prefetch", "advise", made(name).path, "--machine", machine, "--patch")
        assert "+" in ran.stdout, ran.stderr
        source = workloads.find(name)
        copy = tmp_path / source.name
        copy.write_text(source.read_text())
        words = ["patch", str(copy)]
        assert (
            subprocess.run(words, input=ran.stdout, text=True, capture_output=True).returncode == 0
        )
        assert "__builtin_prefetch" in copy.read_text()
        flags = ["-O2", f"-I{source.parent}", str(copy), "-o", str(tmp_path / name)]
        assert run("cc", *flags).status == 0
        arguments = workloads.truth(name).command_arguments("quick")
        assert run(tmp_path / name, *arguments).out == run(workload(name), *arguments).out


def test_a_chase_is_advised_in_words(
    made: Callable[..., Made], machine: Path, stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("prefetch", "advise", made("list").path, "--machine", machine)
    assert (ran.status, "no prefetch pays" in ran.stdout) == (0, True)


@pytest.mark.parametrize("option", ["--chunk", "--pause"])
def test_a_pace_of_nothing_is_refused(
    option: str, made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("prefetch", "predict", made("list").path, option, "0")
    assert ran.status == 2
    assert "at least 1" in ran.stderr
