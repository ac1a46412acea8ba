# SPDX-License-Identifier: Apache-2.0
"""Monitors beside a live process, and the same ones on a recording of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Made, Ran, Recorder

from stallscope import StallscopeError, monitor_live, monitor_run, monitors
from stallscope.systems import Act, System

SUMS = [i * (i + 1) // 2 for i in range(1000)]  # what is written to `total`, one after the other


@pytest.fixture(scope="module")
def made(program: Callable[..., Path], shared_record: Recorder) -> Made:
    return shared_record(program("overflow"), options=["--trace", "--values", "all"])


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_monitor_runs_unchanged_on_a_recording_and_beside_the_program(
    made: Made, program: Callable[..., Path]
) -> None:
    simulated = monitor_run("every-hundredth", made.path, watch=["total"])
    live = monitor_live("every-hundredth", [str(program("overflow"))], watch=["total"])
    assert live.status == 0
    assert live.watched_by in ("breakpoints", "page protection")
    for found in (simulated, live):
        assert found.dropped == 0
        large = sum(one > 400_000 for one in SUMS)
        assert found.rows[0].words == {"writes": 1000, "hundreds": 10, "large": large}
        assert [(act.feature, act.a) for act in found.acts] == [("log", n) for n in SUMS[99::100]]
    assert live.rows[0].instructions == simulated.rows[0].instructions
    assert live.told["watched"] == 1000


def test_many_ranges_by_page_protection(made: Made, program: Callable[..., Path]) -> None:
    live = monitor_live("every-hundredth", [str(program("overflow"))], watch=["table[*].count"])
    assert live.watched_by == "page protection"
    simulated = monitor_run("every-hundredth", made.path, watch=["table[*].count"])
    assert live.rows[0].words == simulated.rows[0].words
    assert [act.a for act in live.acts] == [act.a for act in simulated.acts] == [*range(1, 11)]


def test_rules_are_for_what_they_name(
    made: Made, program: Callable[..., Path], tmp_path: Path
) -> None:
    mine = written(
        tmp_path,
        """watch = ["total", "table[3]"]
words = { sums = 0, thirds = 0 }
[[when]]
event = "watched"
named = "total"
stall = true
priority = "high"
do = ["count sums"]
[[when]]
event = "watched"
named = "table[3]"
stall = true
priority = "high"
do = ["count thirds"]
""",
    )
    expected = {"sums": 1000, "thirds": 10}
    assert monitor_run(mine, made.path).rows[0].words == expected
    assert monitor_live(mine, [str(program("overflow"))]).rows[0].words == expected


def test_a_monitor_stops_the_program_where_it_writes(
    program: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mine = written(
        tmp_path,
        """watch = ["total"]
[[when]]
event = "watched"
stall = true
if = ["data is 6"]
do = ["log data", "interrupt 0"]
""",
    )
    states = []

    def look(act: Act) -> None:
        if act.feature == "interrupt":
            states.append(act.cycle)

    found = monitor_live(mine, [str(program("overflow"))], on_act=look)
    assert found.stopped
    assert found.status is None
    assert [act.feature for act in found.acts] == ["log", "interrupt"]
    assert found.told["watched"] == 4  # 0, 1, 3 and 6: the writer waits
    assert len(states) == 1
    assert "499500" not in capfd.readouterr().out


def test_the_kernel_counts(program: Callable[..., Path], tmp_path: Path) -> None:
    mine = written(
        tmp_path,
        """words = { faults = 0, switches = 0 }
[[when]]
event = "page_fault"
do = ["count faults"]
[[when]]
event = "context_switch"
do = ["count switches"]
""",
    )
    found = monitor_live(mine, [str(program("overflow"))])
    assert found.told["page_fault"] > 20
    assert found.rows[0].words == {
        "faults": found.told["page_fault"],
        "switches": found.told["context_switch"],
    }
    assert found.told["cycles"] > 0
    assert found.dropped == 0


@pytest.mark.real_time
def test_a_process_that_runs_already(tmp_path: Path) -> None:
    mine = written(
        tmp_path,
        """words = { milliseconds = 0 }
[[when]]
event = "cycles"
every = 1000000
do = ["count milliseconds"]
""",
    )
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            found = monitor_live(mine, pid=busy.pid, duration=0.5)
            assert busy.poll() is None  # it goes on
        finally:
            busy.kill()
    assert found.status is None
    assert 0 < found.rows[0].words["milliseconds"] == found.told["cycles"] // 1_000_000


def test_what_is_stored_can_be_matched(made: Made, tmp_path: Path) -> None:
    text = """words = { stored = 0 }
[[when]]
event = "store"
data = "499500/0xffffffffffffffff"
do = ["count stored"]
"""
    assert monitor_run(written(tmp_path, text), made.path).rows[0].words["stored"] >= 1
    never = text.replace("499500", "0x123456789abcdef")
    assert monitor_run(written(tmp_path, never), made.path).rows[0].words == {"stored": 0}


def test_recordings_without_values(
    program: Callable[..., Path], shared_record: Recorder, made: Made
) -> None:
    plain = shared_record(program("overflow"), options=["--trace"])
    with pytest.raises(StallscopeError, match="looks at what was read or written"):
        monitor_run("every-hundredth", plain.path, watch=["total"])
    with pytest.raises(StallscopeError, match="watches what was not loaded"):
        System([made.path]).run(["every-hundredth"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("miss-rate", "--live", "--", "true"), "l1_miss does not happen in a live process"),
        (("idle", "--live"), "a live process is a program or a process that runs"),
        (("every-hundredth", "--pid", "99999999"), "there is no process 99999999"),
        (("every-hundredth", "--watch", "x", "--pid", str(os.getpid())), "is not held up"),
        (("idle", "--duration", "1", "--", "true"), "--duration is for live processes"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    stallscope: Callable[..., Ran], words: tuple[str, ...], why: str
) -> None:
    ran = stallscope("monitor", "run", *words)
    assert (ran.status, why in ran.stderr) == (2, True), ran.stderr


def test_live_events_do_not_happen_on_a_simulated_machine(made: Made, tmp_path: Path) -> None:
    mine = written(tmp_path, '[[when]]\nevent = "page_fault"\n')
    with pytest.raises(StallscopeError, match="page_fault does not happen on a simulated machine"):
        monitor_run(mine, made.path)
    assert monitors.load(mine).watch == ()


def test_the_verb(program: Callable[..., Path], stallscope: Callable[..., Ran]) -> None:
    words = ("monitor", "run", "every-hundredth", "--watch", "total", "--live")
    ran = stallscope(*words, "--json", "--", program("overflow"))
    assert ran.status == 0, ran.stderr
    document = json.loads(ran.stdout[ran.stdout.index("{") :])
    assert document["schema"] == "stallscope.monitor-live/1"
    assert document["rows"][0]["words"]["writes"] == 1000
    shown = stallscope(*words, "--", program("overflow")).stdout
    assert "writes = 1,000, hundreds = 10" in shown


def test_threads_that_wait_for_a_monitor_go_on_whoever_is_told_first(
    workload: Callable[[str], Path],
) -> None:
    command = [str(workload("scoreboards")), "4", "2", "60", "1"]
    live = monitor_live("every-hundredth", command, watch=["rounds_done"], duration=60)
    assert live.status == 0
    words = live.rows[0].words
    assert (words["writes"], words["hundreds"], live.told["watched"]) == (240, 2, 240)
