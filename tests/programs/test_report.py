# SPDX-License-Identifier: Apache-2.0
"""`stallscope report` of recordings of all kinds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope
from conftest import STALLSCOPE, Made, Recorder, run
from stallscope import workloads


@pytest.fixture(scope="module")
def traced(shared_record: Recorder, workload: Callable[[str], Path]) -> Made:
    arguments = workloads.truth("list").command_arguments("quick")
    return shared_record(workload("list"), *arguments, options=["--trace"])


def told(pieces: list[dict[str, Any]]) -> str:
    return "".join(piece["text"] for piece in pieces)


def test_advice_is_in_the_verdict(traced: Made) -> None:
    document = stallscope.report(traced.path, advice=True)
    rows = document["parts"]["advice"]
    first = dict(zip(rows["columns"], rows["rows"][0], strict=True))
    said = [told(pieces) for pieces in document["verdict"]["sentences"]]
    assert any(first["how"] in sentence for sentence in said)


def test_a_recording_without_a_trace_says_what_is_missing(
    shared_record: Recorder, workload: Callable[[str], Path]
) -> None:
    arguments = workloads.truth("list").command_arguments("quick")
    made = shared_record(workload("list"), *arguments, options=["--machine", "default"])
    document = stallscope.report(made.path)
    assert document["verdict"]["object"].startswith("make_node")
    for part in ("evictions", "time", "pages", "advice"):
        missing = document["parts"][part]["missing"]
        assert missing["what"]
        assert "--" in missing["now"]


def test_samples_by_a_clock_are_told_as_samples(
    shared_record: Recorder, workload: Callable[[str], Path]
) -> None:
    made = shared_record(workload("list"), 20000, 30, "shuffled", 1, source="clock")
    if made.status == 125:
        pytest.skip("this machine takes no samples")
    document = stallscope.report(made.path)
    assert document["live"]
    assert "time" in told(document["verdict"]["headline"]) or "Nothing" in told(
        document["verdict"]["headline"]
    )
    assert "valgrind" in document["parts"]["evictions"]["missing"]["now"]


def test_limits_and_bad_words(traced: Made, tmp_path: Path) -> None:
    document = json.loads(
        run(STALLSCOPE, "report", traced.path, "--json", "--limit", 5, "--no-advice").stdout
    )
    assert len(document["parts"]["objects"]["rows"]) == 5
    assert any(words.startswith("objects: the first 5 of ") for words in document["left_out"])
    page = tmp_path / "page.html"
    page.write_text("mine")
    for words, said in (
        ((traced.path, "-o", page), "is there already"),
        ((tmp_path / "none",), "there is no recording"),
        ((traced.path, "--machine", "nothing", "-o", tmp_path / "x.html"), "nothing"),
        ((traced.path, "-o", tmp_path / "no" / "x.html"), "there is no folder"),
    ):
        ran = run(STALLSCOPE, "report", *words)
        assert said in ran.stderr + ran.stdout
        assert "Traceback" not in ran.stderr
    assert page.read_text() == "mine"


def test_no_source_means_none(traced: Made) -> None:
    for source in (True, False):
        document = stallscope.report(traced.path, source=source, advice=False)
        assert ("node->payload" in json.dumps(document)) == source


def test_what_if_is_the_same_from_python(traced: Made) -> None:
    found = stallscope.what_if(traced.path, changes={"l1d.size": "512K"})
    assert found["after"]["misses"] < found["before"]["misses"]
    with pytest.raises(stallscope.StallscopeError, match="has no"):
        stallscope.what_if(traced.path, changes={"l9.size": "1M"})
