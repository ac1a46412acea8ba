# SPDX-License-Identifier: Apache-2.0
"""A server under load that is watched: it never stops, loses nothing and is unchanged."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import PATIENCE, STALLSCOPE, run

pytestmark = pytest.mark.real_time

Build = Callable[..., Path]
STOPPED = {"T", "t"}  # by a signal, by a tracer


@dataclass(frozen=True)
class Server:
    pid: int
    socket: Path

    def ask(self, *words: str) -> str:
        return run("redis-cli", "-s", self.socket, *words).stdout.strip()

    def status(self) -> dict[str, str]:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def code(self) -> set[str]:
        """Files of which code is mapped."""
        lines = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        return {words[-1] for words in map(str.split, lines) if "x" in words[1]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        pytest.skip("redis-server is not installed")
    socket = tmp_path / "redis.sock"
    words = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", tmp_path]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert process.poll() is None
        started = Server(process.pid, socket)
        while started.ask("PING") != "PONG":  # all of its threads are there then
            assert process.poll() is None
        yield started
        assert process.poll() is None
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def count(server: Server, times: int) -> None:
    """Many clients that add one, in a row."""
    words = ["redis-benchmark", "-s", server.socket, "-n", times, "-q", "INCR", "sum"]
    assert run(*words).status == 0


def test_a_server_that_is_watched_by_top(server: Server) -> None:
    times = 300_000
    before = server.status(), server.code()
    load = threading.Thread(target=count, args=(server, times))
    load.start()
    seen: list[str] = []
    words = [STALLSCOPE, "top", "-p", server.pid, "--watch", "--duration", 2, "--json"]
    top = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
    while top.poll() is None:
        status = server.status()
        seen.append(status["State"][0])
        assert status["TracerPid"] == "0"
        time.sleep(0.01)
    assert top.stdout is not None
    document = json.loads(top.stdout.read())
    load.join()
    assert top.returncode == 0
    assert document["samples"] > 50
    assert document["rows"]
    assert not STOPPED & set(seen)
    assert server.ask("GET", "sum") == str(times)
    after = server.status(), server.code()
    assert after[1] == before[1]
    for name in ("Threads", "SigCgt", "SigIgn", "Seccomp", "TracerPid"):
        assert after[0][name] == before[0][name], name


def test_a_server_that_is_recorded_for_a_while(server: Server, tmp_path: Path) -> None:
    load = threading.Thread(target=count, args=(server, 200_000))
    load.start()
    folder = tmp_path / "redis.stallscope"
    ran = run(STALLSCOPE, "record", "-p", server.pid, "--duration", 1, "-o", folder)
    load.join()
    assert ran.status == 0, ran.stderr
    assert server.ask("GET", "sum") == "200000"
    shown = run(STALLSCOPE, "lines", folder, "--json")
    assert json.loads(shown.stdout)["samples"] > 20


def test_a_container_without_the_right_is_told_what_it_needs(
    program: Build, tmp_path: Path
) -> None:
    folder = tmp_path / "r.stallscope"
    words = ["record", "--source", "clock", "-o", folder, "--", "/bin/true"]
    ran = run(program("no_perf"), STALLSCOPE, *words)
    assert ran.status == 125
    said = " ".join(ran.stderr.split())
    assert "this container may not use perf_event_open" in said
    assert "--cap-add PERFMON and a seccomp profile that allows perf_event_open" in said
    assert "Traceback" not in said
    assert not folder.exists()
