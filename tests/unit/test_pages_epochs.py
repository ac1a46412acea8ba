# SPDX-License-Identifier: Apache-2.0
"""pages epochs and groups of pages, on references whose answers are known."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest

import stallscope
from conftest import Ran

PAGE = 4096
SMALL, LARGE = 100, 400  # pages of the loops of two phases
ROUNDS = 6


@pytest.fixture(scope="module")
def references() -> list[int]:
    return [*range(SMALL)] * ROUNDS + [*range(1000, 1000 + LARGE)] * ROUNDS


@pytest.fixture(scope="module")
def phases(references: list[int], tmp_path_factory: pytest.TempPathFactory) -> stallscope.Recording:
    folder = tmp_path_factory.mktemp("phases")
    text = "address,size,kind\n" + "".join(f"{page * PAGE:#x},8,load\n" for page in references)
    (folder / "phases.csv").write_text(text)
    return stallscope.import_trace(
        folder / "phases.csv", output=folder / "phases.stallscope"
    ).recording


def misses_by_epoch(references: list[int], memory: int, epoch: int) -> list[int]:
    resident: OrderedDict[int, None] = OrderedDict()
    misses = [0] * -(-len(references) // epoch)
    for i, page in enumerate(references):
        if page not in resident:
            misses[i // epoch] += 1
            if len(resident) == memory:
                resident.popitem(last=False)
        resident[page] = None
        resident.move_to_end(page)
    return misses


@pytest.mark.parametrize(("memory", "group"), [(200, 50), (390, 20), (120, 30), (40, 60)])
def test_each_epoch_has_the_misses_of_a_memory_and_of_more_and_less(
    phases: stallscope.Recording, references: list[int], memory: int, group: int
) -> None:
    found = stallscope.page_epochs(stallscope.page_view(phases), memory, group=group, epoch=250)
    assert (found.memory, found.group, found.memory_bytes) == (memory, group, memory * PAGE)
    assert sum(row.references for row in found.rows) == len(references)
    for size, field in ((memory, "misses"), (memory + group, "misses_more")):
        assert [getattr(row, field) for row in found.rows] == misses_by_epoch(references, size, 250)
    if memory > group:
        less = misses_by_epoch(references, memory - group, 250)
        assert [row.misses_less for row in found.rows] == less
    for row in found.rows:
        assert row.penalty == row.misses_less - row.misses >= 0
        assert row.benefit == row.misses - row.misses_more >= 0


def test_the_knee_follows_the_phases(phases: stallscope.Recording) -> None:
    found = stallscope.page_epochs(stallscope.page_view(phases), epoch=SMALL * ROUNDS)
    assert found.memory == (SMALL + LARGE) // 2
    assert found.rows[0].knee_pages == SMALL
    assert found.rows[0].new_pages == SMALL
    assert found.rows[-1].knee_pages == LARGE
    assert found.rows[-1].new_pages == 0


def test_a_curve_in_groups_has_their_sizes_and_the_same_misses(
    phases: stallscope.Recording,
) -> None:
    view = stallscope.page_view(phases)
    every, grouped = stallscope.pages(view), stallscope.pages(view, group=64)
    assert [row.pages for row in grouped.curve] == [*range(64, 500, 64), 500]
    for row in grouped.curve:
        assert row.misses == every.at(row.pages) == grouped.at(row.pages)
    assert grouped.at(100) == grouped.at(64)
    assert grouped.knee.pages == 448
    assert stallscope.pages(view, group="256K").curve == grouped.curve


def test_epochs_as_words_and_pictures(
    phases: stallscope.Recording, stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = stallscope("pages", "epochs", phases.path, "--memory", "200", "--json")
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.pages.epochs/1"
    assert len(document["rows"]) == 20
    shown = stallscope(
        "pages", "epochs", phases.path, "--memory", "800K", "--plot", tmp_path / "e.svg"
    )
    assert "knee" in shown.stdout
    assert (tmp_path / "e.svg").read_bytes().startswith(b"<?xml")
    assert "64 " in stallscope("pages", phases.path, "--group", "64").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--memory", "0"), "at least one page"),
        (("--group", "0"), "--group 0"),
        (("--group", "many"), "--group many"),
        (("--memory", "1.5"), "no size of memory"),
    ],
)
def test_epochs_of_what_cannot_be(
    phases: stallscope.Recording,
    stallscope: Callable[..., Ran],
    options: tuple[str, ...],
    said: str,
) -> None:
    ran = stallscope("pages", "epochs", phases.path, *options)
    assert ran.status != 0
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
