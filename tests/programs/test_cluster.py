# SPDX-License-Identifier: Apache-2.0
"""Sweeps on a real dask cluster on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import STALLSCOPE, Ran, Recorder

pytest.importorskip("distributed")
GRID = ["--set", "l2.size=64K..512K*2", "--set", "l2.policy=lru,fifo", "--json"]
PATIENCE = 120  # seconds


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Dask:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, path: str = "") -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": path} if path else None
        command = [sys.executable, "-m", "dask", *words]
        with (self.folder / f"{len(self.running)}.log").open("wb") as log:
            started = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=env)
        self.running.append(started)
        return started

    def scheduler(self) -> subprocess.Popen[bytes]:
        words = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        started = self.start("scheduler", *words)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), timeout=1),
            ):
                return started
            time.sleep(0.1)
        raise AssertionError("the scheduler does not listen")

    def worker(self, path: str = "") -> subprocess.Popen[bytes]:
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "300")
        return self.start("worker", self.address, *words, path=path)

    def stop(self) -> None:
        for one in self.running:
            one.kill()
            one.wait()


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    made = Dask(tmp_path_factory.mktemp("dask"))
    try:
        made.scheduler()
        made.worker()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def recording(shared_record: Recorder, workload: Callable[[str], Path]) -> Path:
    return shared_record(workload("list"), "1000", options=["--trace"]).path


def test_a_cluster_gives_the_table_that_local_workers_give(
    dask: Dask, recording: Path, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    copy = tmp_path / recording.name
    shutil.copytree(recording, copy)
    far = stallscope("sweep", copy, *GRID, "--cluster", dask.address)
    assert far.status == 0, far.stderr
    shutil.rmtree(copy / "results")
    assert stallscope("sweep", copy, *GRID, "--jobs", 1).stdout == far.stdout


def test_a_worker_that_is_killed_and_a_scheduler_that_comes_back_lose_nothing(
    dask: Dask, recording: Path, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    copy = tmp_path / recording.name
    shutil.copytree(recording, copy)
    dask.worker()
    sweep = subprocess.Popen(
        [STALLSCOPE, "sweep", copy, *GRID, "--separately", "--cluster", dask.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    cells = copy / "results" / "cells"
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not (cells.is_dir() and list(cells.iterdir())):
        time.sleep(0.01)
    scheduler, worker = dask.running[0], dask.running[1]
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    scheduler.send_signal(signal.SIGKILL)
    scheduler.wait()
    dask.scheduler()
    dask.worker()
    out, err = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 0, err.decode()
    assert len(list(cells.iterdir())) == 8
    shutil.rmtree(copy / "results")
    assert stallscope("sweep", copy, *GRID, "--jobs", 2).out == out


def test_an_unreachable_cluster_is_told_in_a_sentence(
    recording: Path, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    copy = tmp_path / recording.name
    shutil.copytree(recording, copy)
    address = f"tcp://127.0.0.1:{free_port()}"
    ran = stallscope("sweep", copy, *GRID, "--cluster", address)
    assert ran.status == 2
    assert "cannot reach a dask scheduler" in ran.stderr
    assert "Traceback" not in ran.stderr
    ran = stallscope("sweep", copy, *GRID, "--cluster", address, "--tls-ca", tmp_path / "none")
    assert ran.status == 2
    assert "no such file" in ran.stderr


def test_a_cluster_of_another_version_is_refused(
    recording: Path, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    copy = tmp_path / recording.name
    shutil.copytree(recording, copy)
    other = tmp_path / "other"
    other.mkdir()
    changed = 'import stallscope\nstallscope.__version__ = "0.0.1"\n'
    (other / "sitecustomize.py").write_text(changed)
    cluster = Dask(tmp_path)
    try:
        cluster.scheduler()
        cluster.worker(str(other))
        ran = stallscope("sweep", copy, *GRID, "--cluster", cluster.address)
    finally:
        cluster.stop()
    assert ran.status == 2
    assert "has stallscope 0.0.1" in ran.stderr
    assert not (copy / "results" / "cells").exists()


def test_a_worker_of_another_version_says_so() -> None:
    import msgspec

    from stallscope.scale.cells import Done, Task
    from stallscope.scale.worker import answer

    task = Task(0, "/nowhere", "x", (), version="0.0.1")
    done = msgspec.json.decode(answer(msgspec.json.encode(task)), type=Done)
    assert done.failure is not None
    assert json.dumps(done.failure.what).count("stallscope")
    assert "0.0.1" in done.failure.why
