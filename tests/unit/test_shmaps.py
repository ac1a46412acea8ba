# SPDX-License-Identifier: Apache-2.0
"""Signatures of remote misses, and clusters of threads."""

from __future__ import annotations

import random

import pytest

from stallscope.analyses import placement, shmaps
from stallscope.analyses.false_sharing import kind_of, padded
from stallscope.analyses.shmaps import ENTRIES, MOST, Filter, Maps, cluster, detect

LINE = 128


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


def test_counters_saturate_and_small_counts_are_none() -> None:
    maps = filled([(1, 5)] * 300 + [(1, 6)] * 2)
    assert max(maps.counts[1]) == MOST
    assert maps.sparse(1) == {5 * LINE: MOST}
    assert len(maps.counts[1]) == ENTRIES


def test_similarity_is_the_dot_product() -> None:
    assert shmaps.similarity({1: 3, 2: 4}, {2: 5, 9: 7}) == 20


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
    verdict, maps = detect(drawn(groups, 200, seed), everybody, LINE, everybody)
    assert [list(group) for group in verdict.found.clusters] == sorted(groups)
    assert verdict.stable and verdict.samples < 200 * len(threads)
    pytest.importorskip("scipy")
    assert shmaps.hierarchical(maps, everybody, verdict.found) == sorted(groups)


def test_what_all_threads_touch_makes_no_cluster() -> None:
    samples = drawn([[1, 2, 3, 4]], 100, 1, shared_by_all=1.0)
    verdict, _ = detect(samples, [1, 2, 3, 4], LINE)
    assert verdict.found.clusters == ()


def test_a_thread_with_few_samples_is_undecided_and_one_by_itself_is_alone() -> None:
    samples = [(t, n % 4 + 10) for t in (1, 2) for n in range(80)]
    samples += [(3, n % 4 + 50) for n in range(80)] + [(4, 10)] * 5
    found = cluster(filled(samples), [1, 2, 3, 4])
    assert found.clusters == ((1, 2),) and found.alone == (3,) and found.undecided == (4,)


def test_threads_that_the_filter_starved_get_another_chance() -> None:
    noise = [(n, 9, n * 977 * LINE) for n in range(2000)]  # claims nearly every entry
    samples = noise[:700] + drawn([[1, 2], [3, 4]], 400, 3) + noise[700:]
    verdict, _ = detect(samples, [1, 2, 3, 4, 9], LINE, [1, 2, 3, 4])
    assert {(1, 2), (3, 4)} == set(verdict.found.clusters)


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
