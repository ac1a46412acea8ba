# SPDX-License-Identifier: Apache-2.0
"""Samples at native speed: programs whose waiting is known, processes, endings, refusals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import STALLSCOPE, Made, Ran, Recorder, run
from stallscope.analyses.live import LiveObjectRow, LiveObjects, LivePlaceRow, LivePlaces
from stallscope.analyses.objects import ObjectRow, Objects, PlaceRow, Places

pytestmark = pytest.mark.real_time

Build = Callable[..., Path]
LOOPS = ("chase", "scatter", "follow", "update", "compute")
# What each loop of waits.c waits for.
OBJECTS = {"chase": "chain", "scatter": "table", "update": "counts"}


@pytest.fixture(scope="module")
def waits(shared_record: Recorder, program: Build) -> tuple[Made, dict[str, float]]:
    shares = (30, 25, 20, 15, 10)
    made = shared_record(program("waits"), 1500, *shares, options=["--rate", 2000], source="clock")
    assert made.status == 0
    used = [float(word) for word in made.ran.stdout.split()[1:]]
    return made, dict(zip(LOOPS, used, strict=True))


def placed(made: Made) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each sample with the function that it was in."""
    functions = {row["operation"]: row["function"] for row in made.rows("operation")}
    for row in made.rows("live_sample"):
        yield functions.get(row["operation"], ""), row


def test_loops_that_wait_are_told_from_those_that_compute(waits: Any) -> None:
    made, _ = waits
    states: dict[str, Counter[str]] = {name: Counter() for name in LOOPS}
    for function, row in placed(made):
        if function in states:
            states[function][row["state"]] += 1
    for name in LOOPS[:4]:
        assert states[name]["memory"] >= 0.7 * states[name].total() > 0, states
    assert states["compute"]["compute"] >= 0.9 * states["compute"].total() > 0, states


def test_addresses_are_found_and_fall_into_the_right_object(waits: Any) -> None:
    made, _ = waits
    names = {row["bucket"]: row["name"] for row in made.rows("bucket")}
    every: Counter[str] = Counter()
    known: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for function, row in placed(made):
        if function not in LOOPS[:4]:
            continue
        every[function] += 1
        if row["address"] is not None:
            known[function] += 1
            right[function] += names[row["bucket"]] == OBJECTS.get(function, "")
    assert known.total() >= 0.7 * every.total()
    assert right.total() >= 0.95 * known.total()
    for name in LOOPS[:4]:
        assert right[name] >= 0.9 * known[name] > 0, (name, known, right)


def test_shares_are_those_of_the_time(waits: Any) -> None:
    made, used = waits
    counted = Counter(function for function, _ in placed(made) if function in LOOPS)
    for name, share in used.items():
        assert abs(counted[name] / counted.total() - share) < 0.08, (name, counted, used)


def test_code_made_at_run_time_is_decoded_and_named(
    shared_record: Recorder, program: Build
) -> None:
    made = shared_record(program("jit_walk"), 6, options=["--rate", 1000], source="clock")
    Path(f"/tmp/perf-{made.info.processes[0].pid}.map").unlink()
    names = {row["bucket"]: row["name"] for row in made.rows("bucket")}
    walked = [row for function, row in placed(made) if function == "js:walk"]
    assert len(walked) > 200
    known = [row for row in walked if row["address"] is not None]
    # The first round ran before the code had a name, and so before it could be found.
    assert len(known) > 0.5 * len(walked)
    assert sum(names[row["bucket"]] == "chain" for row in known) > 0.95 * len(known)
    assert sum(row["state"] == "memory" for row in known) > 0.7 * len(known)


def test_json_has_the_keys_of_the_simulated_source(
    waits: Any, stallscope: Callable[..., Ran]
) -> None:
    made, _ = waits
    for verb, plain, live in (
        ("objects", (Objects, ObjectRow), (LiveObjects, LiveObjectRow)),
        ("functions", (Places, PlaceRow), (LivePlaces, LivePlaceRow)),
        ("lines", (Places, PlaceRow), (LivePlaces, LivePlaceRow)),
    ):
        for simulated, sampled in zip(plain, live, strict=True):
            missing = set(simulated.__dataclass_fields__) - set(sampled.__dataclass_fields__)
            assert not missing, (verb, missing)
        document = json.loads(stallscope(verb, made.path, "--json").stdout)
        assert document["source"] == "clock"
        assert document["samples"] == made.info.samples > 500
        assert 0.5 < document["confidence"] <= 1
        assert all(row["misses"] is None for row in document["rows"])
    rows = json.loads(stallscope("objects", made.path, "--json").stdout)["rows"]
    assert rows[0]["object"] == "chain"
    assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_views_for_people(waits: Any, stallscope: Callable[..., Ran], tmp_path: Path) -> None:
    made, _ = waits
    shown = stallscope("objects", made.path).stdout
    assert "waiting for memory" in shown
    assert "chain" in shown
    assert "waits.c:" in stallscope("lines", made.path).stdout
    assert "samples" in made.shown
    one = stallscope("objects", made.path, "--object", "table").stdout
    assert "scatter" in one
    for verb in ("objects", "lines"):
        picture = tmp_path / f"{verb}.html"
        assert stallscope(verb, made.path, "--plot", picture).status == 0
        assert "waited for" in picture.read_text()


