# SPDX-License-Identifier: Apache-2.0
"""`stallscope run`: a program that logs its allocations, named when somebody looks at it later."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import PATIENCE, STALLSCOPE, Ran
from stallscope import StallscopeError
from stallscope.analyses.live import object_names
from stallscope.record import heap_log
from stallscope.record import record as record_it
from stallscope.recording import Recording
from stallscope.scale import fleet
from stallscope.scale.agent import Agent, Settings

pytestmark = pytest.mark.real_time
SITE = "make_node (list.c) < build_list (list.c) < main (list.c)"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def running(workload: Callable[[str], Path], logs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """By way of a shell, which has the first log of the process."""
    program = ["sh", "-c", 'exec "$0" 60000 100000000', workload("list")]
    started = subprocess.Popen(
        [STALLSCOPE, "run", "--logs", logs, "--", *program], stdout=subprocess.DEVNULL
    )
    limit = time.monotonic() + PATIENCE
    while (logs / f"{started.pid}.1") != heap_log.of_process(started.pid):
        assert time.monotonic() < limit
        time.sleep(0.05)
    time.sleep(0.5)  # its list is there
    yield started
    started.kill()
    started.wait()


def test_heap_blocks_of_a_running_process_have_names(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    found: set[str] = set()
    for number in range(5):
        made = tmp_path / f"{number}.stallscope"
        record_it(source="clock", pid=running.pid, duration=1.0, output=made)
        found = {name.split(" (")[0] for name, _ in object_names(Recording(made))}
        if Recording(made).meta.samples:
            break
    assert "make_node" in found
    assert running.poll() is None


def test_the_agent_and_the_fleet_have_them_too(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "agent"
    agent = Agent(Settings(folder, duration=0.5, budget=1.0, programs=("list",)))
    limit = time.monotonic() + PATIENCE
    while not list(folder.glob("list*")) and time.monotonic() < limit:
        agent.run(rounds=1)
        time.sleep(0.1)
    fleet.ingest([folder], tmp_path / "fleet", jobs=1)
    rows = {row.object for row in fleet.objects("list", tmp_path / "fleet").rows}
    assert SITE in rows
    assert not any(name.startswith("[heap]") for name in rows)


def test_heap_without_a_log_is_told_by_who_touches_it(
    workload: Callable[[str], Path], tmp_path: Path
) -> None:
    started = subprocess.Popen([workload("list"), "60000", "100000000"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        assert heap_log.of_process(started.pid) is None
        for number in range(5):
            made = tmp_path / "host" / f"{number}.stallscope"
            record_it(source="clock", pid=started.pid, duration=0.5, output=made)
            if Recording(made).meta.samples:
                break
    finally:
        started.kill()
        started.wait()
    fleet.ingest([tmp_path / "host"], tmp_path / "fleet", jobs=1)
    rows = {row.object for row in fleet.objects("list", tmp_path / "fleet").rows}
    assert "[heap] in walk (list.c)" in rows


def test_only_what_the_process_writes_itself_is_its_log(
    running: subprocess.Popen[bytes], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = heap_log.of_process(running.pid)
    assert own == logs / f"{running.pid}.1"
    assert heap_log.of_process(os.getpid()) is None
    aside = own.with_name("aside")
    own.rename(aside)
    try:
        own.write_bytes(b"no log")
        assert heap_log.of_process(running.pid) is None
        own.unlink()
        own.symlink_to(aside)
        assert heap_log.of_process(running.pid) is None
    finally:
        own.unlink()
        aside.rename(own)
    # Logs of processes that have ended go, others stay; what is young may not be mapped yet.
    monkeypatch.setattr(heap_log, "YOUNG", 0.0)
    heap_log.sweep(logs)
    assert list(heap_log.logs(logs)) == [(running.pid, 1)]


def test_the_program_is_as_it_was(
    program: Callable[..., Path], stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = stallscope("run", "--logs", tmp_path, "--", "sh", "-c", "echo said; exit 7")
    assert (ran.status, ran.stdout, ran.stderr) == (7, "said\n", "")
    ran = stallscope("run", "--", tmp_path / "none")
    assert ran.status != 0
    assert "Traceback" not in ran.stderr


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap_log, "HOME", f"{tmp_path}/logs-{{user}}")
    assert heap_log.home().stat().st_mode & 0o777 == 0o700
    heap_log.home().chmod(0o755)
    with pytest.raises(StallscopeError, match="private"):
        heap_log.home()
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setattr(heap_log, "HOME", f"{tmp_path}/link")
    with pytest.raises(StallscopeError, match="private"):
        heap_log.home()
