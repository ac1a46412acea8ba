# SPDX-License-Identifier: Apache-2.0
"""The gate: a run against its baseline and its budgets, and two runs beside each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import stallscope as api
from conftest import Made, Ran, Recorder
from stallscope.analyses.measures import FieldMeasure, StructMeasure
from stallscope.comparing import measures
from stallscope.errors import StallscopeError

Command = Callable[..., Ran]


@pytest.fixture(scope="module")
def runs(program: Callable[..., Path], shared_record: Recorder) -> dict[str, Made]:
    plain = program("hot_struct")
    grown = program("hot_struct", extra=("-DGROWN",))
    return {
        "plain": shared_record(plain, options=["--trace"]),
        "again": shared_record(plain, options=["--trace"]),
        "grown": shared_record(grown, options=["--trace"]),
    }


@pytest.fixture(scope="module")
def baseline(runs: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("baseline") / "base.json"
    assert api.update_baseline(runs["plain"].path, against=path) == path
    return path


def budgets(folder: Path, text: str) -> Path:
    path = folder / "stallscope.toml"
    path.write_text(text)
    return path


def test_unchanged_code_passes(runs: dict[str, Made], baseline: Path) -> None:
    for _ in range(2):
        found = api.check(runs["again"].path, against=baseline)
        assert found.passed
        assert found.checked > 5
    assert api.check(runs["again"].path, against=runs["plain"].path).passed


def test_a_field_more_in_a_hot_struct_fails_with_struct_field_and_cost(
    runs: dict[str, Made], baseline: Path, stallscope: Command, tmp_path: Path
) -> None:
    junit, markdown = tmp_path / "junit.xml", tmp_path / "summary.md"
    ran = stallscope(
        *("check", runs["grown"].path, "--against", baseline, "--json"),
        *("--junit", junit, "--markdown", markdown),
    )
    assert ran.status == 1, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.check/1"
    [row] = [r for r in document["rows"] if r["kind"] == "struct" and not r["passed"]]
    assert row["name"].endswith("item")
    assert (row["before"], row["now"]) == (24, 32)
    assert "extra added (8 bytes at 8)" in row["words"]
    assert row["cost"] > 0
    suite = ElementTree.parse(junit).getroot()[0]
    assert int(suite.attrib["failures"]) == document["failed"] == len(suite.findall(".//failure"))
    assert "extra added" in markdown.read_text()


def test_diff_names_what_got_worse(runs: dict[str, Made], stallscope: Command) -> None:
    ran = stallscope("diff", runs["plain"].path, runs["grown"].path, "--json")
    assert ran.status == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.diff/1"
    worst = document["rows"][0]
    assert worst["state"] == "worse"
    assert worst["object"].startswith("build (hot_struct.c:")
    assert worst["change"] == worst["latency_after"] - worst["latency_before"] > 0
    assert document["structs"][0]["fields"] == ["extra added (8 bytes at 8)"]
    same = stallscope("diff", runs["plain"].path, runs["again"].path)
    assert "no object got better or worse" in same.stdout


def test_budgets_are_kept_or_broken(runs: dict[str, Made], tmp_path: Path) -> None:
    path = runs["plain"].path
    measured = measures(path)
    [items] = [one for one in measured.objects if one.object.startswith("build")]
    assert items.lines is not None
    assert 7500 <= items.lines <= 7501  # 480,000 bytes
    assert items.bytes_per_line is not None
    assert items.bytes_per_line > 60

    def broken(text: str) -> list[Any]:
        found = api.check(path, config=budgets(tmp_path, text))
        return [row for row in found.rows if not row.passed]

    assert not broken(f'[[budget]]\nobject = "build"\nlines = {items.lines}\nbytes_per_line = 60')
    assert [r.measure for r in broken('[[budget]]\nobject = "build*"\nlines = 7000')] == ["lines"]
    assert [r.measure for r in broken('[[budget]]\nstruct = "item"\nsize = 16')] == ["size"]
    assert not broken('[[budget]]\nfunction = "sum"\nmisses = 10000000')
    assert broken('[[budget]]\nprogram = "*"\nlevel = "L2"\nmisses = 10')
    [row] = broken('[[budget]]\nstruct = "item"\napart = ["key", "value"]')
    assert "key and value of" in row.words
    assert "share a line" in row.words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[budget]]\nmisses = 3", "budget 1 of stallscope.toml is for nothing"),
        ('[[budget]]\nobject = "a"', "limits nothing"),
        ('[[budget]]\nobject = "a"\nsize = 3', "size is not for a object"),
        ('[[budget]]\nobject = "a"\nmises = 3', "is wrong"),
        ("[[budget]\n", "is wrong"),
        ('[[budget]]\nprogram = "*"\nlevel = "L9"\nmisses = 1', "a budget for level L9"),
        ("[check]\ntolerance = -1\n[[budget]]\nprogram='*'\nmisses=1", "a tolerance of -1"),
    ],
)
def test_wrong_budgets_get_one_sentence(
    runs: dict[str, Made], tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(StallscopeError, match=words):
        api.check(runs["plain"].path, config=budgets(tmp_path, text))


def test_wrong_baselines_get_one_sentence(
    runs: dict[str, Made], baseline: Path, tmp_path: Path, stallscope: Command
) -> None:
    path, wrong = runs["plain"].path, tmp_path / "wrong.json"
    for text, words in (
        ("{}", "is no baseline"),
        ("[1", "is no baseline"),
        (baseline.read_text().replace("baseline/1", "baseline/9"), "has the schema"),
    ):
        wrong.write_text(text)
        ran = stallscope("check", path, "--against", wrong)
        assert ran.status == 2
        assert words in ran.stderr
        assert "Traceback" not in ran.stderr
    ran = stallscope("check", path, "--against", tmp_path / "none.json")
    assert ran.status == 2
    assert "cannot read the baseline" in ran.stderr
    ran = stallscope("check", path, cwd=tmp_path)
    assert ran.status == 2
    assert "nothing to check against" in ran.stderr


def test_fields_share_a_line_where_elements_begin_so() -> None:
    fields = [FieldMeasure("head", 0, 8), FieldMeasure("tail", 56, 8)]
    aligned = StructMeasure("queue", 64, [0], fields, 0, 0, [])
    shifted = StructMeasure("queue", 64, [16], fields, 0, 0, [])
    assert aligned.may_share_line("head", "tail")
    assert not shifted.may_share_line("head", "tail")
