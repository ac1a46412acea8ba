# SPDX-License-Identifier: Apache-2.0
"""However a target or its recorder ends, the status is the target's and what was recorded stays."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import PATIENCE, STALLSCOPE, Made, Ran, Recorder, run

GONE = "stallscope: the recorder is gone; the program goes on unrecorded\n"
SHARED = Path("/dev/shm")


class Running:
    """`stallscope record -- spin ARGS`, up to the line in which the target tells its process id."""

    def __init__(self, path: Path, *options: str, command: list[object]) -> None:
        words = [STALLSCOPE, "record", "-o", path, *options, "--", *command]
        self.path = path
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.target = int(self.process.stdout.readline())

    def end(self) -> Ran:
        out, err = self.process.communicate(timeout=PATIENCE)
        status = self.process.returncode
        return Ran(status if status >= 0 else 128 - status, out, err)

    def wait_for_work(self, instructions: int) -> None:
        """Until what the recorder has put on disk shows that much work."""
        wait_until(lambda: on_disk(self.path) >= instructions)

    def members(self) -> list[int]:
        """Processes that are left of the whole session."""
        return [pid for pid in processes() if session_of(pid) == self.process.pid]

    def clean_up(self) -> None:
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def wait_until(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < limit, "it never happened"
        time.sleep(0.05)


def on_disk(path: Path) -> int:
    from stallscope.errors import StallscopeError
    from stallscope.recording import Recording

    try:
        return Recording(path).meta.instructions
    except StallscopeError:
        return 0


def processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def stat_of(pid: int) -> list[str]:
    """State, parent, group, session, … of a living process; nothing of a dead one or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] == "Z" else fields


def session_of(pid: int) -> int | None:
    fields = stat_of(pid)
    return int(fields[3]) if fields else None


@pytest.fixture
def start(record: Recorder, program: Callable[..., Path]) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def spin(*arguments: str, options: tuple[str, ...] = ()) -> Running:
        command = [program("spin"), *arguments]
        started.append(Running(record.place(), *options, command=command))
        return started[-1]

    yield spin
    for running in started:
        running.clean_up()


WAYS = pytest.mark.parametrize(
    "options",
    [(), ("--trace",), ("--machine", "default")],
    ids=["counts", "trace", "machine"],
)


@WAYS
def test_a_crash_gives_139_and_a_complete_recording(
    options: tuple[str, ...], record: Recorder, program: Callable[..., Path]
) -> None:
    made = record(program("crash"), options=options)
    assert (made.status, made.ran.stdout) == (139, "before the crash\n")
    assert (made.info.signal, made.info.exit_code, made.info.complete) == (11, None, True)
    assert re.search(r"^ended +killed by SIGSEGV, after", made.shown, re.M)
    assert any(row["function"] == "main" for row in made.rows("block"))


def test_an_abort_gives_134_and_keeps_the_block_that_was_alive(
    record: Recorder, program: Callable[..., Path]
) -> None:
    made = record(program("abort"))
    assert (made.status, made.ran.stdout) == (134, "before the abort\n")
    assert (made.info.signal, made.info.complete) == (6, True)
    assert [row["died"] for row in made.heap() if row["size"] == 1000] == [None]


@pytest.mark.parametrize("words", [["0"], ["7"], ["255"], ["9", "at once"]])
def test_the_exit_status_passes_through(
    words: list[str], record: Recorder, program: Callable[..., Path]
) -> None:
    made = record(program("exit_code"), *words)
    assert made.status == int(words[0])
    assert (made.info.exit_code, made.info.signal) == (int(words[0]), None)
    assert made.info.complete
    assert f"exit status {words[0]}, after" in made.shown


@WAYS
def test_a_target_that_kills_itself_has_all_of_its_work_recorded(
    options: tuple[str, ...], record: Recorder, program: Callable[..., Path]
) -> None:
    made = record(program("killed"), options=options)
    assert (made.status, made.ran.stdout) == (137, "sum=3000000\n")
    assert made.info.signal == signal.SIGKILL
    loads = sum(
        row["executions"]
        for row in made.rows("operation")
        if row["function"] == "work" and row["kind"] == 0 and row["size"] == 4
    )
    assert loads == 1_000_000


@WAYS
def test_a_target_killed_from_outside_leaves_a_readable_recording(
    options: tuple[str, ...], start: Callable[..., Running]
) -> None:
    running = start(options=options)
    time.sleep(0.3)
    os.kill(running.target, signal.SIGKILL)
    ran = running.end()
    made = Made(ran, running.path)
    assert ran.status == 137
    assert (made.info.signal, made.info.complete) == (signal.SIGKILL, False)
    assert (made.info.truncated, made.info.recovered) == (True, False)
    assert "truncated: the program was killed" in made.shown
    assert re.search(r"^ended +killed by SIGKILL, after", made.shown, re.M)
    assert made.info.instructions > 1_000_000
    assert made.info.quality == []
    assert any(row["function"] == "main" for row in made.rows("block"))
    assert running.members() == []


