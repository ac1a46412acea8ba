# SPDX-License-Identifier: Apache-2.0
"""Signatures of remote misses, and clusters of threads."""

from __future__ import annotations

import math
import random

import pytest

from stallscope.analyses import placement
from stallscope.analyses.detection import detect
from stallscope.analyses.false_sharing import folded, kind_of, padded
from stallscope.analyses.shmaps import ENTRIES, MOST, Filter, Maps
from stallscope.analyses.thread_clusters import (
    Counts,
    cluster,
    divergence,
    hierarchical,
    similarities,
)

LINE = 128
NEVER = 2**63


def filled(samples: list[tuple[int, int]]) -> Maps:
    """Maps of (thread, line number)."""
    maps = Maps(Filter(LINE))
    for thread, line in samples:
        maps.add(thread, line * LINE)
    return maps


def drawn(
    groups: list[list[int]], per_thread: int, seed: int, shared_by_all: float = 0.2
) -> list[tuple[int, int, int]]:
    """Samples of threads that use eight lines of their group and one of all."""
    chance = random.Random(seed)
    found = []
    for _ in range(per_thread):
        for number, group in enumerate(groups):
            for thread in group:
                everybody = chance.random() < shared_by_all
                line = 999 if everybody else 1000 * (number + 1) + chance.randrange(8)
                found.append((len(found), thread, line * LINE))
    return found


def test_an_entry_belongs_to_the_line_that_missed_first() -> None:
    chosen = Filter(LINE)
    entry = chosen.entry(5 * LINE)
    other = next(n for n in range(6, 10_000) if Filter(LINE).entry(n * LINE) == entry)
    assert entry is not None and chosen.entry(other * LINE) is None
    assert chosen.entry(5 * LINE) == entry


def test_counters_saturate() -> None:
    maps = filled([(1, 5)] * 300 + [(1, 6)] * 2)
    assert max(maps.counts[1]) == MOST
    assert maps.lines(1) == {5 * LINE: MOST, 6 * LINE: 2}
    assert len(maps.counts[1]) == ENTRIES


def test_similarity_is_a_dot_product_in_which_common_lines_weigh_less() -> None:
    counts = Counts({1: {5: 3, 6: 4}, 2: {6: 5, 9: 7}, 3: {9: 1, 11: 8}})
    assert similarities(counts.table).tolist() == [[0, 20 / 8, 0], [20 / 8, 0, 7 / 7], [0, 1, 0]]


@pytest.mark.parametrize("sizes", [(4, 4), (6, 2), (12, 4), (2, 2, 12), (8, 8, 8, 8), (40, 8, 16)])
@pytest.mark.parametrize("seed", range(5))
def test_groups_are_found_also_one_of_more_than_half_of_the_threads(
    sizes: tuple[int, ...], seed: int
) -> None:
    threads = list(range(1, sum(sizes) + 1))
    random.Random(seed).shuffle(threads)
    groups, at = [], 0
    for size in sizes:
        groups.append(sorted(threads[at : at + size]))
        at += size
    everybody = sorted(threads)
    verdict, maps = detect(
        drawn(groups, 200, seed), everybody, LINE, dict.fromkeys(everybody, NEVER)
    )
    assert [list(group) for group in verdict.found.clusters] == sorted(groups)
    assert verdict.stable and verdict.samples < 200 * len(threads)
    pytest.importorskip("scipy")
    assert hierarchical(maps, everybody, verdict.found) == sorted(groups)


def test_what_all_threads_touch_makes_no_cluster() -> None:
    samples = drawn([[1, 2, 3, 4]], 100, 1, shared_by_all=1.0)
    verdict, _ = detect(samples, [1, 2, 3, 4], LINE)
    assert verdict.found.clusters == ()


@pytest.mark.parametrize(("threads", "lines"), [(4, 3), (8, 30), (8, 400), (24, 30)])
@pytest.mark.parametrize("seed", range(6))
def test_threads_that_all_use_the_same_make_no_cluster(threads: int, lines: int, seed: int) -> None:
    chance = random.Random(seed)
    everybody = list(range(1, threads + 1))
    samples = [
        (at, chance.choice(everybody), int(chance.random() ** 2 * lines) * LINE)
        for at in range(150 * threads)
    ]
    verdict, _ = detect(samples, everybody, LINE)
    assert verdict.found.clusters == ()


