# SPDX-License-Identifier: Apache-2.0
"""The files of a fleet: merged, they answer the same, whenever the merge is killed."""

from __future__ import annotations

import errno
import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

import stallscope as api
from stallscope.scale import fleet, fleet_folder
from stallscope.scale.fleet_report import fleet_report
from stallscope.scale.fleet_rows import FleetRow

BUILDS = ("aaaa0001", "bbbb0002")


def rows(number: int, program: str = "server") -> list[FleetRow]:
    """Of one recording."""
    common: dict[str, Any] = {
        "day": f"2026-11-{1 + number % 2:02d}",
        "program": program,
        "build": BUILDS[number % 2],
        "recording": f"{program}{number:06d}",
        "host": f"host-{number % 5}",
        "source": "clock",
        "seconds": 2.0,
        "every": 200,
    }
    waits = {None: 60 + number, "tree": 40 + number, "log": 20}
    return [
        FleetRow(object=name, kind="heap" if name else "", samples=n, wait=n / 100, **common)
        for name, n in waits.items()
    ]


def filled(folder: Path, ingests: int = 9) -> Path:
    """As many ingests left it."""
    folder.mkdir()
    for number in range(ingests):
        fleet_folder.write(folder, rows(2 * number) + rows(2 * number + 1))
    return folder


def answers(folder: Path) -> list[Any]:
    found = [
        fleet.top(folder),
        fleet.top(folder, by="object"),
        fleet.builds(folder),
        fleet.objects("server", folder),
        fleet.diff(*BUILDS, folder),
    ]
    return [msgspec.to_builtins(one) | {"fleet": ""} for one in found]


def test_merged_files_give_the_same_answers(tmp_path: Path) -> None:
    folder = filled(tmp_path / "fleet")
    before = answers(folder)
    done = fleet.compact(folder)
    assert (done.files_before, done.files) == (18, 2)
    assert [(row.day, row.program, row.build, row.files) for row in done.rows] == [
        ("2026-11-01", "server", BUILDS[0], 9),
        ("2026-11-02", "server", BUILDS[1], 9),
    ]
    assert done.bytes < done.bytes_before
    assert answers(folder) == before
    again = fleet.compact(folder)
    assert (again.files_before, again.files, again.rows) == (2, 2, [])
    assert not list(folder.rglob(".new-*"))


def test_an_ingest_merges_what_has_become_many(tmp_path: Path) -> None:
    folder = filled(tmp_path / "fleet", fleet_folder.MANY)
    before = answers(folder)
    (tmp_path / "nothing").mkdir()
    fleet.ingest([tmp_path / "nothing"], folder)
    assert len(fleet_folder.files(folder)) == 2
    assert answers(folder) == before


def test_rows_that_came_twice_count_once_when_merged(tmp_path: Path) -> None:
    folder = filled(tmp_path / "fleet", 2)
    before = answers(folder)
    fleet_folder.write(folder, rows(0))  # another fleet's file of the same recording
    fleet.compact(folder)
    assert answers(folder) == before


class Killed(BaseException):
    """Nothing of ours waits for it."""


def kill_at(patch: pytest.MonkeyPatch, at: int) -> None:
    """At the n-th file that is renamed or removed, everything ends."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*words: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise Killed
            return real(*words, **more)

        return change

    for name in ("replace", "unlink"):
        patch.setattr(Path, name, counted(getattr(Path, name)))


def test_a_merge_may_be_killed_at_any_point(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 2)
    before = fleet.top(whole, by="object").rows
    for at in range(1, 40):
        folder = tmp_path / f"fleet{at}"
        shutil.copytree(whole, folder)
        killed = False
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, at)
            try:
                fleet.compact(folder)
            except Killed:
                killed = True
        assert fleet.top(folder, by="object").rows == before
        assert len(fleet_folder.known(folder)) == 4
        fleet.compact(folder)
        assert fleet.top(folder, by="object").rows == before
        assert len(list(folder.rglob("*.parquet"))) == 2
        assert not list(folder.rglob(".new-*"))
        if not killed:
            break
    assert not killed
    assert at > 8


def test_who_reads_while_files_are_merged_sees_the_same(tmp_path: Path) -> None:
    folder = filled(tmp_path / "fleet", 4)
    before = answers(folder)
    wrong: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            if answers(folder) != before:
                wrong.append("other answers")

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.2)  # it is on its way
    fleet.compact(folder)
    stop.set()
    reader.join()
    assert not wrong


@pytest.mark.parametrize(
    "note",
    [
        "{",
        "[3]",
        json.dumps([{"new": "day=a/program=b/build=c/x.parquet", "old": ["../../precious"]}]),
        json.dumps([{"new": "/etc/passwd", "old": []}]),
    ],
)
def test_a_note_that_is_none_is_refused_and_obeyed_in_nothing(tmp_path: Path, note: str) -> None:
    folder = filled(tmp_path / "fleet", 1)
    (tmp_path / "precious").write_text("keep")
    (folder / fleet_folder.NOTE).write_text(note)
    for ask in (fleet.top, fleet.compact):
        with pytest.raises(api.StallscopeError, match="cannot be read"):
            ask(folder)
    assert (tmp_path / "precious").read_text() == "keep"


def test_what_is_no_fleet_cannot_be_compacted(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(api.StallscopeError, match="there is no fleet"):
            fleet.compact(folder)


def test_builds_of_the_same_name_are_told_apart_by_their_program(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir()
    for number in range(8):
        fleet_folder.write(folder, rows(number) + rows(number, "worker"))
    with pytest.raises(api.StallscopeError, match="several builds"):
        fleet.diff(*BUILDS, folder)
    assert fleet.diff(*BUILDS, folder, program="worker").program == "worker"


def test_a_damaged_file_of_a_fleet_is_told_in_a_sentence(tmp_path: Path) -> None:
    folder = filled(tmp_path / "fleet", 2)
    damaged = fleet_folder.files(folder)[0]
    damaged.write_bytes(damaged.read_bytes()[:-40] + b"x" * 40)
    for ask in (fleet.top, fleet.builds, fleet.compact, fleet_report):
        with pytest.raises(api.StallscopeError, match="the fleet cannot be read"):
            ask(folder)
    assert len(list(folder.rglob("*.parquet"))) == 4  # nothing was removed


def test_a_disk_that_fills_up_while_files_are_merged_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path / "fleet", 2)
    before = fleet.top(folder, by="object").rows

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(fleet_folder, "_write_note", full)
        with pytest.raises(api.StallscopeError, match="cannot merge files"):
            fleet.compact(folder)
    assert fleet.top(folder, by="object").rows == before
    assert len(fleet.compact(folder).rows) == 2
    assert fleet.top(folder, by="object").rows == before


def test_files_of_an_ingest_that_kept_no_places_are_read_and_merged(tmp_path: Path) -> None:
    folder = filled(tmp_path / "fleet", 3)
    before = answers(folder)
    for path in folder.rglob("*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(["places"]), path)
    assert answers(folder) == before
    assert fleet.compact(folder).files == 2
    assert answers(folder) == before
