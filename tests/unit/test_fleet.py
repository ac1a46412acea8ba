# SPDX-License-Identifier: Apache-2.0
"""A small simulated fleet from a real recording: ingest, questions, statistics, bad input."""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.fleet_sim import Base, Plant, Simulated
from benchmarks.fleet_trials import compared

import stallscope as api
from stallscope import workloads
from stallscope.analyses import host_scores, significance
from stallscope.analyses.host_scores import HostSum, ObjectSum
from stallscope.scale import fleet

STALLSCOPE = Path(sys.executable).with_name("stallscope")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    folder = tmp_path_factory.mktemp("base")
    program = workloads.build("list", folder)
    words = ["record", "-q", "--source", "clock", "--rate", "997", "-o", folder / "l.stallscope"]
    command = [STALLSCOPE, *words, "--", program, "60000"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return Base.read(folder / "l.stallscope")


@pytest.fixture(scope="module")
def hosts(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    assert Simulated([base], hosts=4, days=2, each=2).write(folder / "hosts") == 16
    return folder / "hosts"


def test_ingest_adds_each_recording_once_and_answers(hosts: Path, tmp_path: Path) -> None:
    at = tmp_path / "fleet"
    first = fleet.ingest([hosts], at, jobs=2)
    assert (first.added, first.known, first.skipped) == (16, 0, 0)
    files = sorted(at.rglob("*.parquet"))
    assert [path.parent.parent.name for path in files] == ["program=list"] * 2
    again = fleet.ingest([hosts], at, jobs=1)
    assert (again.added, again.known) == (0, 16)
    assert sorted(at.rglob("*.parquet")) == files

    top = fleet.top(at)
    assert [row.program for row in top.rows] == ["list"]
    assert (top.hosts, top.recordings, top.rows[0].builds) == (4, 16, 2)
    found = fleet.objects("list", at)
    assert all(row.low <= row.high for row in found.rows)
    by_object = fleet.top(at, by="object")
    assert sum(row.wait for row in by_object.rows) == pytest.approx(top.rows[0].wait)
    builds = [row.build for row in fleet.builds(at).rows]
    assert len(builds) == 2
    diff = fleet.diff(builds[0][:8], builds[1][:8], at)
    assert diff.paired
    assert diff.rows == []


def test_what_cannot_be_read_is_skipped_counted_and_named(hosts: Path, tmp_path: Path) -> None:
    shutil.copytree(hosts, tmp_path / "hosts")
    found = sorted((tmp_path / "hosts").glob("*/*.stallscope"))
    (found[0] / "meta.json").write_text("{}")
    damaged = found[1] / "live_sample.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-40] + b"x" * 40)
    shutil.rmtree(found[2])
    found[2].mkdir()
    (found[3] / "bucket.parquet").unlink()
    words = ["fleet", "ingest", tmp_path / "hosts", "--fleet", tmp_path / "fleet", "--json"]
    ran = subprocess.run([STALLSCOPE, *words], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["schema"] == "stallscope.fleet.ingest/1"
    assert (told["added"], told["skipped"]) == (12, 3)
    assert [row["recording"] for row in told["rows"]] == [str(found[i]) for i in (0, 1, 3)]
    assert all(row["error"] for row in told["rows"])


def test_copies_of_a_recording_count_once(hosts: Path, tmp_path: Path) -> None:
    one = sorted(hosts.glob("*/*.stallscope"))[0]
    for name in ("a", "b", "c"):
        shutil.copytree(one, tmp_path / "hosts" / name / one.name)
    damaged = tmp_path / "hosts" / "a" / one.name / "live_sample.parquet"
    damaged.write_bytes(b"short")
    found = fleet.ingest([tmp_path / "hosts"], tmp_path / "fleet", jobs=1)
    assert (found.added, found.known, found.skipped) == (1, 1, 1)
    assert fleet.top(tmp_path / "fleet").recordings == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["top", "--fleet", "missing"], "there is no fleet"),
        (["ingest", "missing"], "there is no folder"),
        (["diff", "a", "b", "--fleet", "empty"], "holds nothing"),
        (["objects", "x", "--fleet", "empty"], "holds nothing"),
    ],
)
def test_bad_words_are_told_in_a_sentence(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "empty").mkdir()
    ran = subprocess.run(
        [STALLSCOPE, "fleet", *words], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_builds_are_found_by_the_beginning_of_their_ids(hosts: Path, tmp_path: Path) -> None:
    fleet.ingest([hosts], tmp_path / "fleet", jobs=1)
    for build in ("zzz", ""):
        with pytest.raises(api.StallscopeError, match="begin"):
            fleet.diff("aaaa", build, tmp_path / "fleet")
    with pytest.raises(api.StallscopeError, match="no two builds"):
        fleet.diff("aaaa", "aaaa", tmp_path / "fleet")


def invented() -> Base:
    weights = {("memory", 0): 30, ("memory", 1): 12, ("memory", 2): 6, ("compute", None): 52}
    names = {0: "tree", 1: "queue", 2: "log", None: "<address unknown>"}
    return Base(None, "list", weights, names, {}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_share_doubled_on_a_tenth_of_the_hosts_is_found_and_nothing_else(seed: int) -> None:
    base = invented()
    plant = Plant("list", "queue", frozenset(range(6)))
    words = {"hosts": 60, "days": 6, "each": 6, "seed": seed}
    rows = compared(Simulated([base], plant=plant, **words), base)
    assert {row.object for row in rows if row.verdict == "worse"} - {"<all memory>"} == {"queue"}
    row = next(row for row in rows if row.object == "queue")
    assert 4 <= row.changed <= 8
    assert row.ratio_there == pytest.approx(2, rel=0.25)
    assert compared(Simulated([base], **words), base) == []


def flat(count: int) -> dict[str, ObjectSum]:
    """Hosts with 10 recordings of 100 samples on 5 days, a tenth of them waiting, which differ by
    as much as drawing samples makes them."""
    return {str(host): ObjectSum(100, 10 + 9 * 0.09, 10 + 4 * 0.09) for host in range(count)}


def hosts_of(count: int) -> dict[str, HostSum]:
    return {str(host): HostSum(10, 5, 1000, "2026-11-02") for host in range(count)}


def test_recordings_and_days_that_differ_much_make_scores_small() -> None:
    every, new = hosts_of(20), {**flat(20), "3": ObjectSum(200, 40.0, 40.0)}
    names = list(every)
    calm = host_scores.scores(names, flat(20), new, (every, every))["3"]
    assert calm == pytest.approx(6.3, rel=0.1)
    wild = {host: replace(one, by_day=one.by_day + 20) for host, one in flat(20).items()}
    assert host_scores.scores(names, wild, new, (every, every))["3"] < calm / 3


def test_a_wild_host_counts_by_its_own_recordings() -> None:
    every, names = hosts_of(20), [str(host) for host in range(20)]
    old = {**flat(20), "3": ObjectSum(100, 60.0, 60.0)}
    found = host_scores.dispersions(names, [(old, every), (flat(20), every)])
    assert found["3"][0] > 10 * found["4"][0]
    assert found["4"][1] < 10 * 20  # hosts differ, so that each is known less well


def test_one_host_alone_is_no_change_and_many_hosts_add_up_no_small_misfit() -> None:
    assert host_scores.evidence([0.0] * 99 + [40.0]) > 1e-4
    assert host_scores.evidence([0.0] * 90 + [4.0] * 10) < 1e-6
    assert host_scores.evidence([0.0] * 90 + [-4.0] * 10) < 1e-6
    draw = random.Random(5)
    heavy = [draw.gauss(0, 1) / math.sqrt(draw.gammavariate(10, 0.1)) for _ in range(5000)]
    assert host_scores.evidence(heavy) == 1.0


def test_tails_agree_with_tables() -> None:
    assert significance.normal_tail(1.959964) == pytest.approx(0.05, rel=1e-5)
    assert significance.student_tail(2.228139, 10) == pytest.approx(0.05, rel=1e-5)
    assert significance.student_tail(12.7062, 1) == pytest.approx(0.05, rel=1e-4)
    assert significance.student_tail(-4.0, 30) == pytest.approx(0.000382, rel=1e-2)
    assert significance.student_tail(0.0, 5) == pytest.approx(1.0)
    for t, degrees in ((2.0, 5), (5.0, 12), (-3.0, 40)):
        score = significance.normal_score(t, degrees)
        tail = significance.student_tail(t, degrees)
        assert significance.normal_tail(score) == pytest.approx(tail, rel=0.03)
        assert (score > 0) == (t > 0)
    values = [statistics.NormalDist().inv_cdf((i + 0.5) / 200) for i in range(200)]
    assert significance.middle_spread(values) == pytest.approx(1, abs=0.03)
    assert significance.middle_spread([*values, *[5.0] * 20]) == pytest.approx(1, abs=0.06)
    assert math.isclose(significance.incomplete_beta(2, 3, 0.4), 0.5248, rel_tol=1e-4)


def test_probabilities_are_corrected_for_their_number() -> None:
    assert significance.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert significance.holm([]) == []
    assert significance.benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    low, high = significance.mean_interval([1.0, 2.0, 3.0, 4.0])
    assert 1.0 <= low < 2.5 < high <= 4.0
