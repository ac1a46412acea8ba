# SPDX-License-Identifier: Apache-2.0
"""The simulated PMU on real programs: every event, filter and mode beside exact counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope
from stallscope import workloads

STALLSCOPE = Path(sys.executable).with_name("stallscope")
TIMEOUT = 300
SHARE_POINTS = 0.015
MANY_SAMPLES = 10_000
LARGE = 0.1


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STALLSCOPE, *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT
    )


def objects(path: Path, *words: object) -> Any:
    ran = run("objects", path, "--json", *words)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Traces of workloads, each recorded when it is first asked for."""
    folder = tmp_path_factory.mktemp("sampling")
    made: dict[str, Path] = {}

    def trace(name: str) -> Path:
        if name not in made:
            path = folder / f"{name}.stallscope"
            program = workloads.build(name, folder)
            arguments = workloads.truth(name).command_arguments("quick")
            ran = run("record", "-q", "--trace", "-o", path, "--", program, *arguments)
            assert ran.returncode == 0, ran.stderr
            made[name] = path
        return made[name]

    return trace


def near(document: Any, points: float = SHARE_POINTS) -> None:
    """Every object with a tenth of the misses is sampled as often as it should be. Weights that
    differ are worth fewer samples; fewer samples are allowed a larger error."""
    worth = document["samples"]
    if document["sampling"]["shortest"] != document["sampling"]["longest"]:
        worth = worth // 2
    points *= max(1.0, (MANY_SAMPLES / max(1, worth)) ** 0.5)
    large = [row for row in document["rows"] if row["share"] >= LARGE]
    assert large
    for row in large:
        assert abs(row["share"] - row["sampled_share"]) <= points, row["object"]
    assert sum(row["misses"] for row in document["rows"]) == document["misses"]
    assert sum(row["sampled_share"] for row in document["rows"]) == pytest.approx(1)


@pytest.mark.parametrize("name", ["list", "hashjoin", "matmul", "bst"])
@pytest.mark.parametrize(
    "options",
    [
        ("--event", "dtlb"),
        ("--event", "llc"),
        ("--min-latency", 100),
        ("--budget", "60%", "--handler-cost", 300),
        ("--period", 7, "--seed", 5),
    ],
    ids=lambda options: "-".join(map(str, options)).strip("-").replace("--", ""),
)
def test_sampled_shares_are_near_the_exact_ones(
    name: str, options: tuple[object, ...], traced: Callable[[str], Path]
) -> None:
    near(objects(traced(name), *options))


def test_ten_thousand_weighted_samples_are_as_good_as_any(traced: Callable[[str], Path]) -> None:
    document = objects(traced("hashjoin"), "--budget", "80%", "--handler-cost", 40)
    assert document["samples"] >= MANY_SAMPLES
    assert document["sampling"]["shortest"] < document["sampling"]["longest"]
    near(document)


def test_a_level_counts_as_many_misses_as_its_objects(traced: Callable[[str], Path]) -> None:
    for event, level in (("dtlb", "DTLB"), ("l1", "L1D")):
        document = objects(traced("list"), "--event", event)
        levels = {row["level"]: row["misses"] for row in document["levels"]}
        assert document["level"] == level
        assert document["misses"] == levels[level]
    parts = [objects(traced("list"), "--event", event) for event in ("llc", "llci")]
    assert sum(part["misses"] for part in parts) == levels["L3"]


def test_code_is_counted_by_the_function_whose_instructions_missed(
    traced: Callable[[str], Path],
) -> None:
    document = objects(traced("list"), "--event", "l1i")
    assert {row["kind"] for row in document["rows"]} == {"code"}
    assert document["misses"] == next(
        row["misses"] for row in document["levels"] if row["level"] == "L1I"
    )
    rows = {row["object"]: row for row in document["rows"]}
    for function in ("main", "build_list", "_dl_relocate_object"):
        assert rows[function]["misses"] > 0
        assert rows[function]["bytes"] > 0
    lines = json.loads(run("lines", traced("list"), "--event", "l1i", "--json").stdout)
    assert lines["misses"] == document["misses"]
    assert {"main", "build_list"} <= {row["function"] for row in lines["rows"]}


def test_only_slow_accesses_are_counted_when_that_is_asked_for(
    traced: Callable[[str], Path],
) -> None:
    path = traced("hashjoin")
    fast, slow = objects(path), objects(path, "--min-latency", 100)
    assert 0 < slow["misses"] < fast["misses"]
    assert slow["average_latency"] >= 100
    assert slow["levels"] == fast["levels"]
    sampled = stallscope.view(path, machine="default", min_latency=100).samples
    assert min(sample["latency"] for sample in sampled) >= 100
    assert {sample["served"] for sample in sampled} == {None}  # only memory is that slow
    assert objects(path, "--min-latency", 100_000)["misses"] == 0


def test_samples_have_the_registers_of_a_pmu(traced: Callable[[str], Path]) -> None:
    view = stallscope.view(traced("list"), machine="default")
    levels = {row["level"]: row for row in view.levels}
    buckets, places, period = view.buckets, view.places, view.sampling().period
    for sample in view.samples:
        assert buckets[sample["bucket"]]["kind"] != "code"
        assert sample["address"] > 0
        assert sample["operation"] in places
        served = 200 if sample["served"] is None else levels[sample["served"]]["latency"]
        assert sample["latency"] >= served
        assert sample["weight"] == period


