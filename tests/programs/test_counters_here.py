# SPDX-License-Identifier: Apache-2.0
"""The kernel's events on few counters, beside full counts of the same events."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import STALLSCOPE, Ran, run

from stallscope.errors import StallscopeError

pytestmark = pytest.mark.real_time

TRACED = (
    "page-faults,minor-faults,task-clock,context-switches,raw_syscalls:sys_enter,"
    "raw_syscalls:sys_exit,syscalls:sys_enter_write,syscalls:sys_exit_write,"
    "syscalls:sys_enter_read,syscalls:sys_enter_mmap,syscalls:sys_enter_munmap,"
    "syscalls:sys_exit_munmap,syscalls:sys_enter_close,syscalls:sys_enter_dup,"
    "exceptions:page_fault_user,kmem:mm_page_alloc,kmem:mm_page_free_batched,"
    "kmem:kmem_cache_alloc,kmem:kmem_cache_free,syscalls:sys_enter_lseek"
)


def counted(ran: Ran) -> dict[str, Any]:
    assert ran.status == 0, ran.stderr
    text = ran.stdout[ran.stdout.index("{") :]
    found: dict[str, Any] = json.loads(text)
    return found


def here(stallscope: Callable[..., Ran], *words: object) -> Ran:
    return stallscope("counters", "--source", "perf", *words)


def allowed() -> bool:
    level = Path("/proc/sys/kernel/perf_event_paranoid")
    return os.geteuid() == 0 or (level.exists() and int(level.read_text()) <= 1)


needs_perf = pytest.mark.skipif(not allowed(), reason="the kernel counts for root only here")


@needs_perf
def test_software_events_are_near_their_full_counts(
    stallscope: Callable[..., Ran], program: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "rounds.jsonl"
    words = ("--counters", 2, "--json", "--log", log, "--", program("steady"), 8000)
    found = counted(here(stallscope, *words))
    rows = {row["event"]: row for row in found["rows"]}
    assert len(found["groups"]) == 4
    assert rows["page-faults"]["full"] > 10_000
    for name in ("task-clock", "page-faults", "minor-faults"):
        assert rows[name]["error"] < 0.15, rows[name]
    # The round in which the program ends may be cut short, and is not logged then.
    assert found["rounds"] - len(log.read_text().splitlines()) in (0, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="tracefs can be mounted by root only")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_twenty_events_on_four_counters_are_near_their_full_counts(
    program: Callable[..., Path],
) -> None:
    command = [STALLSCOPE, "counters", "--source", "perf", "--counters", 4, "-e", TRACED, "--json"]
    command += ["--", program("steady"), 10_000]
    words = " ".join(map(str, command))
    mount = "mount -t tracefs nodev /sys/kernel/tracing"
    # A namespace of its own, so that the machine stays as it is.
    ran = run("unshare", "-m", "sh", "-c", f"{mount} || exit 77; exec {words}")
    if ran.status == 77:
        pytest.skip("tracefs cannot be mounted")
    rows = counted(ran)["rows"]
    assert len(rows) == 20
    frequent = [row for row in rows if row["full"] > 10_000]
    assert len(frequent) >= 10
    near = [row for row in frequent if row["error"] <= 0.15]
    assert len(near) >= 0.9 * len(frequent), frequent


@needs_perf
def test_the_exit_status_is_the_programs(stallscope: Callable[..., Ran]) -> None:
    ran = here(stallscope, "--frequency", 5000, "--", "sh", "-c", "sleep 0.1; exit 3")
    assert ran.status == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-e", "page-fault", "--", "true"), "the kernel has no event 'page-fault'"),
        (("--counters", "0", "--", "true"), "0 counters cannot count"),
        (("--", "no-such-program"), "there is no program no-such-program"),
        ((), "there is no program to count"),
        (("--privilege", "root", "--", "true"), "there is no privilege 'root'"),
    ],
)
def test_bad_words_get_their_sentence(
    words: tuple[str, ...], sentence: str, stallscope: Callable[..., Ran]
) -> None:
    ran = here(stallscope, *words)
    assert ran.status == 2
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


@needs_perf
def test_hidden_counters_are_told_with_what_works(stallscope: Callable[..., Ran]) -> None:
    ran = here(stallscope, "-e", "cpu-cycles", "--", "sleep", "1")
    if ran.status == 0:
        pytest.skip("this machine shows its counters")
    assert "stallscope record --trace" in ran.stderr or "run as root" in ran.stderr


@needs_perf
def test_what_switching_costs_is_measured(program: Callable[..., Path]) -> None:
    from stallscope.counting import overhead_here

    endless = [str(program("steady")), "100000000"]
    found = overhead_here(endless, [100, 1000], window=0.02, rounds=8)
    assert [row.frequency for row in found.rows] == [100, 1000]
    for row in found.rows:  # what it is depends on the machine
        assert -0.9 < row.low <= row.overhead <= row.high < 10
        assert row.windows == 8 and row.switches > 0


@needs_perf
def test_without_progress_no_cost_is_told(program: Callable[..., Path]) -> None:
    from stallscope.counting import overhead_here

    with pytest.raises(StallscopeError, match="made no progress"):
        overhead_here(["sleep", "10"], [100], rounds=1)