@WAYS
def test_a_target_whose_recorder_is_killed_says_so_once_and_goes_on(
    options: tuple[str, ...], start: Callable[..., Running]
) -> None:
    running = start("7", options=options)
    running.wait_for_work(10_000_000)
    running.process.kill()
    running.process.wait()
    assert stat_of(running.target)[0] not in "tT"
    os.kill(running.target, signal.SIGTERM)
    ran = running.end()
    assert ran.stdout == "stopped by signal 15\n"
    assert ran.stderr == GONE
    wait_until(lambda: running.members() == [])


@WAYS
def test_what_a_killed_recorder_had_written_is_shown_as_truncated(
    options: tuple[str, ...], start: Callable[..., Running]
) -> None:
    running = start(options=options)
    running.wait_for_work(10_000_000)
    running.process.kill()
    os.kill(running.target, signal.SIGKILL)
    made = Made(running.end(), running.path)
    assert (made.info.truncated, made.info.recovered) == (True, True)
    assert not made.info.complete
    assert made.info.instructions >= 10_000_000
    assert re.search(r"^ended +unknown *$", made.shown, re.M)
    assert "truncated: its recorder was stopped" in made.shown
    assert any(row["function"] == "main" for row in made.rows("block"))


def test_the_next_recording_sweeps_up_what_a_killed_recorder_left(
    start: Callable[..., Running], record: Recorder
) -> None:
    before = set(SHARED.glob("stallscope-*"))
    running = start()
    session = session_folder(running)
    assert session not in before
    running.process.kill()
    running.process.wait()
    assert session.exists()
    record("/bin/true")
    assert not session.exists()


def session_folder(running: Running) -> Path:
    words = Path(f"/proc/{running.target}/cmdline").read_bytes().split(b"\0")
    [folder] = [word for word in words if word.startswith(b"--ss-folder=")]
    return Path(os.fsdecode(folder.partition(b"=")[2]))


def test_a_recorder_that_still_lives_keeps_its_session(
    start: Callable[..., Running], record: Recorder
) -> None:
    running = start("3")
    session = session_folder(running)
    record("/bin/true")
    assert session.exists()
    os.kill(running.target, signal.SIGTERM)
    assert running.end().status == 3
    assert not session.exists()


def test_children_that_start_after_their_recorder_died_still_run(
    record: Recorder, tmp_path: Path
) -> None:
    script = tmp_path / "script.sh"
    script.write_text(
        "echo $$\nread line\n/bin/echo alone; (/bin/echo in a subshell)\nenv | grep -c VALGRIND\n"
    )
    words = [STALLSCOPE, "record", "-o", record.place(), "--", "/bin/sh", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait()
        record("/bin/true")  # takes the session's folder away
        out, err = process.communicate("go on\n", timeout=PATIENCE)
    assert out == "alone\nin a subshell\n0\n"
    assert set(err.splitlines(keepends=True)) == {GONE}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_recorder_reaches_a_target_that_dies_of_it(
    number: signal.Signals, start: Callable[..., Running]
) -> None:
    running = start()
    running.process.send_signal(number)
    made = Made(running.end(), running.path)
    assert made.status == 128 + number
    assert (made.info.signal, made.info.complete) == (number, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_recorder_reaches_a_target_that_handles_it(
    number: signal.Signals, start: Callable[..., Running]
) -> None:
    running = start("7")
    running.process.send_signal(number)
    made = Made(running.end(), running.path)
    assert made.status == 7
    assert made.ran.stdout == f"stopped by signal {int(number)}\n"
    assert (made.info.exit_code, made.info.complete) == (7, True)
    assert any(row["value"] == number for row in made.events("signal", "signal_enter"))


def test_an_interrupt_of_the_whole_group_ends_target_and_recording(
    start: Callable[..., Running],
) -> None:
    running = start("5")
    os.killpg(running.process.pid, signal.SIGINT)
    made = Made(running.end(), running.path)
    assert (made.status, made.info.exit_code, made.info.complete) == (5, 5, True)
    assert running.members() == []


def test_control_c_at_a_terminal_ends_the_target_and_closes_the_recording(
    record: Recorder, program: Callable[..., Path]
) -> None:
    path = record.place()
    words = [str(w) for w in (STALLSCOPE, "record", "-o", path, "--", program("spin"))]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    seen = b""
    while not re.search(rb"(^|\x1b\[0m)\d+\r?\n", seen):  # progress may come before it
        seen += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # a terminal that nobody holds any more
        while data := os.read(terminal, 1000):
            seen += data
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    made = Made(Ran(130, seen, b""), path)
    assert (made.info.signal, made.info.complete) == (signal.SIGINT, True)
    assert b"Traceback" not in seen


def test_a_recording_can_be_looked_at_while_it_is_made(start: Callable[..., Running]) -> None:
    running = start("0")
    running.wait_for_work(1_000_000)
    shown = run(STALLSCOPE, "info", running.path)
    assert shown.status == 0
    os.kill(running.target, signal.SIGTERM)
    assert running.end().status == 0