def test_following_single_loads_is_biased_and_says_so(traced: Callable[[str], Path]) -> None:
    document = objects(traced("list"), "--sampling", "tagged")
    assert document["sampling"]["mode"] == "tagged"
    assert 0 < document["sampling"]["tags"] < document["sampling"]["loads"]
    assert "never seen" in document["sampling"]["note"]
    for row in document["rows"]:
        assert row["bias"] == pytest.approx(row["sampled_share"] - row["share"])
    assert sum(row["bias"] for row in document["rows"]) == pytest.approx(0, abs=1e-9)
    shown = run("objects", traced("list"), "--sampling", "tagged").stdout
    assert "bias" in shown
    assert "were followed" in shown
    assert "bias" not in run("objects", traced("list")).stdout
    # Exact counts are those of the other mode.
    plain = {row["object"]: row["misses"] for row in objects(traced("list"))["rows"]}
    assert {row["object"]: row["misses"] for row in document["rows"]} == plain


def test_overhead_and_perturbation_follow_the_rate(traced: Callable[[str], Path]) -> None:
    path = traced("hashjoin")
    plain = objects(path)
    assert plain["overhead"] is None
    assert plain["perturbation"] is None
    levels = {row["level"]: row["misses"] for row in plain["levels"]}
    overheads, changes = [], []
    for period in (10, 1000, 100_000):
        document = objects(path, "--perturb", "--period", period)
        sampling = document["sampling"]
        assert sampling["interrupts"] == document["samples"]
        assert sampling["handler_cycles"] >= 8800 * sampling["interrupts"]
        spent = sampling["handler_cycles"] + sampling["program_cycles"]
        assert document["overhead"] == pytest.approx(sampling["handler_cycles"] / spent)
        for row in document["levels"]:
            assert row["undisturbed_misses"] == levels[row["level"]]
        first = next(row for row in document["levels"] if row["level"] == "L1D")
        change = first["misses"] / first["undisturbed_misses"] - 1
        assert document["perturbation"] == pytest.approx(change)
        overheads.append(document["overhead"])
        changes.append(document["perturbation"])
    assert sorted(overheads, reverse=True) == overheads
    assert changes[0] > changes[1] > 0
    assert abs(changes[2]) < 0.001


def test_a_handler_that_only_costs_changes_no_sample(traced: Callable[[str], Path]) -> None:
    plain = objects(traced("list"), "--period", 50)
    costly = objects(traced("list"), "--period", 50, "--handler-cost", 500)
    assert costly["rows"] == plain["rows"]
    assert costly["sampling"]["handler_cycles"] == 500 * costly["samples"]
    assert costly["perturbation"] is None


def test_a_budget_is_kept_and_shown(traced: Callable[[str], Path]) -> None:
    document = objects(traced("hashjoin"), "--budget", "20%", "--handler-cost", 400)
    assert document["overhead"] == pytest.approx(0.2, rel=0.1)
    assert document["sampling"]["budget"] == 0.2
    shown = run("objects", traced("hashjoin"), "--budget", "20%", "--handler-cost", 400).stdout
    assert "of 20.00% allowed" in " ".join(shown.split())


def test_the_same_options_give_the_same_result_and_another_seed_another(
    traced: Callable[[str], Path],
) -> None:
    options = {"sampling": "tagged", "perturb": True, "budget": "30%", "handler_cost": 100}
    found = [
        stallscope.objects(
            stallscope.view(traced("list"), machine="risc-64k", seed=seed, **options)
        )
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1]
    assert found[0].misses != 0
    assert [row.sampled for row in found[0].rows] != [row.sampled for row in found[2].rows]


def test_what_record_was_told_is_found_again_without_a_trace(tmp_path: Path) -> None:
    program = workloads.build("list", tmp_path)
    path = tmp_path / "r.stallscope"
    words = ("--machine", "default", "--event", "dtlb", "--min-latency", 10, "--perturb")
    assert (
        run("record", "-q", *words, "-o", path, "--", program, 500, 3, "shuffled").returncode == 0
    )
    document = objects(path, "--event", "DTLB", "--min-latency", 10, "--perturb")
    assert document["level"] == "DTLB"
    assert document["perturbation"] is not None
    ran = run("objects", path, "--budget", "5%")
    assert ran.returncode == 2
    assert "--budget 0.05" in ran.stderr
    again = stallscope.record(
        [str(program), "500", "3", "shuffled"],
        output=tmp_path / "again.stallscope",
        machine="default",
        event="l2i",
    )
    assert objects(again.recording.path, "--event", "L2:code")["level"] == "L2:code"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--budget", "200%"), "--budget 200%"),
        (("--min-latency", "-1"), "--min-latency -1"),
        (("--event", "nonsense"), "has no event nonsense"),
        (("--sampling", "guess"), "--sampling guess"),
        (("--period", "-3"), "--period -3"),
        (("--budget", "1%", "--period", "7"), "--budget"),
        (("--sampling", "tagged", "--event", "l1i"), "tagged"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: tuple[str, ...], expected: str, traced: Callable[[str], Path]
) -> None:
    for verb in ("objects", "lines", "evictions", "replay"):
        ran = run(verb, traced("list"), *words)
        assert ran.returncode == 2
        assert expected in ran.stderr
        assert "Traceback" not in ran.stderr
        assert ran.stdout == ""


def test_record_refuses_before_it_runs_anything(tmp_path: Path) -> None:
    none = ("--machine", "none")
    for words in (("--event", "l9"), (*none, "--event", "l1"), (*none, "--budget", "5%")):
        ran = run("record", *words, "-o", tmp_path / "r.stallscope", "--", "/bin/echo", "ran")
        assert ran.returncode == 2
        assert "ran" not in ran.stdout
        assert not (tmp_path / "r.stallscope").exists()
