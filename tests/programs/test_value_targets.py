# SPDX-License-Identifier: Apache-2.0
"""Values of chosen memory beside a trace, and nothing of any other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.conftest import Made, Ran, Recorder

from stallscope import StallscopeError, _engine, monitor_run, record, tables, watch
from stallscope.recording import STREAM, VALUES

SECRET = b"\x91\xa3\xb5\xc7\xd9\xeb\xfd\x8f"
OPEN = ("counter", "pair.open", "both.open", "cells[*]", "heap:make_open")


@pytest.fixture(scope="module")
def kept(program: Callable[..., Path], shared_record: Recorder) -> Callable[..., Made]:
    def made(targets: Sequence[str]) -> Made:
        words = [word for text in targets for word in ("--values", text)]
        return shared_record(program("secrets"), options=["--trace", *words], stdin=SECRET)

    return made


@pytest.fixture(scope="module")
def open_only(kept: Callable[..., Made]) -> Made:
    return kept(OPEN)


def values_of(made: Made, target: str) -> list[int | None]:
    return [hit.value for hit in watch(target, made.path, reads=False).log]


def test_what_was_asked_for_is_known(open_only: Made) -> None:
    assert open_only.status == 0
    assert values_of(open_only, "counter") == [i * (i + 1) // 2 for i in range(10)]
    assert values_of(open_only, "pair.open") == [7 + i for i in range(10)]
    assert values_of(open_only, "both.open")[-1] == 11
    assert values_of(open_only, "cells[*]") == list(range(10))
    blocks = [hit.value for hit in watch("heap:make_open+16:8", open_only.path).log]
    assert blocks == [1002]


def test_other_memory_is_unknown_and_said_to_be(
    open_only: Made, stallscope: Callable[..., Ran]
) -> None:
    for target in ("secret", "pair.hidden", "both.hidden", "heap:make_secret"):
        found = watch(target, open_only.path, condition="value != 0")
        assert found.hits == 0, target
        assert found.unknown > 0, target
        assert found.values == OPEN
        plain = watch(target, open_only.path, snapshot=True)
        assert {hit.value for hit in plain.log} == {None}
        assert all(set(hit.snapshot or ".") == {"."} for hit in plain.log)
    ran = stallscope("watch", "secret", "--if", "value > 0", open_only.path)
    assert "left out whose value is not known (values were kept of counter, " in (
        " ".join(ran.stdout.split())
    )
    # The eight bytes that one store wrote: known where they were asked for.
    both = watch("pair", open_only.path, reads=False, snapshot=True)
    assert [hit.snapshot for hit in both.log[:2]] == ["07000000........", "08000000........"]


def known_words(made: Made) -> set[str]:
    """All that the values tell of any memory that was accessed, word by word, in hexadecimal."""
    files = [str(made.path / name) for name in (STREAM, VALUES)]
    everywhere = [(1, 1 << 47, 0)]
    seen = _engine.watch(files[0], everywhere, [], [3], [], 0, 10**6, False)
    hits = tables.to_arrow("watch_hit", seen["tables"]["watch_hit"]).column("address").to_pylist()
    assert len(hits) == seen["hits"] > 10_000
    words = sorted({word * 8 for at in hits for word in range(at // 8, (at + 31) // 8 + 1)})
    ranges = [(word, word + 8, 0) for word in words]
    found = _engine.watch(files[0], ranges, [], [3], [], 0, 10**6, False, files[1], snapshots=True)
    told = tables.to_arrow("watch_value", found["tables"]["watch_value"]).column("snapshot")
    return set(told.to_pylist())


def test_nothing_of_what_was_not_asked_for_is_in_the_recording(
    open_only: Made, kept: Callable[..., Made]
) -> None:
    parts = (SECRET, SECRET[:4], SECRET[4:])
    for path in open_only.path.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert not [part for part in parts if part in data], path
    everything = kept(["all"])
    for made, holds in ((open_only, False), (everything, True)):
        words = known_words(made)
        assert "0b00000000000000" in words  # both.open
        for part in parts:
            assert any(part.hex() in word for word in words) is holds, part
    word = int.from_bytes(SECRET, "little")
    assert {hit.value for hit in watch("secret", everything.path).log} == {word}


def test_the_recording_says_what_it_holds(open_only: Made) -> None:
    said = [row["explanation"] for row in open_only.rows("quality") if row["kind"] == "values"]
    assert said == [
        f"values.ss holds what the program read and wrote in {', '.join(OPEN)}, "
        "secrets included: --values asked for it"
    ]
    facts = json.loads((open_only.path / "meta.json").read_text())
    assert facts["options"]["values"] == list(OPEN)
    files = [str(open_only.path / name) for name in (STREAM, VALUES)]
    assert 30 < _engine.check_values(*files) < 200


@pytest.mark.parametrize(
    ("target", "hits", "ranges"),
    [
        ("cells[*]", 10, 5),
        ("cells[2]", 2, 1),
        ("rows[*].marks[*]", 10, 12),
        ("rows[2].marks[*]", 2, 3),
        ("rows[*].marks[2]", 3, 4),
        ("rows[*].marks", 10, 4),
        ("grid[*][*]", 10, 6),
        ("grid[1][*]", 5, 3),
        ("grid[*][1]", 3, 2),
    ],
)
def test_each_element_of_arrays(open_only: Made, target: str, hits: int, ranges: int) -> None:
    found = watch(target, open_only.path)
    assert (found.hits, found.ranges) == (hits, ranges)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nothing", "secrets has no variable nothing"),
        ("pair.closed", "there is no field closed"),
        ("cells[9]", "there is no field [9]"),
        ("0x10-0x10", "the range is empty"),
        ("heap:make_open+0:0", "the range is empty"),
        ("no such thing", "cannot be watched while it runs"),
    ],
)
def test_a_bad_target_is_one_sentence(
    program: Callable[..., Path],
    stallscope: Callable[..., Ran],
    tmp_path: Path,
    target: str,
    said: str,
) -> None:
    place = tmp_path / "bad.stallscope"
    ran = stallscope("record", "--trace", "--values", target, "-o", place, "--", program("secrets"))
    assert ran.status in (2, 125)
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not place.exists()


def test_blocks_that_nobody_made_are_told_of(program: Callable[..., Path], tmp_path: Path) -> None:
    made = record(
        [str(program("overflow"))],
        output=tmp_path / "none.stallscope",
        machine="none",
        trace=True,
        values=["heap:no_such_function", "past:copy"],
    )
    assert made.warnings == (
        "--values heap:no_such_function: there was no such memory, so no value of it was kept",
    )
    found = watch("past:copy", made.recording, reads=False, condition="value == 0")
    assert (found.hits, found.unknown) == (2, 0)


def test_children_keep_what_their_parent_had(
    program: Callable[..., Path], shared_record: Recorder
) -> None:
    words = ["--trace", "--values", "heap:*"]
    tree = shared_record(program("heapfork"), options=words)
    images = tree.images()
    assert len(images) > 1
    for image in images:
        files = [str(image.path / name) for name in (STREAM, VALUES)]
        assert _engine.check_values(*files) > 0


def test_monitors_are_not_told_what_nobody_knows(
    kept: Callable[..., Made], stallscope: Callable[..., Ran]
) -> None:
    made = kept(["cells[*]"])
    known = monitor_run("every-hundredth", made.path, watch=["cells[*]"])
    assert (known.rows[0].words["writes"], known.rows[0].unknown) == (10, 0)
    blind = monitor_run("every-hundredth", made.path, watch=["counter"])
    # Counting needs no value; two of its three rules do.
    assert (blind.rows[0].words["writes"], blind.rows[0].unknown) == (10, 20)
    ran = stallscope("monitor", "run", "every-hundredth", "--watch", "counter", made.path)
    assert "20 accesses not told: what they read or wrote is not known (values were kept of " in (
        " ".join(ran.stdout.split())
    )


def test_a_recording_is_refused_whose_values_are_gone(kept: Callable[..., Made]) -> None:
    made = kept(["counter"])
    (made.path / VALUES).unlink()
    with pytest.raises(StallscopeError, match="has only addresses"):
        watch("counter", made.path, condition="value == 6")
