# SPDX-License-Identifier: Apache-2.0
"""What the processor waits for: programs that wait for one thing each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Made, Ran, Recorder

from stallscope.analyses.counters import counters
from stallscope.pipelines import core_view

CAUSES = {
    "data_cache",
    "translation",
    "load_store",
    "rejection",
    "fpu",
    "iu",
    "branch_mispredict",
    "inst_cache",
    "other",
}
# What each part of stall_causes.c waits for, and how often it does it.
PROGRAMS = {
    "divides": ("iu", 100_000),
    "walk": ("data_cache", 100_000),
    "pages": ("translation", 400_000),
    "switches": ("branch_mispredict", 200_000),
    "straight": ("inst_cache", 24),
}


@pytest.fixture(scope="module")
def made(shared_record: Recorder, program: Callable[..., Path]) -> Callable[..., Made]:
    known: dict[tuple[str, int], Made] = {}

    def make(name: str, rounds: int) -> Made:
        if (name, rounds) not in known:
            known[name, rounds] = shared_record(
                program("stall_causes"), name, rounds, options=["--trace"]
            )
        return known[name, rounds]

    return make


def stalls(stallscope: Callable[..., Ran], made: Made, *words: object) -> dict[str, Any]:
    ran = stallscope("stalls", made.path, "--json", *words)
    assert ran.status == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["schema"] == "stallscope.stalls/1"
    return found


def add_up(found: dict[str, Any]) -> None:
    """Every cycle is a completion cycle or charged to one cause, in all and at every time."""
    causes = {row["cause"]: row["cycles"] for row in found["causes"]}
    assert set(causes) == CAUSES
    assert found["cycles"] == found["completion_cycles"] + sum(causes.values())
    cpi = found["completion_cpi"] + sum(row["cpi"] for row in found["causes"])
    assert found["cpi"] == pytest.approx(cpi)
    for row in found["timeline"]:
        assert row["cycles"] == row["completion"] + sum(row["causes"].values())
    for total in ("cycles", "instructions"):
        assert sum(row[total] for row in found["timeline"]) == found[total]
        assert sum(row[total] for row in found["phases"]) == found[total]
    for cause in CAUSES:
        assert sum(row["causes"][cause] for row in found["timeline"]) == causes[cause]
    assert sum(row["cycles"] for row in found["sources"]) == causes["data_cache"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_waits_for_one_thing_stalls_on_it(
    name: str, made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    cause, rounds = PROGRAMS[name]
    found = stalls(stallscope, made(name, rounds), "--machine", "default")
    add_up(found)
    shares = {row["cause"]: row["share"] for row in found["causes"]}
    assert shares[cause] >= 0.8, shares


@pytest.mark.parametrize("machine", ["default", "power5", "ppc970", "server"])
@pytest.mark.parametrize("mode", ["real", "single", "inorder"])
def test_cycles_add_up_in_every_mode(
    machine: str, mode: str, made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    found = stalls(stallscope, made("straight", 1), "--machine", machine, "--mode", mode)
    add_up(found)
    if mode != "real":
        assert found["completion_cycles"] >= found["instructions"]


@pytest.mark.parametrize(("machine", "units", "width"), [("power5", 2, 5), ("server", 4, 6)])
def test_independent_work_runs_as_fast_as_the_core_can(
    machine: str, units: int, width: int, made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    def speed(name: str) -> float:
        """Of the loop alone: what more rounds take more."""
        few, many = (stalls(stallscope, made(name, n), "--machine", machine) for n in (1000, 3000))
        instructions: int = many["instructions"] - few["instructions"]
        cycles: int = many["cycles"] - few["cycles"]
        return instructions / cycles

    assert speed("adds") >= 0.9 * min(width, units)
    assert speed("mix") >= 0.9 * width


def test_slower_modes_take_longer(
    made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    cycles = [
        stalls(stallscope, made("mix", 1000), "--machine", "power5", "--mode", mode)["cycles"]
        for mode in ("real", "single", "inorder")
    ]
    assert cycles == sorted(cycles)
    assert cycles[0] < cycles[2]


def test_a_cause_that_is_gone_gains_no_more_than_there_was(
    made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    cause, rounds = PROGRAMS["walk"]
    found = stalls(stallscope, made("walk", rounds), "--without", cause, "--without", "fpu")
    ideal, no_fpu = found["without"]
    assert ideal["attributed"] == next(r["cycles"] for r in found["causes"] if r["cause"] == cause)
    assert ideal["gained"] == found["cycles"] - ideal["cycles_without"]
    # A chain of misses overlaps with nothing; while the list is made, other things take over.
    assert 0.6 * ideal["attributed"] <= ideal["gained"] <= found["cycles"]
    assert no_fpu["gained"] < 0.01 * found["cycles"]


def test_stalls_by_place_and_object_are_the_same_stalls(
    made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    recording = made("walk", PROGRAMS["walk"][1])
    whole = stalls(stallscope, recording)
    for by in ("function", "line", "instruction"):
        found = stalls(stallscope, recording, "--by", by)
        assert sum(row["cycles"] for row in found["rows"]) == whole["stall_cycles"]
        assert found["rows"][0]["function"] == "walk"
        assert found["rows"][0]["main"] == "data_cache"
    found = stalls(stallscope, recording, "--by", "object")
    assert "walk" in found["rows"][0]["name"]  # the heap block's site
    assert found["rows"][0]["share"] > 0.8


def test_two_replays_give_the_same_numbers(
    made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    import shutil

    recording = made("straight", 1)
    first = stalls(stallscope, recording)
    for kept in (recording.path / "results").glob("core-*"):
        shutil.rmtree(kept)
    assert stalls(stallscope, recording) == first


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--mode", "rael"), "there is no mode 'rael'"),
        (("--without", "datacache"), "there is no cause 'datacache'"),
        (("--by", "thread"), "stalls cannot be shown by 'thread'"),
    ],
)
def test_a_wrong_word_gets_its_sentence(
    words: tuple[str, str],
    sentence: str,
    made: Callable[..., Made],
    stallscope: Callable[..., Ran],
) -> None:
    ran = stallscope("stalls", made("straight", 1).path, *words)
    assert ran.status == 2
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_recording_without_a_trace_gets_its_sentence(
    record: Recorder, program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    plain = record(program("stall_causes"), "straight", 1)
    ran = stallscope("stalls", plain.path)
    assert ran.status == 2
    assert "has no trace to replay" in ran.stderr


def test_multiplexed_counts_stand_beside_full_ones(
    made: Callable[..., Made], stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    recording, log = made("switches", PROGRAMS["switches"][1]), tmp_path / "rounds.jsonl"
    words = ["-e", "all", "--ratio", "10", "--slice", "20k", "--machine", "ppc970", "--log", log]
    drawn = tmp_path / "counters.svg"
    ran = stallscope("counters", recording.path, "--json", "--plot", drawn, *words)
    assert ran.status == 0, ran.stderr
    assert "off the full count" in drawn.read_text()
    found = json.loads(ran.stdout)
    assert found["schema"] == "stallscope.counters/1"
    assert found["rounds"] >= 30
    rows = {row["event"]: row for row in found["rows"]}
    assert len(rows) >= 40
    for name in ("mispredicts", "branches", "iu_operations", "stall_branch_mispredict"):
        assert rows[name]["error"] < 0.15, rows[name]
        assert rows[name]["kl"] < 0.2, rows[name]
    for row in found["rows"]:
        assert 0 <= row["low"] <= row["estimate"] <= row["high"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(found["rounds"]))
    linear = stallscope("counters", recording.path, "--json", "--estimator", "linear", *words)
    scaled = {row["event"]: row for row in json.loads(linear.stdout)["rows"]}
    for event in ("mispredicts", "branches", "instructions"):
        assert sum(line["counts"][event] for line in lines) == pytest.approx(
            scaled[event]["estimate"], rel=1e-3
        )
    # What a switch takes belongs to nothing that is counted, and bends no estimate.
    for name in ("completion_cycles", "stall_cycles"):
        assert rows[name]["error"] < 0.1, rows[name]
    # A switch of counters costs cycles: 2,000 of 20,000.
    assert 0.05 < found["overhead"] < 0.15


def test_rounds_are_told_while_the_core_runs(made: Callable[..., Made]) -> None:
    recording = made("switches", PROGRAMS["switches"][1])
    view = core_view(recording.path, machine="power5")
    kept = recording.path / "results"
    before = len(list(kept.glob("core-*")))
    told: list[tuple[int, dict[str, float]]] = []

    def on_round(counts: dict[str, float]) -> None:
        told.append((len(list(kept.glob("core-*"))), counts))

    options: dict[str, Any] = {"slice_length": 30_000, "ratio": 15, "skip": 2}
    found = counters(view, ("all",), on_round=on_round, **options)
    assert len(told) == found.rounds
    assert {at for at, _ in told} == {before}  # the result is kept when all is over
    # What is kept tells the same.
    again: list[dict[str, float]] = []
    counters(view, ("all",), on_round=again.append, **options)
    assert again == [counts for _, counts in told]
    cycles = sum(counts["cycles"] for counts in again)
    assert cycles == pytest.approx(found.rows[0].full)


def test_a_log_that_cannot_be_written_gets_its_sentence(
    made: Callable[..., Made], stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    recording = made("switches", PROGRAMS["switches"][1])
    words = ("--ratio", "10", "--slice", "20k", "--machine", "ppc970", "--log")
    ran = stallscope("counters", recording.path, *words, tmp_path / "none" / "log")
    assert (ran.status, "cannot be written" in ran.stderr) == (2, True)
    if Path("/dev/full").exists():
        ran = stallscope("counters", recording.path, *words, "/dev/full")
        assert (ran.status, "cannot be written" in ran.stderr) == (2, True)


def test_slices_of_instructions_are_the_same_in_every_mode(
    made: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    recording = made("switches", PROGRAMS["switches"][1])
    full = []
    for mode in ("real", "inorder"):
        words = ("-e", "loads,branches", "--by", "instructions", "--slice", "50k", "--mode", mode)
        ran = stallscope("counters", recording.path, "--json", *words)
        assert ran.status == 0, ran.stderr
        rows = json.loads(ran.stdout)["rows"]
        full.append({row["event"]: row["full"] for row in rows if row["event"] != "cycles"})
    for name, count in full[0].items():
        assert count == pytest.approx(full[1][name], rel=0.01)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-e", "mispredict"), "there is no event 'mispredict'"),
        (("--counters", "0"), "0 counters cannot count"),
        (("--ratio", "2"), "groups do not fit into a round of 2 slices"),
        (("--slice", "1k"), "a slice of 1,000 cycles is too short"),
        (("--slice", "1g"), "the run is shorter than one round"),
        (("--estimator", "oracle"), "there is no estimator 'oracle'"),
        (("--source", "magic"), "there is no source 'magic'"),
    ],
)
def test_impossible_counting_gets_its_sentence(
    words: tuple[str, str],
    sentence: str,
    made: Callable[..., Made],
    stallscope: Callable[..., Ran],
) -> None:
    ran = stallscope("counters", made("straight", 1).path, *words)
    assert ran.status == 2
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
