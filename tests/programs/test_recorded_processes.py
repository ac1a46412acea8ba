# SPDX-License-Identifier: Apache-2.0
"""A recording of every process image, linked to the one that it came from."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import PATIENCE, PROGRAMS, STALLSCOPE, Made, Ran, Recorder, run

Build = Callable[..., Path]
BOTH = pytest.mark.parametrize("options", [(), ("--trace",)], ids=["counts", "trace"])


def check_tree(made: Made) -> None:
    """One root; every other image names an image that began before it; totals cover all."""
    rows = made.info.processes
    seen: set[str] = set()
    for row in rows:
        assert row.name not in seen
        assert (row.parent is None) == (row is rows[0])
        assert row.parent is None or row.parent in seen
        seen.add(row.name)
    for total in ("instructions", "loads", "stores", "allocations", "frees", "threads"):
        assert getattr(made.info, total) == sum(getattr(row, total) for row in rows)
    assert made.info.complete


def endings(made: Made) -> list[tuple[str, int | None]]:
    return [(row.ending, row.exit_code) for row in made.info.processes]


@BOTH
def test_forked_children_have_recordings_of_their_own(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("fork_tree"), 2, options=options)
    assert (made.status, made.ran.stdout) == (0, "processes=7\n")
    check_tree(made)
    root, *others = made.info.processes
    assert all(row.forked and row.ending == "exit" for row in others)
    parents = [row.parent for row in others]
    assert parents.count(root.name) == 2
    assert sorted(row.exit_code for row in others) == [1, 1, 1, 1, 3, 3]
    # Each process makes one block itself; only the root's printf takes another.
    assert [row.allocations for row in others] == [1] * 6
    assert [row.frees for row in made.info.processes] == [1] * 7
    assert root.allocations == 2


def test_children_count_only_what_they_did_themselves(record: Recorder, program: Build) -> None:
    made = record(program("fork_tree"), 1)
    root, first, second = made.info.processes
    assert first.instructions == second.instructions
    assert 0 < first.instructions < root.instructions / 2
    operations = made.rows("operation", image=1)
    work = [row for row in operations if row["function"] == "work"]
    assert sum(row["executions"] for row in work if row["kind"] == 1) >= 250  # vector stores


def test_a_deep_tree_of_forks_is_whole(record: Recorder, program: Build) -> None:
    made = record(program("fork_tree"), 4)
    assert made.ran.stdout == "processes=31\n"
    assert len(made.info.processes) == 31
    check_tree(made)


def test_vfork_and_a_failed_exec_leave_the_parent_unharmed(
    record: Recorder, program: Build
) -> None:
    made = record(program("vfork_exec"))
    assert (made.status, made.ran.stdout) == (0, "hello from vfork\nfirst=0 second=42\n")
    check_tree(made)
    assert endings(made) == [("exit", 0), ("exec", None), ("exit", 0), ("exit", 42)]
    assert made.info.processes[2].command == ["/bin/echo", "hello from vfork"]
    failed = made.events("exec_failed", image=3)
    assert [row["value"] for row in failed] == [2]  # ENOENT


def test_posix_spawn_is_followed(record: Recorder, program: Build) -> None:
    made = record(program("spawn"))
    assert (made.status, made.ran.stdout) == (0, "one\ntwo\nfailures=0\n")
    check_tree(made)
    commands = [row.command for row in made.info.processes if not row.forked]
    assert commands[1:] == [["/bin/echo", "one"], ["/bin/echo", "two"]]


@BOTH
def test_an_exec_chain_is_one_process_of_four_images(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    made = record(program("exec_chain"), options=options)
    assert (made.status, made.ran.stdout) == (0, "image 0\nimage 1\nimage 2\n")
    check_tree(made)
    rows = made.info.processes
    assert len({row.pid for row in rows}) == 1
    assert [row.parent for row in rows] == [None, *(row.name for row in rows[:3])]
    assert endings(made) == [("exec", None)] * 3 + [("exit", 0)]
    assert made.info.exit_code == 0
    assert made.shown.count("replaced itself (exec)") == 3


def test_the_status_after_an_exec_is_that_of_the_last_image(record: Recorder) -> None:
    made = record("/bin/sh", "-c", "exec /bin/sh -c 'kill -TERM $$'")
    assert made.status == 128 + signal.SIGTERM
    assert (made.info.signal, made.info.exit_code) == (signal.SIGTERM, None)
    assert [row.ending for row in made.info.processes] == ["exec", "signal"]


def test_a_child_that_a_signal_killed_says_so(record: Recorder) -> None:
    made = record("/bin/sh", "-c", "(kill -KILL $(exec sh -c 'echo $PPID')); echo $?")
    assert made.ran.stdout == "137\n"
    assert signal.SIGKILL in [row.signal for row in made.info.processes]


def test_a_process_that_another_one_killed_is_named_as_truncated(record: Recorder) -> None:
    made = record("/bin/sh", "-c", "sh -c 'kill -KILL $PPID; exit 3'; echo never")
    assert (made.status, made.ran.stdout) == (137, "")
    root, *others = made.info.processes
    assert (root.complete, made.info.complete, made.info.truncated) == (False, False, True)
    assert all(row.complete for row in others)
    assert f"truncated: killed or still running: {root.name};" in made.shown


def test_a_shell_script_is_recorded_with_everything_that_it_starts(record: Recorder) -> None:
    native = run(PROGRAMS / "pipeline.sh")
    made = record(PROGRAMS / "pipeline.sh")
    assert (made.status, made.ran.out) == (3, native.out)
    check_tree(made)
    names = {Path(row.command[0]).name for row in made.info.processes if not row.forked}
    assert {"seq", "sort", "sed"} <= names


def test_make_builds_a_project_in_parallel(record: Recorder, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROGRAMS / "project", project)
    made = record("make", "-j2", "-C", project)
    assert made.status == 0, made.ran.stderr
    assert run(project / "program").stdout == "three times four is 12\n"
    check_tree(made)
    names = {Path(row.command[0]).name for row in made.info.processes}
    assert {"make", "cc1", "as", "ld"} <= names


def test_without_children_only_the_program_itself_is_recorded(
    record: Recorder, program: Build
) -> None:
    made = record(program("fork_tree"), 2, options=["--no-children"])
    assert (made.status, made.ran.stdout) == (0, "processes=7\n")
    assert len(made.info.processes) == 1
    assert made.info.allocations == 2
    spawned = record(program("spawn"), options=["--no-children"])
    assert (spawned.status, spawned.ran.stdout) == (0, "one\ntwo\nfailures=0\n")
    assert len(spawned.info.processes) == 1


def test_a_program_that_execs_without_children_being_followed_passes_its_status(
    record: Recorder,
) -> None:
    made = record("/bin/sh", "-c", "exec /bin/sh -c 'exit 9'", options=["--no-children"])
    assert made.status == 9
    assert made.info.exit_code == 9
    assert len(made.info.processes) == 1


def test_a_child_that_outlives_its_parent_is_recorded_to_its_end(record: Recorder) -> None:
    made = record("/bin/sh", "-c", "(sleep 0.5; echo late; exit 4) & echo early; exit 6")
    assert made.status == 6
    assert made.ran.stdout == "early\nlate\n"
    check_tree(made)
    assert 4 in [row.exit_code for row in made.info.processes]


def test_waiting_for_children_that_outlive_the_program_can_be_stopped(
    record: Recorder, program: Build
) -> None:
    path = record.place()
    script = f"{program('spin')} 0 & exit 5"
    words = [STALLSCOPE, "record", "-q", "-o", path, "--", "/bin/sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        ended = time.monotonic() + PATIENCE
        while any(recorder_waits_for(process.pid)) and time.monotonic() < ended:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 5
        assert Path(f"/proc/{child}").exists()  # left to itself, not killed
        os.kill(child, signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert out == b"stopped by signal 15\n"
    made = Made(Ran(5, out, err), path)
    assert made.info.exit_code == 5
    assert not made.info.complete


def recorder_waits_for(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_program_of_another_kind_in_the_tree_runs_as_it_is(
    record: Recorder, tmp_path: Path
) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(b"\x7fELF" + bytes([1, 1, 1]) + bytes(100))  # 32-bit, and no program at all
    odd.chmod(0o755)
    made = record("/bin/sh", "-c", f"{odd}; echo status $?")
    native = run("/bin/sh", "-c", f"{odd}; echo status $?")
    assert made.ran.stdout == native.stdout


def test_a_program_that_changes_the_user_runs_as_it_is_and_is_named(
    record: Recorder, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    shutil.copy("/bin/echo", own)
    own.chmod(0o4755)
    script = f"{own} hello; /bin/echo again; exec {tmp_path}/none"
    path = record.place()
    words = [STALLSCOPE, "record", "--machine", "none", "-o", path]
    made = Made(run(*words, "--", "/bin/sh", "-c", script), path)
    assert made.ran.stdout == "hello\nagain\n"
    assert made.status == 127
    assert f"{own} ran unrecorded" in made.ran.stderr
    assert any(row.command == ["/bin/echo", "again"] for row in made.info.processes)


def test_a_child_that_nobody_waits_for_still_tells_its_end(record: Recorder) -> None:
    itself = "$(exec sh -c 'echo $PPID')"
    script = f"(sleep 0.5; exit 4) & (sleep 0.5; kill -TERM {itself}) & exit 0"
    made = record("/bin/sh", "-c", script)
    children = [row for row in made.info.processes if row.forked and row.ending != "exec"]
    assert ("exit", 4) in [(row.ending, row.exit_code) for row in children]
    assert ("killed", None) in [(row.ending, row.exit_code) for row in children]
