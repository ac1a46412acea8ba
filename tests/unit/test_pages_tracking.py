# SPDX-License-Identifier: Apache-2.0
"""The page references of recordings: curves against plain simulations, PATH units against a model
of lists, and what is said about input that cannot be used."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pages_naive
import pytest

import stallscope
from conftest import Ran

PAGE = 4096
Access = tuple[int, int, int, str]  # thread, address, size, kind


def recording(path: Path, accesses: Iterable[Access]) -> stallscope.Recording:
    text = "thread,address,size,kind\n" + "".join(
        f"{t},{a:#x},{s},{k}\n" for t, a, s, k in accesses
    )
    path.with_suffix(".csv").write_text(text)
    out = path.with_suffix(".stallscope")
    return stallscope.import_trace(path.with_suffix(".csv"), output=out).recording


def some(seed: int, count: int, pages: int, threads: int = 1) -> list[Access]:
    """Hot pages, a loop and accesses anywhere, some of them across two pages."""
    chance = random.Random(seed)
    found: list[Access] = []
    for i in range(count):
        page = chance.choice([chance.randrange(6), i % pages, chance.randrange(pages)])
        offset = chance.choice([chance.randrange(PAGE - 8), PAGE - 4])
        kind = chance.choice(["load", "load", "store"])
        thread = 1 + (i // 37) % threads
        found.append((thread, 0x10_0000 + page * PAGE + offset, 8, kind))
    return found


def touched(accesses: Iterable[Access], size: int = PAGE) -> list[int]:
    pages = []
    for _, address, length, _ in accesses:
        pages += range(address // size, (address + length - 1) // size + 1)
    return pages


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_is_that_of_a_plain_simulation_at_every_size(tmp_path: Path, seed: int) -> None:
    accesses = some(seed, 1500, 60)
    found = stallscope.pages(stallscope.page_view(recording(tmp_path / "t", accesses)))
    pages = touched(accesses)
    assert found.exact
    assert found.accesses == len(accesses)
    assert found.footprint_pages == len(set(pages)) == len(found.curve)
    for row in found.curve:
        assert row.misses == pages_naive.lru(pages, row.pages), row.pages
    assert found.at(10**9) == found.footprint_pages


def test_larger_pages_are_fewer(tmp_path: Path) -> None:
    accesses = some(7, 500, 40)
    made = recording(tmp_path / "t", accesses)
    found = stallscope.pages(stallscope.page_view(made, page_size=4 * PAGE))
    pages = touched(accesses, 4 * PAGE)
    assert [row.misses for row in found.curve] == [
        pages_naive.lru(pages, size) for size in range(1, len(set(pages)) + 1)
    ]


def test_each_thread_has_a_curve_of_its_own(tmp_path: Path) -> None:
    accesses = some(3, 1200, 40, threads=3)
    view = stallscope.page_view(recording(tmp_path / "t", accesses))
    numbers = [row.thread for row in stallscope.pages(view).threads]
    assert len(numbers) == 3
    for number, own in zip(numbers, (1, 2, 3), strict=True):
        found = stallscope.pages(view, thread=number)
        pages = touched(access for access in accesses if access[0] == own)
        assert found.exact
        assert [row.misses for row in found.curve] == [
            pages_naive.lru(pages, size) for size in range(1, len(set(pages)) + 1)
        ]


class PlainTable:
    """Sets of [page, written], the most recent first."""

    def __init__(self, entries: int, ways: int) -> None:
        self.ways = ways
        self.sets: list[list[list[int]]] = [[] for _ in range(entries // ways)]

    def hits(self, page: int, writes: bool) -> bool:
        ways = self.sets[page % len(self.sets)]
        entry = next((e for e in ways if e[0] == page), None)
        hit = entry is not None and (bool(entry[1]) or not writes)
        if entry is None:
            entry = [page, 0]
            del ways[self.ways - 1 :]
        else:
            ways.remove(entry)
        entry[1] |= writes
        ways.insert(0, entry)
        return hit


def plain_path(references: Sequence[tuple[int, bool]], sizes: dict[str, int]) -> list[int]:
    tlb = PlainTable(sizes["tlb_entries"], sizes["tlb_ways"])
    buffer = PlainTable(sizes["buffer_entries"], sizes["buffer_ways"])
    kept = PlainTable(sizes["filter_entries"], sizes["filter_entries"])
    tables = (tlb, buffer, kept)
    return [p for p, writes in references if not any(t.hits(p, writes) for t in tables)]


def test_a_path_unit_logs_what_a_model_of_lists_does(tmp_path: Path) -> None:
    accesses = some(5, 3000, 80)
    sizes = {
        "tlb_entries": 8,
        "tlb_ways": 4,
        "buffer_entries": 16,
        "buffer_ways": 2,
        "filter_entries": 4,
        "log_entries": 8,
        "departures": 0,
    }
    view = stallscope.page_view(recording(tmp_path / "t", accesses), **sizes)
    references = [
        (page, kind == "store")
        for _, address, size, kind in accesses
        for page in range(address // PAGE, (address + size - 1) // PAGE + 1)
    ]
    expected = plain_path(references, sizes)
    flags = view.log.column("flags").to_pylist()
    logged = [p for p, f in zip(view.log.column("page").to_pylist(), flags, strict=True) if f & 4]
    assert logged == expected
    (unit,) = stallscope.pages(view).units
    assert unit.logged == len(expected)
    assert unit.exceptions == len(expected) // 8


def test_each_thread_has_a_unit_whose_log_gives_its_curve(tmp_path: Path) -> None:
    accesses = [
        (thread, 0x10_0000 * thread + PAGE * (i % 90), 8, "load")
        for i in range(900)
        for thread in (1, 2)
    ]
    made = recording(tmp_path / "t", accesses)
    small = {"tlb_entries": 8, "tlb_ways": 4, "buffer_entries": 16, "filter_entries": 4}
    found = stallscope.pages(stallscope.page_view(made, **small))
    assert [unit.lookups for unit in found.units] == [900, 900]
    assert [row.path_within for row in found.threads] == [1.0, 1.0]
    assert found.path_accuracy.within == 1.0
    shared = stallscope.pages(stallscope.page_view(made, **small, cores=1))
    assert [unit.lookups for unit in shared.units] == [1800]


def test_hot_pages_are_read_so_that_the_log_alone_gives_the_curve(tmp_path: Path) -> None:
    """A loop, and a few pages that are used so often that they are never logged again."""
    at, accesses = 0x10_0000, []
    for _ in range(6):
        for i in range(300):
            accesses += [
                (1, at + PAGE * (100 + i), 8, "load"),
                (1, at + PAGE * (i % 20), 8, "load"),
            ]
    made = recording(tmp_path / "t", accesses)
    sizes = {"tlb_entries": 16, "tlb_ways": 4, "buffer_entries": 64, "filter_entries": 8}
    without, with_ = (
        stallscope.pages(
            stallscope.page_view(made, **sizes, departures=0, refresh=refresh)
        ).path_accuracy
        for refresh in (0, 16)
    )
    assert without.reach_pages == with_.reach_pages == 64
    assert without.shift is not None
    assert without.shift >= 15  # the pages that the log forgets
    assert with_.shift is not None
    assert with_.shift <= 2
    assert with_.within is not None
    assert with_.within > 0.98


SMALL = {"tlb_entries": 8, "tlb_ways": 4, "buffer_entries": 32, "filter_entries": 4}


@pytest.mark.parametrize("seed", range(3))
def test_departures_make_the_curve_of_the_log_that_of_every_access(
    tmp_path: Path, seed: int
) -> None:
    """Two loops, one ahead of the other, so that pages leave in another order than they came, a
    page that is used all the time, and others here and there."""
    chance, accesses = random.Random(seed), []
    for i in range(12_000):
        pages = [200 + i % 180, 1, 200 + (i + 7) % 180, 200 + (i * 5) % 90]
        pages += [chance.randrange(200, 420)] * (i % 4 == 0)
        kind = chance.choice(["load", "store"])
        accesses += [(1, 0x10_0000 + PAGE * page, 8, kind) for page in pages]
    made = recording(tmp_path / "t", accesses)
    original, told = (
        stallscope.pages(stallscope.page_view(made, **SMALL, departures=departures))
        for departures in (0, 1)
    )
    assert told.logged == original.logged
    assert told.path_accuracy.within == 1.0
    assert told.path_accuracy.worst is not None
    assert told.path_accuracy.worst < 0.005
    assert original.path_accuracy.worst is not None
    assert original.path_accuracy.worst > 0.02
    (unit,) = told.units
    assert 0 < unit.departures < told.logged


def test_what_leaves_is_in_the_log_with_its_last_use_and_no_reference(tmp_path: Path) -> None:
    order = [1, 2, 3, 1, *range(100, 200)]
    accesses = [(1, PAGE * (0x100 + page), 8, "load") for page in order]
    view = stallscope.page_view(recording(tmp_path / "t", accesses), **SMALL)
    rows = view.parts[0].table("page_log").to_pylist()
    left = {row["page"] - 0x100: row["moment"] for row in rows if row["flags"] == 32}
    assert {1, 2, 3} <= set(left)
    assert left[2] < left[3] < left[1]  # by their last uses
    assert view.log.num_rows == len([row for row in rows if row["flags"] != 32]) < len(rows)
    assert stallscope.pages(view).footprint_pages == len(set(order))


def test_threads_that_share_pages_have_their_departures_told_apart(tmp_path: Path) -> None:
    accesses = [
        (thread, 0x10_0000 + PAGE * (i * thread % 160), 8, "load")
        for i in range(4000)
        for thread in (1, 2)
    ]
    made = recording(tmp_path / "t", accesses)
    found = stallscope.pages(stallscope.page_view(made, **SMALL))
    assert found.path_accuracy.reach_pages == 64
    assert found.path_accuracy.within == 1.0
    assert all(row.path_within == 1.0 for row in found.threads)


def test_pages_written_while_they_are_hot_are_known_to_be_written(tmp_path: Path) -> None:
    at = 0x10_0000
    accesses = [(1, at, 8, "load"), (1, at + PAGE, 8, "load"), (1, at + 8, 8, "store")]
    view = stallscope.page_view(recording(tmp_path / "t", accesses))
    log = view.references_kept()
    assert log.column("page").to_pylist() == [at // PAGE, at // PAGE + 1]
    assert [f & 1 for f in log.column("flags").to_pylist()] == [1, 0]


def test_a_loop_has_its_knee_where_it_fits(tmp_path: Path) -> None:
    accesses = [(1, 0x10_0000 + PAGE * i, 8, "load") for _ in range(5) for i in range(100)]
    found = stallscope.pages(stallscope.page_view(recording(tmp_path / "t", accesses)))
    assert (found.knee.pages, found.knee.misses) == (100, 100)
    assert found.at(99) == 500


def test_mru_has_a_curve_of_its_own_and_reversed_ranks_are_not_it(tmp_path: Path) -> None:
    pages = [i for _ in range(6) for i in range(200)]
    accesses = [(1, 0x10_0000 + PAGE * i, 8, "load") for i in pages]
    view = stallscope.page_view(recording(tmp_path / "t", accesses))
    found = stallscope.pages(view, mru=True)
    for size in (1, 50, 180, 199, 200):
        assert found.mru_curve[size - 1].misses == pages_naive.mru(pages, size)
        assert found.reversed_rank[size - 1].misses == 200
    assert stallscope.pages(view).mru_curve == []


def test_the_document_has_the_promised_words(
    tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    made = recording(tmp_path / "t", some(1, 300, 30))
    ran = stallscope("pages", made.path, "--json")
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.pages/1"
    assert document["page_size"] == PAGE
    assert document["accesses"] == 300
    assert document["logged"] == sum(unit["logged"] for unit in document["units"])
    assert [row["pages"] for row in document["curve"]] == list(
        range(1, document["footprint_pages"] + 1)
    )
    rows = stallscope("pages", made.path, "--csv", "--limit", "2").stdout.splitlines()
    assert rows[0] == "pages,misses"
    assert len(rows) == 3
    assert "knee" in stallscope("pages", made.path).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--page-size", "1000"), "pages of 1000 bytes cannot be tracked"),
        (("--hot", "0"), "the pages used last cannot be 0"),
        (("--buffer-entries", "100"), "a page access buffer of 100 entries in 4 ways"),
        (("--log-entries", "-1"), "--log-entries -1: the number lies between"),
        (("--thread", "9"), "nothing is known of the pages of thread 9"),
        (("--object", "nothing"), "nothing is known of the pages of bucket nothing"),
        (("--thread", "1", "--region", "r"), "one at a time"),
    ],
)
def test_bad_words_get_a_sentence(
    tmp_path: Path, stallscope: Callable[..., Ran], words: tuple[str, ...], said: str
) -> None:
    made = recording(tmp_path / "t", some(1, 100, 10))
    ran = stallscope("pages", made.path, *words)
    assert ran.status == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_machine_file_says_how_large_its_units_are(
    tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    made = recording(tmp_path / "t", some(1, 300, 40))
    cache = '[[cache]]\nname = "L1"\nsize = "32K"\nways = 8\nlatency = 4\n'
    machine = tmp_path / "small.toml"
    machine.write_text(
        f"{cache}[path]\nbuffer_entries = 16\nfilter_entries = 4\ntlb_entries = 8\ntlb_ways = 4\n"
    )
    small, usual = (
        json.loads(stallscope("pages", made.path, "--json", *words).stdout)
        for words in (("--machine", machine), ())
    )
    assert small["path_accuracy"]["reach_pages"] == 16
    assert usual["path_accuracy"]["reach_pages"] == 2048
    assert small["logged"] > usual["logged"]
    machine.write_text(f"{cache}[path]\nbuffer_ways = 3\n")
    ran = stallscope("pages", made.path, "--machine", machine)
    assert ran.status == 2
    assert "path.buffer_ways = 3 does not fit 2048 entries" in ran.stderr
