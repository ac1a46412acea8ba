# SPDX-License-Identifier: Apache-2.0
"""pages replacement, allocate, prefetch and overhead on page references whose answers are known."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pages_naive
import pytest

import stallscope
from conftest import Ran

PAGE = 4096
LOOP = 0x1000_0000
HOT = 0x4000_0000


def recording(path: Path, pages: Sequence[int]) -> stallscope.Recording:
    text = "address,size,kind\n" + "".join(f"{page * PAGE:#x},8,load\n" for page in pages)
    path.with_suffix(".csv").write_text(text)
    out = path.with_suffix(".stallscope")
    return stallscope.import_trace(path.with_suffix(".csv"), output=out).recording


def loop(pages: int, rounds: int) -> list[int]:
    return list(range(LOOP, LOOP + pages)) * rounds


def skewed(pages: int, count: int) -> list[int]:
    chance = random.Random(1)
    return [HOT + int(pages * chance.random() ** 4) for _ in range(count)]


@pytest.fixture(scope="module")
def looping(tmp_path_factory: pytest.TempPathFactory) -> stallscope.Recording:
    return recording(tmp_path_factory.mktemp("loop") / "loop", loop(400, 25))


@pytest.fixture(scope="module")
def skewing(tmp_path_factory: pytest.TempPathFactory) -> stallscope.Recording:
    return recording(tmp_path_factory.mktemp("skew") / "skew", skewed(600, 6000))


def test_a_loop_in_nine_tenths_of_its_memory(looping: stallscope.Recording) -> None:
    found = stallscope.page_replacement(stallscope.page_view(looping), 360)
    misses = {row.policy: row.misses for row in found.rows}
    assert misses["lru"] == 400 * 25
    assert misses["mru"] == pages_naive.mru(loop(400, 25), 360)
    for better in ("mru", "lirs", "belady", "region"):
        assert misses[better] * 5 <= misses["lru"], better
    assert misses["belady"] == min(misses.values())
    (region,) = found.regions
    assert region.policy == "mru"
    for row in found.rows:
        assert row.projected_time == found.time_without_faults + row.misses * 1_000_000


def test_lru_of_replacement_is_on_the_curve(skewing: stallscope.Recording) -> None:
    view = stallscope.page_view(skewing)
    curve = stallscope.pages(view)
    found = stallscope.page_replacement(view, [50, 200, "1M"], policies=["lru", "belady"])
    assert [row.memory for row in found.rows] == [50, 50, 200, 200, 256, 256]
    for lru, best in zip(found.rows[::2], found.rows[1::2], strict=True):
        assert lru.misses == curve.at(lru.memory)
        assert best.misses <= lru.misses


def test_memory_goes_to_the_program_that_it_helps(
    looping: stallscope.Recording, skewing: stallscope.Recording
) -> None:
    views = [stallscope.page_view(looping), stallscope.page_view(skewing)]
    found = stallscope.page_allocation(views, 430)
    by = {(row.sharing, row.adapts): row for row in found.sharings}
    assert by["global", True].gain == 0
    assert by["throughput", False].gain > 0.15
    limits = {row.program: row for row in found.limits("throughput")}
    assert sum(row.pages for row in limits.values()) <= 430
    assert limits["loop"].bytes == limits["loop"].pages * PAGE
    for row, view in zip(found.limits("throughput"), views, strict=True):
        assert row.misses == stallscope.pages(view).at(row.pages)


def test_equal_rates_are_equal_by_priority(skewing: stallscope.Recording, tmp_path: Path) -> None:
    other = recording(tmp_path / "other", skewed(300, 5000))
    views = [stallscope.page_view(skewing), stallscope.page_view(other)]
    one, two = stallscope.page_allocation(views, 400).limits("equal")
    assert abs(one.miss_rate - two.miss_rate) <= 0.1 * max(one.miss_rate, two.miss_rate)
    first, second = stallscope.page_allocation(views, 400, priorities=[2, 1]).limits("equal")
    assert first.miss_rate < one.miss_rate
    assert second.miss_rate > two.miss_rate


def test_service_levels_are_kept_while_memory_lasts(skewing: stallscope.Recording) -> None:
    views = [stallscope.page_view(skewing)] * 2
    level = stallscope.pages(views[0]).at(300) / views[0].instructions * 1e6
    one, _ = stallscope.page_allocation(views, 400, levels=[level, level * 100]).limits("service")
    assert one.pages >= 300
    assert [row.program for row in stallscope.page_allocation(views, 400).rows[:2]] == [
        "skew (1)",
        "skew (2)",
    ]


def test_what_follows_each_other_can_be_prefetched(tmp_path: Path) -> None:
    chance = random.Random(3)
    order = [LOOP + 1000 * i for i in range(300)]  # far from each other
    chance.shuffle(order)
    view = stallscope.page_view(recording(tmp_path / "t", order * 12))
    found = {row.prefetcher: row for row in stallscope.page_prefetching(view, 150).rows}
    assert found["none"].faults == 300 * 12
    assert found["spatial"].faults_removed < 0.1
    assert found["proximity"].faults_removed > 0.5
    assert found["proximity"].recall >= found["proximity"].faults_removed
    assert found["proximity"].pages_in == (
        found["proximity"].faults + found["proximity"].prefetched
    )


def test_overhead_is_what_exceptions_and_entries_cost(skewing: stallscope.Recording) -> None:
    view = stallscope.page_view(skewing, departures=0, refresh=256)
    found = stallscope.page_overhead(view, 10.0, exception_cycles=1000, fault_cycles=100)
    assert not found.entry_measured
    for row in found.rows:
        cycles = row.exceptions * 1000 + (row.logged + row.refreshed) * 10
        reads = round((row.overhead * view.instructions - cycles) / 4)
        words = -(-(row.entries + 128) // 64)  # of marks, read after every 256 entries at most
        assert reads % words == 0
        assert 0 < reads <= row.logged // 256 * words
        assert row.exceptions == row.logged // 128
        assert row.software_overhead == pytest.approx(row.software_faults * 100 / view.instructions)
    (asked,) = [row for row in found.rows if row.entries == 2048]
    assert asked.overhead == pytest.approx(found.overhead, rel=0.01)  # whose TLB is read too
    assert [row.logged for row in found.rows] == sorted(
        (r.logged for r in found.rows), reverse=True
    )
    measured = stallscope.page_overhead(view)
    assert measured.entry_measured
    assert measured.entry_cycles > 0


@pytest.mark.parametrize("verb", ["curve", "replacement", "prefetch", "overhead"])
def test_each_verb_draws_and_prints_a_document(
    verb: str, skewing: stallscope.Recording, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    picture = tmp_path / "a.html"
    words = () if verb in ("curve", "overhead") else ("--memory", "100", "--memory", "1M")
    ran = stallscope("pages", verb, skewing.path, *words, "--json", "--plot", picture)
    assert ran.status == 0, ran.stderr
    assert json.loads(ran.stdout)["schema"].startswith("stallscope.pages")
    assert picture.read_text().startswith("<!doctype html>")
    assert stallscope("pages", verb, skewing.path, *words).stdout


def test_allocation_draws_and_prints_a_document(
    looping: stallscope.Recording,
    skewing: stallscope.Recording,
    tmp_path: Path,
    stallscope: Callable[..., Ran],
) -> None:
    picture = tmp_path / "a.svg"
    words = ("--memory", "1M", "--level", "100", "--level", "100")
    paths = (looping.path, skewing.path)
    ran = stallscope("pages", "allocate", *paths, *words, "--json", "--plot", picture)
    assert ran.status == 0, ran.stderr
    ways = {row["sharing"] for row in json.loads(ran.stdout)["sharings"]}
    assert ways == {"global", "throughput", "equal", "service"}
    assert b"<svg" in picture.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replacement", "--memory", "0"), "--memory 0: a memory has at least one page"),
        (("replacement", "--memory", "1K"), "--memory 1K: a memory has at least one page"),
        (("replacement", "--memory", "much"), "--memory much: that is no size of memory"),
        (("replacement", "--memory", "1"), "a memory of 1 page is too small for"),
        (("replacement", "--policy", "best"), "there is no replacement policy best"),
        (("replacement", "--log", "path", "--memory", "9"), ""),
        (("prefetch", "--prefetcher", "best"), "there is no prefetcher best"),
        (("prefetch", "--memory", "0"), "a memory has at least one page"),
        (("overhead", "--exception-cycles", "-1"), "nothing takes less than no time"),
        (("allocate", "--memory", "100"), "memory is shared by two programs at least"),
    ],
)
def test_bad_words_get_a_sentence(
    skewing: stallscope.Recording,
    stallscope: Callable[..., Ran],
    words: tuple[str, ...],
    said: str,
) -> None:
    ran = stallscope("pages", words[0], skewing.path, *words[1:])
    assert ran.status == (2 if said else 0), ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_programs_that_cannot_share(
    looping: stallscope.Recording, skewing: stallscope.Recording
) -> None:
    views = [stallscope.page_view(looping), stallscope.page_view(skewing)]
    with pytest.raises(stallscope.StallscopeError, match="1 pages for 2 programs"):
        stallscope.page_allocation(views, 1)
    with pytest.raises(stallscope.StallscopeError, match="--priority was given 1 times"):
        stallscope.page_allocation(views, 100, priorities=[1])
    large = stallscope.page_view(skewing, page_size=8192)
    with pytest.raises(stallscope.StallscopeError, match="pages of unequal sizes"):
        stallscope.page_allocation([views[0], large], 100)