def test_what_samples_cannot_tell_is_refused_in_a_sentence(
    waits: Any, stallscope: Callable[..., Ran]
) -> None:
    made, _ = waits
    for words in (["misses"], ["evictions"], ["objects", "--machine", "default"], ["regions"]):
        ran = stallscope(words[0], made.path, *words[1:])
        assert ran.status == 2, ran.stdout
        assert "--source clock" in ran.stderr
        assert "Traceback" not in ran.stderr
        assert "--source valgrind" in ran.stderr


def test_heap_blocks_have_the_names_of_their_sites(
    record: Recorder, workload: Callable[[str], Path], stallscope: Callable[..., Ran]
) -> None:
    command = [workload("list"), 300_000, 30, "shuffled"]
    made = record(*command, options=["--rate", 1000], source="clock")
    rows = json.loads(stallscope("objects", made.path, "--json").stdout)["rows"]
    assert rows[0]["object"].startswith("make_node (list.c:17) < build_list (list.c:")
    assert (rows[0]["kind"], rows[0]["blocks"]) == ("heap", 300_000)
    assert rows[0]["bytes"] == 300_000 * 64
    assert rows[0]["share"] > 0.7
    large = made.heap()
    assert [row["size"] for row in large] == [300_000 * 8]
    assert large[0]["died"] is not None
    without = record(*command, options=["--no-heap", "--rate", 1000], source="clock")
    rows = json.loads(stallscope("objects", without.path, "--json").stdout)["rows"]
    assert rows[0]["object"] == "[heap]"


def test_blocks_from_before_a_fork_have_names_in_the_child(
    record: Recorder, program: Build, stallscope: Callable[..., Ran]
) -> None:
    made = record(program("heapfork"), options=["--rate", 1000], source="clock")
    assert made.status == 0
    child = next(image.meta for image in made.images() if image.meta.forked)
    found = stallscope("objects", made.path, "--process", child.pid, "--json")
    rows = json.loads(found.stdout)["rows"]
    assert rows[0]["object"].startswith("make_table")


def test_output_and_status_are_the_native_ones(record: Recorder, program: Build) -> None:
    native = run(program("io"), stdin=b"some text\n")
    made = record(program("io"), stdin=b"some text\n", source="clock")
    assert (made.ran.status, made.ran.out) == (native.status, native.out)
    assert record(program("exit_code"), 7, source="clock").status == 7
    killed = record(program("abort"), source="clock")
    assert killed.status == 128 + signal.SIGABRT
    assert killed.info.ending == "signal"


def test_children_and_threads_are_followed(record: Recorder, program: Build) -> None:
    made = record(program("fork_tree"), source="clock")
    assert made.status == 0
    parents = {image.meta.name: image.meta.parent for image in made.images()}
    assert len(parents) > 1
    assert all(parent in parents for parent in parents.values() if parent is not None)
    alone = record(program("fork_tree"), options=["--no-children"], source="clock")
    assert len(alone.images()) == 1
    threads = record(program("threads200"), source="clock")
    assert threads.info.threads == 201


def test_a_program_that_never_gets_a_sample(record: Recorder) -> None:
    made = record("/bin/true", options=["--rate", 1], source="clock")
    assert made.status == 0
    shown = run(STALLSCOPE, "objects", made.path)
    assert shown.status == 0


@pytest.fixture
def spinning(program: Build) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen([program("waits"), "60000"], stdout=subprocess.DEVNULL)
    time.sleep(1)  # it makes its chains first
    yield running
    running.kill()
    running.wait()


def test_a_running_process_is_watched_and_left_alone(
    spinning: subprocess.Popen[bytes], record: Recorder
) -> None:
    path = record.place()
    words = ["record", "-q", "-p", spinning.pid, "--duration", 1, "-o", path]
    ran = run(STALLSCOPE, *words)
    assert ran.status == 0, ran.stderr
    made = Made(ran, path)
    assert spinning.poll() is None
    assert made.info.samples > 20
    names = {row["bucket"]: row["name"] for row in made.rows("bucket")}
    touched = Counter(names.get(row["bucket"]) for row in made.rows("live_sample"))
    assert touched["chain"] > 0


