# SPDX-License-Identifier: Apache-2.0
"""A lackey trace of a program misses as cachegrind says that the program does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import stallscope
from conftest import run, verify


def test_a_lackey_trace_misses_as_cachegrind_counts(
    program: Callable[..., Path], tmp_path: Path
) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("there is no valgrind")
    target = program("heapmap")
    trace = tmp_path / "x.lackey"
    ran = run(valgrind, "--tool=lackey", "--trace-mem=yes", f"--log-file={trace}", target)
    assert ran.status == 0, ran.stderr
    counted = run(
        valgrind, "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", target
    ).stderr

    def told(name: str) -> int:
        found = re.search(rf"{name}:\s+([\d,]+)", counted)
        assert found is not None, counted
        return int(found[1].replace(",", ""))

    made = stallscope.import_trace(trace, output=tmp_path / "x.stallscope")
    verify(made.recording.path)
    facts = made.recording.meta
    assert facts.command == [str(target)]
    assert facts.instructions == pytest.approx(told("I   refs"), rel=1e-4)
    assert facts.loads + facts.stores == pytest.approx(told("D   refs"), rel=1e-4)
    found = stallscope.replay(stallscope.view(made.recording, machine="cachegrind"))
    misses = {row.level: row.misses for row in found.rows}
    assert misses["D1"] == pytest.approx(told("D1  misses"), rel=0.005)
    assert misses["LL"] == pytest.approx(told("LL misses"), rel=0.01)
