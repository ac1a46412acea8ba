# SPDX-License-Identifier: Apache-2.0
"""Programs in turns, each frozen while the other runs."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest
from benchmarks import turns

SHELL = str(Path(shutil.which("sh") or "/bin/sh").resolve())


@pytest.fixture(autouse=True)
def groups() -> None:
    try:
        turns.both(SHELL, [[SHELL, "-c", ":"]] * 2, {})
    except turns.NoGroups as error:
        pytest.skip(str(error))


def _left() -> list[Path]:
    return list(turns._root().glob(f"stallscope-{os.getpid()}-*"))


def test_both_end_and_say_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN", 0.01)
    count = "i=0; while [ $i -lt 40000 ]; do i=$((i + 1)); done; echo $WHO $i"
    told = turns.both(SHELL, [[SHELL, "-c", count], [SHELL, "-c", "echo $WHO"]], {"WHO": "me"})
    assert [one.out for one in told] == [b"me 40000\n", b"me\n"]
    assert all(one.clock > 0 and one.used >= 0 for one in told)
    assert not _left()


def test_only_one_of_them_runs_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each notes when it goes on; a look of one is never between two quick looks of the other."""
    monkeypatch.setattr(turns, "TURN", 0.05)
    log = tmp_path / "log"
    note = f"for i in $(seq 3000); do echo $WHO$0 >> {log}; done"
    turns.both(SHELL, [[SHELL, "-c", note, name] for name in ("a", "b")], {"WHO": ""})
    said = log.read_text().split()
    changes = sum(one != other for one, other in itertools.pairwise(said))
    assert sorted(said) == ["a"] * 3000 + ["b"] * 3000
    assert changes < len(said) / 10


def test_a_program_that_fails_is_told_and_leaves_nothing() -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        turns.both(SHELL, [[SHELL, "-c", "exit 3"], [SHELL, "-c", ":"]], {})
    assert not _left()


def test_what_is_interrupted_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(turns._Run, "turn", interrupt)
    with pytest.raises(KeyboardInterrupt):
        turns.both(SHELL, [[SHELL, "-c", "sleep 60"]] * 2, {})
    assert not _left()


def test_where_nothing_can_be_frozen_a_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(turns, "_root", lambda: tmp_path / "absent")
    with pytest.raises(turns.NoGroups, match="takes root and cgroup2"):
        turns.both(SHELL, [[SHELL, "-c", ":"]] * 2, {})