def test_groups_are_found_below_what_everybody_shares() -> None:
    groups = [[1, 2, 3, 4], [5, 6, 7, 8]]
    for seed in range(5):
        samples = drawn(groups, 400, seed, shared_by_all=0.8)
        verdict, _ = detect(samples, range(1, 9), LINE, dict.fromkeys(range(1, 9), NEVER))
        assert [list(group) for group in verdict.found.clusters] == groups


def test_a_thread_with_few_samples_is_undecided_and_one_by_itself_is_alone() -> None:
    samples = [(t, n % 4 + 10) for t in (1, 2) for n in range(80)]
    samples += [(3, n % 4 + 50) for n in range(80)] + [(4, 10)] * 5
    found = cluster(filled(samples), [1, 2, 3, 4])
    assert found.clusters == ((1, 2),) and found.alone == (3,) and found.undecided == (4,)


@pytest.mark.parametrize("meetings", [12, 24, 60])
@pytest.mark.parametrize("seed", range(8))
def test_a_thread_that_touches_every_groups_data_belongs_to_none(meetings: int, seed: int) -> None:
    """As the first thread does, which made it all and sums up the results."""
    groups = [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13], [14, 15, 16, 17]]
    chance = random.Random(seed)
    own = [(1, 1000 * chance.randint(1, 4) + chance.randrange(8)) for _ in range(meetings)]
    own += [(1, 9000 + n) for n in range(40)]  # nobody else's
    samples = [(thread, line // LINE) for _, thread, line in drawn(groups, 100, seed)] + own
    found = cluster(filled(samples), range(1, 18))
    assert [list(group) for group in found.clusters] == groups
    assert found.alone + found.undecided == (1,)


def test_how_surely_a_thread_belongs_grows_with_its_samples() -> None:
    assert divergence(1.0, 0.5) == pytest.approx(math.log(2))
    assert divergence(0.75, 0.25) == pytest.approx(0.75 * math.log(3) + 0.25 * math.log(1 / 3))
    groups = ((1, 2, 3, 4, 5, 6), (7, 8))
    many = [
        (t, 10 * at + n % 4) for at, group in enumerate(groups) for t in group for n in range(80)
    ]
    for count, first in ((14, groups[0]), (60, (*groups[0], 9))):
        more = [(9, n % 4) for n in range(count)]
        assert cluster(filled(many + more), range(1, 10)).clusters == (first, (7, 8))


def test_threads_that_the_filter_starved_get_another_chance() -> None:
    noise = [(n, 9, n * 977 * LINE) for n in range(2000)]  # claims nearly every entry
    samples = noise[:700] + drawn([[1, 2], [3, 4]], 400, 3) + noise[700:]
    verdict, _ = detect(samples, [1, 2, 3, 4, 9], LINE, dict.fromkeys([1, 2, 3, 4], NEVER))
    assert {(1, 2), (3, 4)} == set(verdict.found.clusters)


def test_lines_that_met_in_one_filter_part_in_the_next() -> None:
    first, second = Filter(LINE), Filter(LINE, 1)
    met = [n for n in range(1, 20_000) if first.place(n * LINE) == first.place(0)]
    again = [n for n in met if second.place(n * LINE) == second.place(0)]
    assert len(met) > 40 and len(again) < len(met) / 10


def test_no_verdict_comes_from_looks_that_span_less_than_a_rotation() -> None:
    groups = [[1, 2], [3, 4]]
    samples, end = drawn(groups, 400, 1), dict.fromkeys([1, 2, 3, 4], NEVER)
    soon, _ = detect(samples, [1, 2, 3, 4], LINE, end)
    late, _ = detect(samples, [1, 2, 3, 4], LINE, end, rotation=600)
    assert soon.instruction < 600 and 1200 <= late.instruction < 1600 and late.stable
    # In the first rotation 1 and 2 are on one chip, and like nobody.
    apart = [one for one in samples if one[1] > 2 or one[0] >= 600]
    late, _ = detect(apart, [1, 2, 3, 4], LINE, end, rotation=600)
    assert late.found.clusters == ((1, 2), (3, 4))


def test_a_line_that_only_joins_groups_is_global_also_if_half_of_the_threads_use_it() -> None:
    groups = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    half = {1, 2, 5, 6, 9, 10}
    samples = [
        (at, thread, 999 * LINE if thread in half and at % 24 < 12 else address)
        for at, thread, address in drawn(groups, 300, 2, shared_by_all=0)
    ]
    threads = list(range(1, 13))
    verdict, _ = detect(samples, threads, LINE, dict.fromkeys(threads, NEVER))
    assert 999 * LINE in verdict.found.global_lines
    assert [list(group) for group in verdict.found.clusters] == groups
    # One that a group has nothing else than is its own.
    only = [(at, at % 4 + 1, 7 * LINE) for at in range(400)]
    other = [(at, at % 8 + 5, (20 + at % 3) * LINE) for at in range(400)]
    verdict, _ = detect(sorted([*only, *other]), threads, LINE, dict.fromkeys(threads, NEVER))
    assert verdict.found.clusters == ((1, 2, 3, 4), (5, 6, 7, 8, 9, 10, 11, 12))
    assert not verdict.found.global_lines


def test_threads_that_ended_are_not_waited_for() -> None:
    samples = [(0, 5, 50 * LINE)] * 3 + drawn([[1, 2], [3, 4]], 200, 1)
    threads = [1, 2, 3, 4, 5]
    waiting, _ = detect(samples, threads, LINE, dict.fromkeys(threads, NEVER))
    done, _ = detect(samples, threads, LINE, dict.fromkeys(threads, NEVER) | {5: 10})
    assert not waiting.stable and done.stable and done.found.undecided == (5,)


def test_clusters_are_spread_over_chips_with_the_load_balanced() -> None:
    weight = dict.fromkeys(range(1, 9), 100)
    chips = placement.assign([(1, 2, 3, 4), (5, 6, 7, 8)], [], weight, 2)
    assert {chips[t] for t in (1, 2, 3, 4)} != {chips[t] for t in (5, 6, 7, 8)}
    split = placement.assign([(1, 2, 3, 4, 5, 6), (7, 8)], [9], weight | {9: 1}, 2)
    assert sorted(list(split.values()).count(c) for c in (0, 1)) == [4, 5]
    assert split[7] == split[8]
    where = placement.processors(chips, weight, 2, 2)
    assert len(set(where.values())) == 8
    assert all(where[t] // 4 == chips[t] for t in where)


def test_cpu_lists_are_short() -> None:
    assert placement.cpu_list([3, 0, 1, 2, 8, 8]) == "0-3,8"
    assert placement.cpu_list([]) == ""


def test_lines_are_judged_by_their_misses() -> None:
    assert [kind_of(100, n) for n in (100, 95, 50, 5, 0)] == [
        "false", "false", "mixed", "true", "true"]  # fmt: skip


def test_many_elements_of_an_array_are_told_by_the_first_and_the_last() -> None:
    assert folded(["end", "log[8]", "log[0]", "log[16]"]) == ["end", "log[0…16]"]
    assert folded(["at[1].x", "at[0].x", "at[1].y"]) == ["at[0].x", "at[1].x", "at[1].y"]


def test_padding_gives_words_of_different_threads_lines_of_their_own() -> None:
    def access(thread: int, offset: int) -> dict[str, int]:
        return {"line": 0x1000, "thread": thread, "offset": offset, "size": 8}

    rows = [access(1, 0), access(2, 8), access(1, 16), access(1, 24), access(2, 24)]
    ((chunk, to),) = padded(rows, [0x1000], LINE)
    assert chunk == 0x1000 // 64
    lines = [word // LINE for word in to[:4]]
    assert lines[0] == lines[2] and len({lines[0], lines[1], lines[3]}) == 3
    assert to[4:] == (0, 0, 0, 0) and [word % LINE for word in to[:4]] == [0, 8, 16, 24]
    assert padded(rows, [0x2000], LINE) == ()
