# SPDX-License-Identifier: Apache-2.0
"""The agent on this machine: what it leaves, what it forgives, whom it answers."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import STALLSCOPE, run
from stallscope import meta
from stallscope.errors import StallscopeError
from stallscope.record import record
from stallscope.recording import Recording
from stallscope.scale import agent as module
from stallscope.scale import fleet
from stallscope.scale.agent import Agent, Numbers, Settings
from stallscope.scale.busy import processes
from stallscope.scale.metrics import TYPE, Server, text
from stallscope.scale.slim import slim

PATIENCE = 120  # seconds


@pytest.fixture(scope="module")
def spinning(program: Callable[..., Path]) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([program("spin"), "600"], stdout=subprocess.DEVNULL)
    yield started
    started.kill()
    started.wait()


def settings(folder: Path, **more: object) -> Settings:
    words = {"duration": 0.5, "budget": 1.0, "programs": ("spin",), "host": "here", **more}
    return Settings(folder, **words)  # type: ignore[arg-type]


def recordings(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.stallscope"))


def until_recorded(agent: Agent, count: int) -> None:
    """A busy machine may give the program so little time that it is not worth a look."""
    limit = time.monotonic() + PATIENCE
    while len(recordings(agent.settings.folder)) < count and time.monotonic() < limit:
        agent.run(rounds=1)
        time.sleep(0.1)
    assert len(recordings(agent.settings.folder)) >= count


def test_programs_are_recorded_and_the_fleet_reads_them(
    spinning: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    agent = Agent(settings(tmp_path / "agent"))
    until_recorded(agent, 2)
    assert all(path.name.startswith("spin-") for path in recordings(tmp_path / "agent"))
    facts = meta.read(recordings(tmp_path / "agent")[0])
    assert (facts.options["host"], facts.source) == ("here", "clock")
    assert spinning.poll() is None
    assert 'stallscope_agent_recordings_total{program="spin"}' in text(agent.numbers)
    found = fleet.ingest([tmp_path / "agent"], tmp_path / "fleet", jobs=1)
    assert (found.added, found.skipped) == (len(recordings(tmp_path / "agent")), 0)


def test_an_agent_goes_on_where_one_that_was_killed_left(
    spinning: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    until_recorded(Agent(settings(tmp_path)), 1)
    (tmp_path / ".new-spin-00000099.stallscope").mkdir()
    (tmp_path / "agent.json").write_text("{ damaged")
    again = Agent(settings(tmp_path))
    assert not list(tmp_path.glob(".new-*"))
    until_recorded(again, 2)
    assert [path.stem[-8:] for path in recordings(tmp_path)] == ["00000001", "00000002"]


def test_old_and_many_recordings_make_room_whatever_the_clock_says(tmp_path: Path) -> None:
    agent = Agent(settings(tmp_path, keep_days=1.0, most_bytes=3000, programs=("nothing",)))
    for number in range(6):
        folder = tmp_path / f"p-{number:08d}.stallscope"
        folder.mkdir()
        (folder / "data").write_bytes(b"x" * 1000)
        agent._state.ages[folder.name] = float(number)
    agent.run(rounds=1)
    assert [path.stem[-1] for path in recordings(tmp_path)] == ["3", "4", "5"]
    agent._state.ages[recordings(tmp_path)[0].name] = -2 * module.DAY
    agent.run(rounds=1)
    assert [path.stem[-1] for path in recordings(tmp_path)] == ["4", "5"]
    assert agent.numbers.removed == 4


def test_a_full_disk_and_a_process_that_ends_are_forgiven(
    spinning: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    said: list[str] = []
    full = Agent(settings(tmp_path, least_free=1 << 62), said.append)
    full.run(rounds=1)
    assert full.numbers.failures == 1
    assert "nearly full" in said[0]
    assert full._pause(False, 0.0, 0.0) >= module.FIRST_PAUSE
    assert not recordings(tmp_path)


def test_the_budget_decides_how_long_to_rest(tmp_path: Path) -> None:
    agent = Agent(settings(tmp_path, budget=0.01))
    assert agent._pause(True, used=0.2, took=2.0) == pytest.approx(18.0)
    for wrong in ({"budget": 0.0}, {"duration": 0.0}, {"rate": 0}):
        with pytest.raises(StallscopeError):
            Agent(settings(tmp_path, **wrong))


def test_processes_of_this_user_are_seen(spinning: subprocess.Popen[bytes]) -> None:
    assert spinning.pid in [one.pid for one in processes() if one.name == "spin"]


def ask(port: int, path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()


def test_numbers_are_served_to_this_machine_and_to_no_page() -> None:
    numbers = Numbers()
    numbers.recordings['odd "name"\n'] = 3
    server = Server(numbers, 0)
    try:
        status, kind, body = ask(server.port)
        assert (status, kind) == (200, TYPE)
        assert body.endswith("# EOF\n")
        assert r'program="odd \"name\"\n"} 3' in body
        assert ask(server.port, Host="evil.example")[0] == 403
        assert ask(server.port, Origin="http://evil.example")[0] == 403
        assert ask(server.port, Sec_Fetch_Site="cross-site")[0] == 403
        assert ask(server.port, "/other")[0] == 404
        with pytest.raises(StallscopeError, match="cannot listen"):
            Server(numbers, server.port)
    finally:
        server.close()


def test_the_command_ends_when_it_is_told_to(tmp_path: Path) -> None:
    words = ["agent", "--folder", tmp_path / "a", "--program", "no-such-program", "--listen", "0"]
    running = subprocess.Popen([STALLSCOPE, *words], stderr=subprocess.PIPE)
    assert running.stderr is not None
    assert b"/metrics" in running.stderr.readline()
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0
    assert b"Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_in_the_middle_of_a_look(
    spinning: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    words = ["agent", "--folder", tmp_path / "a", "--program", "spin", "--duration", "100"]
    running = subprocess.Popen([STALLSCOPE, *words], stderr=subprocess.PIPE)
    limit = time.monotonic() + PATIENCE
    while not list((tmp_path / "a").glob(".new-spin*")) and time.monotonic() < limit:
        time.sleep(0.1)
    running.send_signal(number)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0
    assert b"Traceback" not in err
    assert len(recordings(tmp_path / "a")) == 1  # of what it saw until then


def test_a_look_keeps_what_samples_fell_into_and_names_it_as_before(
    spinning: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    whole, thin = tmp_path / "whole.stallscope", tmp_path / "thin.stallscope"
    for _ in range(5):
        shutil.rmtree(whole, ignore_errors=True)
        record(
            source="clock",
            pid=spinning.pid,
            duration=1.0,
            rate=499,
            children=False,
            heap=False,
            output=whole,
        )
        if meta.read(whole).samples:
            break
    shutil.copytree(whole, thin)
    slim(thin)
    seen = [json.loads(shown("objects", path, "--json")) for path in (whole, thin)]
    for one in seen:
        one.pop("recording")
    assert seen[0] == seen[1]
    assert Recording(thin).table("bucket").num_rows < Recording(whole).table("bucket").num_rows / 4
    assert Recording(thin).table("object").num_rows < Recording(whole).table("object").num_rows / 4
    shown("verify", thin)
    assert size(thin) < size(whole)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def shown(*words: object) -> str:
    ran = run(STALLSCOPE, *words)
    assert ran.status == 0, ran.stderr
    return ran.stdout


def test_an_agent_that_is_stopped_for_a_while_goes_on(
    spinning: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    command = [STALLSCOPE, "agent", "--folder", tmp_path / "agent", "--program", "spin"]
    agent = subprocess.Popen([*map(str, command), "--budget", "50%"], stderr=subprocess.PIPE)
    try:
        for _ in range(8):
            time.sleep(0.4)
            agent.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            agent.send_signal(signal.SIGCONT)
        assert agent.poll() is None
    finally:
        agent.send_signal(signal.SIGCONT)
        agent.terminate()
        _, said = agent.communicate(timeout=PATIENCE)
    assert agent.returncode == 0, said
    assert spinning.poll() is None
