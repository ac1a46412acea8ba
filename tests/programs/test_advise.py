# SPDX-License-Identifier: Apache-2.0
"""What to change: what is advised is what a replay confirms, and what the changed program shows.
`python -m benchmarks advise` has all pairs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import stallscope as api
from conftest import Made, Ran, Recorder
from stallscope import pipelines
from stallscope.errors import StallscopeError

PAIRS = Path(__file__).resolve().parents[2] / "workloads" / "pairs"
ROW = [
    *("rank", "kind", "object", "where", "evidence"),
    *("predicted_cycles_saved", "predicted_share", "how"),
]


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, shared_record: Recorder
) -> Callable[[str, str], Made]:
    folder = tmp_path_factory.mktemp("pairs")
    known: dict[tuple[str, str], Made] = {}

    def made(name: str, form: str) -> Made:
        if (name, form) not in known:
            path = folder / name
            words = ["gcc", "-O2", "-g", PAIRS / f"{name}.c", "-o", path, "-pthread"]
            subprocess.run(words, check=True)
            known[name, form] = shared_record(path, form, options=["--trace"])
        return known[name, form]

    return made


def cycles(made: Made) -> int:
    return pipelines.core_view(made.path).runs[0].totals["cycles"]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("split_array", "split fields", "number, balance of struct account"),
        ("reorder_nodes", "reorder fields", "declare owner, score of struct user"),
    ],
)
def test_a_layout_is_advised_and_the_changed_program_saves_as_much(
    pair: Callable[[str, str], Made], name: str, kind: str, words: str
) -> None:
    before, after = pair(name, "before"), pair(name, "after")
    found = api.advise(before.path, kinds=[kind])
    [row] = found.rows
    assert row.kind == kind
    assert words in row.how
    assert name in row.object
    saved = cycles(before) - cycles(after)
    assert found.cycles == cycles(before)
    assert 0.8 * saved <= row.predicted_cycles_saved <= 1.2 * saved


def test_falsely_shared_counters_are_to_be_padded(pair: Callable[[str, str], Made]) -> None:
    found = api.advise(pair("pad_counters", "before").path, kinds=["pad shared fields"])
    assert [row.object for row in found.rows] == ["beside"]
    assert "_Alignas(128)" in found.rows[0].how


MUCH = """
#include <stdlib.h>
int main(void) {
  enum { MANY = 32 << 20, FEW = 256 << 10, PAGE = 4096 };
  volatile char* block = malloc(MANY);
  for (int i = 0; i < MANY; i += PAGE) block[i] = 1;
  for (int pass = 0; pass < 50; pass++)
    for (int i = 0; i < FEW; i += PAGE) block[i] += 1;
}
"""


def test_memory_that_is_not_needed_any_more_can_be_limited(
    tmp_path: Path, record: Recorder
) -> None:
    (tmp_path / "much.c").write_text(MUCH)
    subprocess.run(["gcc", "-g", tmp_path / "much.c", "-o", tmp_path / "much"], check=True)
    made = record(tmp_path / "much", options=["--trace"])
    [row] = api.advise(made.path, kinds=["memory limit"]).rows
    assert row.predicted_cycles_saved == 0
    limit = int(row.how.rpartition("=")[2])
    assert 256 << 10 <= limit <= 8 << 20


def test_rows_have_exactly_what_programs_rely_on(
    pair: Callable[[str, str], Made], stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("advise", pair("split_array", "before").path, "--json")
    assert ran.status == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.advise/1"
    assert all(list(row) == ROW for row in document["rows"])
    assert [row["rank"] for row in document["rows"]] == list(range(1, len(document["rows"]) + 1))
    saved = [row["predicted_cycles_saved"] for row in document["rows"]]
    assert saved == sorted(saved, reverse=True)
    least = document["cycles"] // 100
    assert all(number >= least for number in saved)


def test_nothing_is_advised_for_what_is_well_laid_out(pair: Callable[[str, str], Made]) -> None:
    found = api.advise(pair("split_array", "after").path, kinds=["split fields", "pack blocks"])
    assert found.rows == []


def test_what_cannot_be_advised_gets_one_sentence(
    pair: Callable[[str, str], Made], record: Recorder
) -> None:
    with pytest.raises(StallscopeError, match="there is no such kind"):
        api.advise(pair("split_array", "before").path, kinds=["split field"])
    made = record("/bin/true", options=["--machine", "default"])
    with pytest.raises(StallscopeError, match="has no trace"):
        api.advise(made.path)
