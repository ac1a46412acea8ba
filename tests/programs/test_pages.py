# SPDX-License-Identifier: Apache-2.0
"""Page references of real programs: the same while recording and from the trace."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest

import stallscope
from conftest import Ran, Recorder, run


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


def test_the_curve_of_a_real_program_is_that_of_a_plain_simulation(
    record: Recorder, program: Callable[..., Path]
) -> None:
    made = record(program("two_arrays"), options=["--trace", "--no-children"])
    view = stallscope.page_view(made.path, hot=1)  # every change of page
    pages = view.references_kept().column("page").to_pylist()
    assert len(pages) == view.references
    found = stallscope.pages(stallscope.page_view(made.path))
    assert len(set(pages)) == found.footprint_pages
    for size in (1, 2, 3, 10, 50, found.footprint_pages - 1, found.footprint_pages):
        assert found.at(size) == _lru(pages, size)


def _lru(pages: list[int], memory: int) -> int:
    order: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for page in pages:
        if page not in order:
            misses += 1
            if len(order) == memory:
                order.popitem(last=False)
        order[page] = None
        order.move_to_end(page)
    return misses


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


def test_pages_by_protection(record: Recorder, workload: Callable[[str], Path]) -> None:
    """At native speed: two arrays of 300 pages, one gone over again and again, one in clusters."""
    words = (workload("sweep"), 300, 12, 32)
    made = record(*words, source="pages", options=["--active", "48"])
    assert made.status == 0
    assert b"sweep checksum=" in made.ran.out
    view = stallscope.page_view(made.path)
    found = stallscope.pages(view)
    assert (found.source, found.exact, found.accesses) == ("pages", False, 0)
    assert 600 <= found.footprint_pages <= 640
    arrays = [row for row in found.objects if row.footprint_pages >= 300]
    assert len(arrays) == 2
    # Each round over the first array faults on each of its pages.
    assert max(row.references for row in arrays) >= 300 * 12
    curve = stallscope.pages(
        stallscope.page_view(record(*words, options=["--probe", "pages"]).path)
    )
    for pages in (100, 200, 500, 620):
        assert abs(found.at(pages) - curve.at(pages)) <= 0.2 * curve.at(pages), pages
    policies = stallscope.page_replacement(view, 290, policies=["lru", "region"]).rows
    assert policies[1].misses < policies[0].misses


def test_a_protected_run_ends_with_what_is_known_of_it(
    tmp_path: Path, stallscope: Callable[..., Ran], workload: Callable[[str], Path]
) -> None:
    words = ("--source", "pages", "--active", "48", "-o", tmp_path / "s.stallscope")
    ran = stallscope("record", *words, "--", workload("sweep"), 300, 2, 32)
    assert re.search(r"stallscope: 6\d\d pages, [\d,]+ faults, [\d.]+s in s", ran.stderr)
    assert "instructions" not in ran.stderr


def test_variables_have_their_names_by_protection_too(
    record: Recorder, program: Callable[..., Path]
) -> None:
    made = record(program("passes"), 40, source="pages", options=["--active", "48"])
    found = stallscope.pages(stallscope.page_view(made.path))
    area = next(row for row in found.objects if row.object == "area")
    assert area.footprint_pages >= 766  # of 768: its first and last page have others on them


@pytest.mark.parametrize(
    ("name", "words"), [("threads200", ()), ("signals", ()), ("spawn", ()), ("io", ())]
)
def test_protected_programs_do_what_they_would(
    name: str, words: tuple[str, ...], record: Recorder, program: Callable[..., Path]
) -> None:
    target = program(name)
    plain = run(target, *words)
    made = record(target, *words, source="pages", options=["--active", "8"])
    assert (made.status, made.ran.stdout) == (plain.status, plain.stdout), made.ran.stderr


def test_bad_words_of_the_source_get_a_sentence(stallscope: Callable[..., Ran]) -> None:
    ran = stallscope("record", "--source", "pages", "--active", "0", "--", "/bin/true")
    assert ran.status == 2
    assert "--active 0: it lies between 1 and" in ran.stderr
    ran = stallscope("record", "--source", "pages", "--trace", "--", "/bin/true")
    assert "--trace is not for --source pages" in ran.stderr


def test_the_region_policy_finds_a_policy_for_each_array(
    record: Recorder, workload: Callable[[str], Path]
) -> None:
    made = record(workload("sweep"), 400, 25, 32, options=["--probe", "pages"])
    view = stallscope.page_view(made.path, depth=1)
    found = stallscope.page_replacement(view, 480)  # of 400 swept pages and 32 to 48 in clusters
    chosen = {row.region.split()[0]: row.policy for row in found.regions}
    assert chosen["make_clustered"] == "lru"
    less = stallscope.page_replacement(view, 400)
    chosen = {row.region.split()[0]: row.policy for row in less.regions}
    assert (chosen["make_swept"], chosen["make_clustered"]) == ("mru", "lru")
    misses = {row.policy: row.misses for row in less.rows}
    assert misses["region"] < misses["lru"] / 2
    assert misses["lirs"] < misses["lru"] / 2
