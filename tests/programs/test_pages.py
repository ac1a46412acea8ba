# SPDX-License-Identifier: Apache-2.0
"""Page references of real programs: the same while recording and from the trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import stallscope
from conftest import Ran, Recorder


def test_followed_while_recording_as_from_the_trace(
    record: Recorder, program: Callable[..., Path]
) -> None:
    array = program("two_arrays")
    followed = record(array, options=["--probe", "pages", "--trace"])
    found = stallscope.pages(stallscope.page_view(followed.path))
    results = followed.path / "results"
    (kept,) = [path.parent for path in results.glob("*/pages.json")]
    before = {path.name: path.read_bytes() for path in kept.glob("page_*.parquet")}
    for path in [*kept.iterdir()]:
        path.unlink()
    kept.rmdir()
    assert stallscope.pages(stallscope.page_view(followed.path)) == found
    (again,) = [path.parent for path in results.glob("*/pages.json")]
    assert again == kept
    assert {path.name for path in again.glob("page_*.parquet")} == set(before)
    assert found.accesses == followed.info.loads + followed.info.stores


def test_without_trace_and_probe_there_is_nothing_to_follow(
    record: Recorder, program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    plain = record(program("two_arrays"))
    ran = stallscope("pages", plain.path)
    assert ran.status == 2
    assert "has no page references" in ran.stderr
    assert "--probe pages" in ran.stderr


def test_a_recording_that_measured_nothing_gets_a_sentence(
    record: Recorder, stallscope: Callable[..., Ran]
) -> None:
    empty = record("/bin/true", options=["--probe", "pages", "--skip", "1e12"])
    for verb in ("curve", "replacement", "prefetch", "overhead"):
        ran = stallscope("pages", verb, empty.path)
        assert ran.status == 2
        assert "references no pages" in ran.stderr
