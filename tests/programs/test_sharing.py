# SPDX-License-Identifier: Apache-2.0
"""Threads that share, recorded and clustered; lines that they take from each other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stallscope
from conftest import STALLSCOPE, Recorder, run
from stallscope import workloads
from stallscope.analyses.sharing import Sharing

Workload = Callable[[str], Path]
GROUPED = {"scoreboards": 500, "warehouses": 6000, "auction": 8000, "chat": 1000}


@pytest.fixture(scope="module")
def found(shared_record: Recorder, workload: Workload) -> dict[str, Sharing]:
    made = {}
    for name, work in GROUPED.items():
        path = shared_record(
            workload(name), 8, 2, work, 3, options=["--trace", "--turn", "200"]
        ).path
        made[name] = stallscope.sharing(path, period=3)
    return made


@pytest.mark.parametrize("name", GROUPED)
def test_clusters_are_the_true_groups(name: str, found: dict[str, Sharing]) -> None:
    truth = workloads.truth(name)
    second = truth.arguments[1].name
    values = {"threads": 8, second: 2, "equal": 1, "unequal": 0}
    groups = sorted(sorted(group) for group in truth.thread_groups(values))
    clusters = sorted(sorted(group) for group in found[name].clusters)
    assert clusters == groups
    assert found[name].started and found[name].samples > 0


def test_placing_threads_by_clusters_removes_remote_misses(found: dict[str, Sharing]) -> None:
    # Of single ones the default scheduler may be lucky.
    before = sum(one.remote_misses for one in found.values())
    assert sum(one.remote_misses_placed for one in found.values()) < 0.6 * before
    assert sum(one.cycles_placed for one in found.values()) < sum(c.cycles for c in found.values())


def test_lines_of_heap_blocks_have_fields(found: dict[str, Sharing]) -> None:
    lines = {row.object.split(" ", 1)[0]: row.field for row in reversed(found["auction"].lines)}
    assert {"price", "bidder", "bids"} <= set(lines["make_items"].split(", "))
    assert {"bids_made", "lock.__data.__lock"} <= set(lines["make_database"].split(", "))
    # An array that begins as zeros lies behind what the file brings.
    assert "log_end" in lines["server"] and "queries" in lines["server"]


@pytest.fixture(scope="module")
def counted(shared_record: Recorder, workload: Workload) -> dict[str, Path]:
    return {
        layout: shared_record(
            workload("counters"), 4, 400000, layout, options=["--trace", "--turn", "200"]
        ).path
        for layout in ("packed", "padded")
    }


def test_a_falsely_shared_line_is_named_and_its_cure_predicted(counted: dict[str, Path]) -> None:
    (known,) = workloads.truth("counters").lines
    packed = stallscope.sharing(counted["packed"])
    padded = stallscope.sharing(counted["padded"])
    row = packed.lines[0]
    assert (row.object, row.kind) == (known.object, known.kind)
    assert set(row.field.split(", ")) == set(known.fields)
    assert {f"worker-0-{i}" for i in range(4)} <= set(row.threads)
    line = workloads.truth("counters").line_of(known.text)
    assert row.code[0] == f"{known.function} (counters.c:{line})"
    assert [row for row in padded.lines if row.kind != "true"] == []
    assert row.predicted_cycles == pytest.approx(packed.cycles - padded.cycles, rel=0.2)


def test_what_would_collide_in_longer_lines_is_told(counted: dict[str, Path]) -> None:
    longer = stallscope.sharing(counted["padded"], line_size=512, gains=0)
    assert {row.object for row in longer.would_collide} == {"padded_counters"}
    assert all(len(row.threads) >= 2 for row in longer.would_collide)
    assert not stallscope.sharing(counted["padded"], shift=64, gains=0).would_collide


def test_documents_have_the_words_of_the_contract(counted: dict[str, Path]) -> None:
    made = run(STALLSCOPE, "sharing", counted["packed"], "--json")
    document = json.loads(made.stdout)
    assert document["schema"] == "stallscope.sharing/1"
    names = {"threads", "clusters", "remote_misses", "remote_misses_placed", "lines"}
    assert names <= document.keys()
    row = {"object", "field", "line", "threads", "kind", "misses", "predicted_gain"}
    assert row <= document["lines"][0].keys()
    shown = run(STALLSCOPE, "sharing", counted["packed"], "--csv").stdout
    assert shown.splitlines()[1].startswith("packed_counters,")
    table = run(STALLSCOPE, "sharing", counted["packed"]).stdout
    assert "packed" in table and "false" in table


def test_a_placement_is_shown_in_every_form(counted: dict[str, Path]) -> None:
    made = run(STALLSCOPE, "place", counted["packed"], "--json")
    document = json.loads(made.stdout)
    assert document["omp_places"].count("{") == len(document["rows"]) == 5
    assert all(line.startswith("taskset -cp ") for line in document["taskset"])
    given = run(
        STALLSCOPE, "place", counted["packed"], "--json", "--placement",
        "worker-0-0=0,worker-0-1=1,worker-0-2=2,worker-0-3=3",
    )  # fmt: skip
    together = json.loads(given.stdout)
    assert together["remote_misses_placed"] < together["remote_misses"] / 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--placement", "worker-0-0=8"], "there is no such processor"),
        (["--placement", "nobody=1"], "there is no such thread"),
        (["--placement", ","], "names no thread"),
        (["--machine", "default"], "has one core"),
        (["--undo", "1"], "process 1"),
        (["--apply", "999999999"], "no process 999999999"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    words: list[str], message: str, counted: dict[str, Path]
) -> None:
    made = run(STALLSCOPE, "place", counted["packed"], *words)
    assert made.status == 2 and message in made.stderr and "Traceback" not in made.stderr


def test_one_thread_is_no_question(shared_record: Recorder, workload: Workload) -> None:
    path = shared_record(workload("array"), 64, 1, 1, options=["--trace"]).path
    made = run(STALLSCOPE, "sharing", path)
    assert made.status == 2 and "only one thread" in made.stderr


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a thread that has an odd name."""
    code = (
        "import ctypes, threading, time\n"
        "def work():\n"
        "    ctypes.CDLL(None).prctl(15, b'w]0;[/b]\\x1b', 0, 0, 0)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(["python3", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield process
        process.kill()


def test_affinities_are_set_and_given_back(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stallscope.actions import place
    from stallscope.analyses.placement import PlacedThread

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = os.sched_getaffinity(sleeper.pid)
    chosen = max(os.sched_getaffinity(0))
    rows = [PlacedThread(2, "w]0;[/b]\x1b", 0, 0, chosen)]
    (odd,) = [t for t, name in place.threads_of(sleeper.pid).items() if name.startswith("w]")]
    assert place.apply(rows, sleeper.pid) == [f"thread {odd} runs on processor {chosen}"]
    assert os.sched_getaffinity(odd) == {chosen}
    assert os.sched_getaffinity(sleeper.pid) == before
    assert place.undo(sleeper.pid) >= 2
    assert os.sched_getaffinity(odd) == before
    with pytest.raises(stallscope.StallscopeError, match="nothing is known"):
        place.undo(sleeper.pid)
    with pytest.raises(stallscope.StallscopeError, match="does not exist here"):
        place.apply([PlacedThread(2, "x", 0, 0, 100_000)], sleeper.pid)


COMES_AND_GOES = """
import ctypes, os, threading, time
def work():
    ctypes.CDLL(None).prctl(15, f"worker-0-{threading.current_thread().name}".encode(), 0, 0, 0)
    time.sleep(0.01)
def stay():
    work()
    print("ready", flush=True)
    time.sleep(60)
for number in range(4):
    threading.Thread(target=stay, name=str(number), daemon=True).start()
while True:
    threading.Thread(target=work, name="9", daemon=True).start()
    time.sleep(0.002)
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    """Four threads that stay, named as those of `counters`, and others that come and go."""
    with subprocess.Popen(["python3", "-c", COMES_AND_GOES], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize("verb", ["sharing", "place"])
def test_a_live_process_is_placed_on_the_processors_of_this_machine(
    verb: str,
    server: subprocess.Popen[bytes],
    counted: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from stallscope.actions import place

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = os.sched_getaffinity(server.pid)
    made = run(STALLSCOPE, verb, counted["packed"], "--apply", server.pid, "--json")
    assert made.status == 0, made.stderr
    names = [f"worker-0-{i}" for i in range(4)]
    if len(before) < 8:  # as many as the simulated machine has
        assert "are spread over them" in made.stderr
    live = {name: tid for tid, name in place.threads_of(server.pid).items() if name in names}
    assert sorted(live) == names
    placed = {name: os.sched_getaffinity(tid) for name, tid in live.items()}
    assert all(len(where) == 1 and where <= before for where in placed.values())
    rows = json.loads(made.stdout)["thread_rows" if verb == "sharing" else "rows"]
    chip = {row["name"]: row["chip"] for row in rows}
    if len(before) > 1:
        for one in names:
            for other in names:
                assert chip[one] == chip[other] or placed[one] != placed[other]
    undone = run(STALLSCOPE, verb, "--undo", server.pid)
    assert undone.status == 0 and "may run where they could before" in undone.stdout
    assert all(os.sched_getaffinity(tid) == before for tid in live.values())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("action", ["apply", "undo"])
def test_a_process_of_somebody_else_is_left_alone(
    action: str, sleeper: subprocess.Popen[bytes]
) -> None:
    from stallscope.actions import place

    before = os.sched_getaffinity(sleeper.pid)
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        os.setresuid(65534, 65534, 65534)
        try:
            _ = place.apply([], sleeper.pid) if action == "apply" else place.undo(sleeper.pid)
        except stallscope.StallscopeError as error:
            os.write(writes, str(error).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as said:
        text = said.read()
    os.waitpid(child, 0)
    assert f"process {sleeper.pid} is not ours" in text and "belongs to user 0" in text
    assert os.sched_getaffinity(sleeper.pid) == before


def test_threads_that_come_and_go_and_odd_names_are_no_harm(
    shared_record: Recorder, program: Callable[..., Path]
) -> None:
    path = shared_record(program("generations"), options=["--trace", "--turn", "200"]).path
    document = json.loads(run(STALLSCOPE, "sharing", path, "--json").stdout)
    assert len(document["threads"]) == len(set(document["threads"])) == 25
    assert sum(name.startswith("</script>#") for name in document["threads"]) == 6
    pairs = [line for line in document["lines"] if line["object"] == "pairs"]
    parts = [{name[:4] for name in line["threads"]} for line in pairs]
    for part in parts:  # the first thread reads them in the end
        assert part <= {"[/b]", "$(x)", "gene"} or part <= {"a=1,", "</sc", "gene"}
    shown = run(STALLSCOPE, "sharing", path).stdout
    assert "[/b]" in shown and "\x1b[31m" not in shown
    words = run(STALLSCOPE, "place", path, "--json").stdout
    commands = json.loads(words)["taskset"]
    assert len(commands) == 25 and all("\x1b" not in command for command in commands)
    # A name may have a comma and an equals sign; a number says which thread is meant.
    numbered = run(STALLSCOPE, "place", path, "--placement", "2=0,4=1", "--json")
    assert numbered.status == 0, numbered.stderr
