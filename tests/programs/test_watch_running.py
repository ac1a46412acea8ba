# SPDX-License-Identifier: Apache-2.0
"""Watched words of a process that runs already."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import Ran

from stallscope import StallscopeError, monitor_live, watch_process
from stallscope.record.attached import AttachedWatch

pytestmark = pytest.mark.real_time


@pytest.fixture
def spinning(program: Callable[..., Path]) -> Iterator[int]:
    with subprocess.Popen([program("spin")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        assert process.poll() is None  # whatever was done to it, it goes on
        process.kill()


def test_every_write_is_told_with_registers(program: Callable[..., Path]) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([program("waiting_sum")], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watch = AttachedWatch(process.pid, ["total"], 2)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"499500\n"
        hits = list(watch.take())
        assert len(hits) == 1000
        assert watch.lost == 0
        assert {hit.registers["rip"] for hit in hits} == {hits[0].ip}
        assert sorted(hits, key=lambda hit: hit.time) == hits
        assert hits[-1].held == (499_500).to_bytes(8, "little")
        assert {hit.held for hit in hits[:-1]} == {None}  # what it held then is not known
        process.communicate(b"\n")
        assert process.returncode == 0


def test_the_verb_stops_at_a_hit(spinning: int, stallscope: Callable[..., Ran]) -> None:
    words = ("watch", "cells[7]", "--pid", spinning, "--writes", "--stop", "3", "--snapshot")
    ran = stallscope(*words, "--json")
    assert ran.status == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["hits"], found["stopped"]) == (3, True)
    assert {row["function"] for row in found["rows"]} == {"main"}
    assert all(hit["registers"]["rsp"] > 1 << 40 for hit in found["log"])


def test_monitors_hear_of_it(spinning: int, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        """watch = ["cells[7]"]
words = { writes = 0 }
[[when]]
event = "watched"
do = ["count writes"]
"""
    )
    found = monitor_live(str(mine), pid=spinning, duration=0.5)
    assert found.rows[0].words["writes"] == found.told["watched"] > 0
    with pytest.raises(StallscopeError, match="is not held up at its accesses"):
        monitor_live("every-hundredth", pid=spinning, watch=["cells[7]"])


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        (["cells"], "up to four words of 1, 2, 4 or 8"),
        (["cellars[1]"], "has no variable cellars"),
        ([], "nothing to watch"),
    ],
)
def test_what_cannot_be_watched(spinning: int, targets: list[str], why: str) -> None:
    with pytest.raises(StallscopeError, match=why):
        watch_process(targets, spinning, duration=0.1)


def test_bad_input(spinning: int, stallscope: Callable[..., Ran]) -> None:
    for words, why in (
        (("--pid", "99999999"), "there is no process 99999999"),
        (("--pid", spinning, "--if", "value > 3"), "--if needs what memory held"),
        (("--pid", spinning, "--", "true"), "--pid is watched alone"),
        (("--duration", "1"), "--duration is for a process that runs already"),
    ):
        ran = stallscope("watch", "cells[7]", *words)
        assert (ran.status, why in ran.stderr) == (2, True), ran.stderr