def test_ctrl_c_detaches(spinning: subprocess.Popen[bytes], record: Recorder) -> None:
    path = record.place()
    words = [STALLSCOPE, "record", "-p", str(spinning.pid), "-o", str(path)]
    recorder = subprocess.Popen(words, stderr=subprocess.PIPE)
    time.sleep(1.5)
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(60) == 0
    assert spinning.poll() is None
    assert Made(run("true"), path).info.samples > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", "4194304"], "there is no process 4194304"),
        (["-p", "1", "--", "/bin/true"], "without a program"),
        (["--source", "clock", "--rate", "0", "--", "/bin/true"], "between 1 and 10,000"),
        (["--source", "clock", "--duration", "-1", "--", "/bin/true"], "more than 0"),
        (["--source", "clock", "--trace", "--", "/bin/true"], "--trace is not for --source clock"),
        (["--rate", "5", "--", "/bin/true"], "--rate is not for --source valgrind"),
        (["--source", "clock", "--", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--source", "clock"], "no program to record"),
        (["--source", "perf", "--min-latency", "-1", "--", "/bin/true"], "between 0 and 65,535"),
    ],
)
def test_refusals(words: list[str], sentence: str, tmp_path: Path) -> None:
    ran = run(STALLSCOPE, "record", "-o", tmp_path / "r.stallscope", *words)
    assert ran.status != 0
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "r.stallscope").exists()


def test_a_process_that_ends_while_it_is_watched(record: Recorder, program: Build) -> None:
    running = subprocess.Popen([program("waits"), "1200"], stdout=subprocess.DEVNULL)
    path = record.place()
    ran = run(STALLSCOPE, "record", "-p", running.pid, "-o", path)
    assert ran.status == 0, ran.stderr
    assert running.wait() == 0
    assert Made(ran, path).info.samples > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_users_process_is_refused() -> None:
    running = subprocess.Popen(["sleep", "30"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o777)
            ran = run(
                *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
                *(STALLSCOPE, "record", "-p", running.pid, "-o", Path(folder) / "r.stallscope"),
                cwd=Path("/"),
            )
        if "setpriv" in ran.stderr or "No module" in ran.stderr or ran.status in (126, 127):
            pytest.skip("nobody cannot run stallscope here")
        assert ran.status == 125
        assert "another user" in ran.stderr
    finally:
        running.kill()
        running.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    ran = run(
        *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
        *(STALLSCOPE, "record", "--source", "clock", "-o", tmp_path / "r.stallscope"),
        *("--", "/bin/true"),
        cwd=Path("/"),
    )
    if "setpriv" in ran.stderr or "No module" in ran.stderr or ran.status in (126, 127):
        pytest.skip("nobody cannot run stallscope here")
    assert ran.status == 125
    assert "cannot make" in ran.stderr


def test_top_without_a_screen(spinning: subprocess.Popen[bytes]) -> None:
    ran = run(STALLSCOPE, "top", "-p", spinning.pid, "--duration", 1, "--json")
    assert ran.status == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.top/1"
    assert document["samples"] > 10
    assert "chain" in [row["object"] for row in document["rows"]]
    assert spinning.poll() is None


def test_top_on_a_terminal(spinning: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Keys change what is shown; w writes a recording; q leaves, and the process goes on."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.environ |= {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        os.execv(STALLSCOPE, [str(STALLSCOPE), "top", "-p", str(spinning.pid)])
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        read_until(terminal, "waiting for memory")
        for key, answer in (
            ("l", "lines, by waiting"),
            ("s", "lines, by time"),
            ("t", ": threads"),
            (" ", "[frozen]"),
            ("w", "written: waits.stallscope"),
        ):
            os.write(terminal, key.encode())
            read_until(terminal, answer)
        os.write(terminal, b"q")
        read_until(terminal, None)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(terminal)
    assert spinning.poll() is None
    assert run(STALLSCOPE, "verify", tmp_path / "waits.stallscope").status == 0


def read_until(terminal: int, text: str | None) -> None:
    """Reads what appears on a terminal until there is the text, or its end for None."""
    seen, end = "", time.monotonic() + 40
    while text is None or text not in seen:
        ready, _, _ = select.select([terminal], [], [], 1)
        assert time.monotonic() < end, f"{text!r} never appeared: {seen[-2000:]}"
        if not ready:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            data = b""
        if not data:
            assert text is None, f"{text!r} never appeared: {seen[-2000:]}"
            return
        seen += data.decode(errors="replace")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", "4194304"], "there is no process 4194304"),
        (["-p", "1", "--interval", "0"], "more than 0"),
        (["-p", "1", "--rate", "0"], "between 1 and 10,000"),
    ],
)
def test_top_refuses_in_a_sentence(words: list[str], sentence: str) -> None:
    ran = run(STALLSCOPE, "top", *words)
    assert ran.status != 0
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


def test_precise_loads_or_a_sentence(program: Build, tmp_path: Path) -> None:
    """Where the machine hides the unit, the error says so and names the way that works."""
    path = tmp_path / "r.stallscope"
    ran = run(STALLSCOPE, "record", "--source", "perf", "-o", path, "--", program("waits"), 300)
    if ran.status == 0:
        rows = Made(ran, path).rows("live_sample")
        assert any(row["how"] == "given" for row in rows)
        return
    assert ran.status == 125
    assert "--source clock" in ran.stderr or "stallscope doctor" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not path.exists()
