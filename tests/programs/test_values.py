# SPDX-License-Identifier: Apache-2.0
"""What accesses read and wrote, kept beside a trace."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Made, Ran, Recorder

from stallscope import StallscopeError, _engine, watch
from stallscope.analyses.verify import verify
from stallscope.recording import STREAM, VALUES, open_recording
from stallscope.watch_verb import watch_captured


@pytest.fixture(scope="module")
def made(program: Callable[..., Path], shared_record: Recorder) -> Made:
    return shared_record(program("overflow"), options=["--trace", "--values", "all"])


def test_one_value_for_each_access(made: Made) -> None:
    image = open_recording(made.path)
    count = _engine.check_values(str(image.path / STREAM), str(image.path / VALUES))
    happened = image.table("operation").column("executions").to_pylist()
    assert 0.99 * sum(happened) < count <= sum(happened)  # some are under a condition
    assert verify(image).errors == 0
    said = [row for row in image.table("quality").to_pylist() if row["kind"] == "values"]
    assert [row["severity"] for row in said] == ["info"]


def test_the_trace_is_the_same_with_values_and_without(
    program: Callable[..., Path], shared_record: Recorder, made: Made
) -> None:
    plain = shared_record(program("overflow"), options=["--trace"])
    assert not (plain.path / VALUES).exists()
    everything = [(1, 1 << 47, 0)]
    seen = []
    for recording in (plain, made):
        found = _engine.watch(str(recording.path / STREAM), everything, [], [3], [], 0, 100, False)
        seen.append((found["accesses"], found["hits"]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("value > 400000", [n for i in range(1000) if (n := i * (i + 1) // 2) > 400_000]),
        ("value == 6", [6]),
        ("value < 4", [0, 1, 3]),
    ],
)
def test_conditions_in_replay(made: Made, condition: str, values: list[int]) -> None:
    found = watch("total", made.path, reads=False, condition=condition)
    assert [hit.value for hit in found.log] == values
    assert (found.hits, found.unknown) == (len(values), 0)


def test_replay_sees_the_values_that_the_capture_tool_sees(
    made: Made, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    targets = ["table[7]", "table[3].count", "total"]
    captured = watch_captured(targets, [str(program("overflow"))], snapshot=True)
    replayed = watch(targets, made.path, snapshot=True)
    told = [(hit.watch, hit.line, hit.value) for hit in captured.log]
    known = [(hit.watch, hit.line, hit.value) for hit in replayed.log]
    assert len(known) == len(told) == 2021
    # All of table[7] is never accessed: its first bytes stay unknown.
    assert [row for row in known if row[0] != "table[7]"] == [
        row for row in told if row[0] != "table[7]"
    ]
    assert {hit.value for hit in replayed.log if hit.watch == "table[7]"} == {None}
    parts = [hit.snapshot for hit in replayed.log if hit.watch == "table[7]"]
    assert parts == [f"{'.' * 8}{count:02x}000000{'.' * 16}" for count in range(1, 11)]


def test_blocks_too(made: Made) -> None:
    found = watch("past:copy", made.path, reads=False, condition="value == 0")
    assert found.hits == 2  # the end of a string, where no room was


def test_a_recording_without_values_says_so_in_one_sentence(
    program: Callable[..., Path], shared_record: Recorder, stallscope: Callable[..., Ran]
) -> None:
    plain = shared_record(program("overflow"), options=["--trace"])
    with pytest.raises(StallscopeError, match="has only addresses"):
        watch("total", plain.path, condition="value == 6")
    ran = stallscope("record", "--values", "all", "--", program("overflow"))
    assert (ran.status, "--values are kept beside a trace" in ran.stderr) == (2, True)


def test_children_and_threads_have_values_of_their_own(
    program: Callable[..., Path], shared_record: Recorder
) -> None:
    tree = shared_record(program("fork_tree"), 1, options=["--trace", "--values", "all"])
    images = list(open_recording(tree.path).processes())
    assert len(images) == 3
    for image in images:
        assert _engine.check_values(str(image.path / STREAM), str(image.path / VALUES)) > 1000


def test_damaged_and_foreign_values_are_errors(made: Made, tmp_path: Path) -> None:
    copy = tmp_path / "copy.stallscope"
    shutil.copytree(made.path, copy)
    data = bytearray((copy / VALUES).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / VALUES).write_bytes(data)
    with pytest.raises(StallscopeError, match="is corrupt at byte"):
        watch("total", copy)
    assert [row.rule for row in verify(open_recording(copy)).rows] == ["values"]
    data[len(data) // 2] ^= 1
    (copy / VALUES).write_bytes(data[: len(data) // 2])
    assert watch("total", copy, reads=False).hits == 1000  # what is there is read
