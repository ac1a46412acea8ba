# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to a program whose code runs ahead of its misses, it prints and ends as it does
by itself."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import STALLSCOPE, Ran, run

from stallscope.actions.launch import launched
from stallscope.actions.region import Region
from stallscope.slicing.emit import DATA_BYTES

pytestmark = pytest.mark.real_time

# Sites are kept whether they pay or not: a busy machine must not decide what is tested.
ALWAYS = ("prefetch", "run", "--always", "-q")
KINDS = [
    *("fork", "exec", "signals", "library", "threads", "longjmp", "garbage", "exit", "kill"),
    *("signals gather", "longjmp gather", "divide"),
]


def ahead(folder: Path, program: Path, mode: str, *more: str) -> tuple[Ran, dict[str, Any]]:
    """A run in which some load was helped; on a busy machine finding it takes longer."""
    report = folder / "report.json"
    for milliseconds in (1500, 4000, 12000):
        words = (program, mode, milliseconds, *more)
        ran = run(STALLSCOPE, *ALWAYS, "-o", report, "--", *words)
        told: dict[str, Any] = json.loads(report.read_text())
        if helped(told):
            break
    return ran, told


def helped(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in report["rows"] if row["state"] == "kept"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_ends_as_it_does_by_itself(
    kind: str, program: Callable[..., Path], tmp_path: Path
) -> None:
    mode, *more = kind.split()
    native = run(program("ahead"), mode, 150, *more)
    assert "right=1" in native.stdout
    ran, report = ahead(tmp_path, program("ahead"), mode, *more)
    assert (ran.status, ran.out, ran.err) == (native.status, native.out, native.err)
    assert helped(report), report["rows"]
    if kind == "garbage":  # the slice went to places that are not there
        assert report["assist_faults"] > 0
    if kind == "divide":
        assert report["caught"] > 0


def test_both_deliveries_work_in_a_program_at_a_fixed_address(
    program: Callable[..., Path], tmp_path: Path
) -> None:
    built = program("ahead", pie=False)
    for delivery, more in (("inline", ["gather"]), ("assist", [])):
        ran, report = ahead(tmp_path, built, "plain", *more)
        assert (ran.status, ran.stdout) == (0, "plain right=1\n")
        assert {row["delivery"] for row in helped(report)} == {delivery}


def test_a_small_stack_is_enough(program: Callable[..., Path], tmp_path: Path) -> None:
    """The assist thread has a stack of its own, of which a slice uses a few words."""
    words = " ".join([str(STALLSCOPE), *ALWAYS, "--", str(program("ahead")), "plain", "1500"])
    ran = run("/bin/sh", "-c", f"ulimit -s 128; exec {words}")
    assert (ran.status, ran.stdout) == (0, "plain right=1\n")


def test_nothing_is_left_when_the_program_is_killed(program: Callable[..., Path]) -> None:
    words = [str(STALLSCOPE), *ALWAYS, "--", str(program("ahead")), "plain", "60000"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        target = 0
        for _ in range(200):
            time.sleep(0.05)
            found = children(process.pid)
            if found and children(found[0]):
                target = found[0]
                break
        assert target, "the assist thread never came"
        assist = children(target)[0]
        os.kill(target, signal.SIGKILL)
        assert process.wait(timeout=60) == 137
    for _ in range(100):
        if not Path(f"/proc/{assist}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{assist}").exists()


@pytest.fixture
def idle() -> Iterator[Region]:
    """Memory that is shared with a program that does nothing."""
    with launched(["sleep", "60"]) as started:
        region = Region(started.file)
        try:
            eventually(lambda: region.ready)
            yield region
        finally:
            os.kill(started.pid, signal.SIGKILL)
            os.waitpid(started.pid, 0)


def eventually(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_assist_thread_sleeps_while_there_is_nothing_to_do(idle: Region) -> None:
    """Waking up often, it would cost the program, which shares caches and a hypervisor with it."""
    status = Path(f"/proc/{idle.header.assist}/status")
    began, before = time.monotonic(), wakes(status)
    time.sleep(1)
    assert 0 < wakes(status) - before < 200 * (time.monotonic() - began)
    idle.stop()
    eventually(lambda: "zombie" in status.read_text())


def test_a_slice_that_exhausts_the_stack_only_ends_its_visit(idle: Region) -> None:
    code, data = idle.room(4096), idle.room(DATA_BYTES)
    view = int(idle.header.views[0])
    enter, leave, kept = view + code, view + code + 32, view + code + 64
    push_for_ever = b"\x50\xeb\xfd"
    idle.write(code, b"\x48\x89\x25" + struct.pack("<i", kept - enter - 7) + push_for_ever)
    idle.write(code + 32, b"\x48\x8b\x25" + struct.pack("<i", kept - leave - 7) + b"\xc3")
    slot = idle.header.slots[idle.take_slot() or 0]
    slot.enter, slot.start, slot.leave, slot.data = enter, enter, leave, view + data
    slot.chunk, slot.handed, slot.armed = 16, 1, 1
    idle.call()
    eventually(lambda: not slot.handed)
    assert (slot.visits, slot.faults, slot.off) == (1, 1, 1)
    assert Path(f"/proc/{idle.header.owner}/status").exists()
    slot.handed = 1  # and it goes on
    eventually(lambda: slot.faults == 2)


def wakes(status: Path) -> int:
    lines = status.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


def children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def test_a_program_without_delinquent_loads_runs_untouched(
    stallscope: Callable[..., Ran],
) -> None:
    ran = stallscope("prefetch", "run", "--", "/bin/echo", "as it is")
    assert (ran.status, ran.stdout) == (0, "as it is\n")
    assert "no load delinquent" in ran.stderr


def test_a_static_program_is_left_alone(
    program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("prefetch", "run", "--", program("exit_code", static=True), 5)
    assert ran.status == run(program("exit_code", static=True), 5).status
    assert "a static program loads no runtime" in ran.stderr


def test_what_cannot_be_run_is_one_sentence(stallscope: Callable[..., Ran]) -> None:
    ran = stallscope("prefetch", "run", "--", "/no/such/program")
    assert ran.status in (2, 127)
    assert "Traceback" not in ran.stderr
    assert stallscope("prefetch", "run", "--slack", "-1", "--", "/bin/true").status == 2
