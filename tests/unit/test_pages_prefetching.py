# SPDX-License-Identifier: Apache-2.0
"""Prefetching against a plain form of the same rules."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope._engine import EngineError, prefetching


class Naive:
    """Lists that are searched, newest last."""

    def __init__(self, kind: str, memory: int, most: int, degree: int, scan: int, depth: int):
        self.kind, self.memory, self.most = kind, memory, most
        self.degree, self.scan, self.depth = degree, scan, depth
        self.resident: list[int] = []
        self.stack: list[int] = []
        self.unused: set[int] = set()
        self.graph: dict[int, dict[int, int]] = {}
        self.faults = self.prefetched = self.wasted = 0

    def bring_in(self, page: int) -> None:
        if len(self.resident) == self.memory:
            victim = self.resident.pop(0)
            if victim in self.unused:
                self.unused.remove(victim)
                self.wasted += 1
        self.resident.append(page)

    def learn(self, page: int) -> None:
        place = self.stack.index(page) + 1
        window = self.stack[place : place + self.scan]
        old = self.graph.get(page, {})
        edges = {q: w + (1 if q in window else -1) for q, w in old.items()}
        edges = {q: w for q, w in sorted(edges.items(), key=lambda e: -e[1]) if w > 0}
        light = [q for q, w in edges.items() if w == 1]
        order = list(edges)
        for q in window:
            if q in old:
                continue
            if len(order) < self.degree:
                order.append(q)
            elif light:
                order[order.index(light.pop())] = q
            edges[q] = 1
        self.graph[page] = {q: edges[q] for q in order}

    def around(self, page: int) -> list[int]:
        if self.kind == "spatial":
            return [q for q in range(page + 1, page + self.most + 1) if q in self.stack]
        found = [page]
        level = [page]
        for _ in range(self.depth):
            following = []
            for p in level:
                for q in self.graph.get(p, {}):
                    if q not in found and len(found) <= self.most:
                        found.append(q)
                        following.append(q)
            level = following
        return found[1:]

    def access(self, page: int) -> None:
        if page in self.resident:
            self.unused.discard(page)
            self.resident.remove(page)
            self.resident.append(page)
        else:
            self.faults += 1
            if self.kind == "proximity" and page in self.stack:
                self.learn(page)
            self.bring_in(page)
            for q in self.around(page):
                if q in self.resident:
                    self.resident.remove(q)
                    self.resident.append(q)
                    continue
                if len(self.unused) >= max(1, self.memory // 10):
                    break
                self.bring_in(q)
                self.unused.add(q)
                self.prefetched += 1
        if page in self.stack:
            self.stack.remove(page)
        self.stack.append(page)


def runs(seed: int, most: int) -> list[int]:
    random = Random(seed)
    order = random.sample(range(most), most)
    pages: list[int] = []
    while len(pages) < 700:
        start, size = random.randrange(most), random.randrange(1, most + 1)
        run = [(start + i) % most for i in range(size)]
        pages += random.choice((run, [order[i] for i in run], [random.randrange(most)] * 3))
    return pages


@pytest.mark.parametrize("kind", ["spatial", "proximity"])
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    most_pages=st.integers(4, 60),
    memory=st.integers(1, 50),
    most=st.integers(1, 12),
    degree=st.integers(1, 5),
    scan=st.integers(1, 9),
    depth=st.integers(1, 4),
)
def test_faults_are_those_of_the_plain_form(
    kind: str,
    seed: int,
    most_pages: int,
    memory: int,
    most: int,
    degree: int,
    scan: int,
    depth: int,
) -> None:
    pages = runs(seed, most_pages)
    options = {"most": most, "degree": degree, "scan": scan, "depth": depth}
    naive = Naive(kind, memory, **options)
    for page in pages:
        naive.access(page)
    ours = prefetching(kind, memory, **options)
    ours.append(np.array(pages, np.uint64))
    counts = ours.counts()
    assert (counts["faults"], counts["prefetched"], counts["wasted"]) == (
        naive.faults,
        naive.prefetched,
        naive.wasted,
    )


def blocked_lu(size: int, block: int, page: int = 4096) -> np.ndarray:
    """Pages of a matrix by rows whose blocks are worked on: blocks are not contiguous."""
    blocks = size // block
    row_bytes = size * 8
    pages: list[int] = []

    def visit(i: int, j: int) -> None:
        start = i * block * row_bytes + j * block * 8
        pages.extend((start + row * row_bytes) // page for row in range(block))

    for k in range(blocks):
        for i in range(k, blocks):
            for j in range(k, blocks):
                visit(i, k)
                visit(k, j)
                visit(i, j)
    return np.array(pages, np.uint64)


def test_the_graph_removes_most_faults_of_lu_with_blocks_that_are_not_contiguous() -> None:
    pages = blocked_lu(4096, 128)  # rows of eight pages
    memory = len(np.unique(pages)) // 4
    faults = {}
    for kind in ("spatial", "proximity"):
        memories = prefetching(kind, memory)
        memories.append(pages)
        counts = memories.counts()
        faults[kind] = counts["faults"] / counts["faults_without"]
        assert counts["prefetched"] >= counts["used"] + counts["wasted"]
    assert faults["proximity"] < 0.5 < faults["spatial"]


def test_adapting_gives_up_what_is_not_used() -> None:
    random = Random(1)
    pages = np.array([random.randrange(4000) for _ in range(30_000)], np.uint64)
    plain, adapting = prefetching("spatial", 1000), prefetching("spatial", 1000, adapt=True)
    for memory in (plain, adapting):
        memory.append(pages)
    assert plain.counts()["reach"] == 64
    assert adapting.counts()["reach"] < 64


def test_dirty_pages_are_written_back() -> None:
    pages = np.tile(np.arange(100, dtype=np.uint64), 3)
    memory = prefetching("none", 10)
    memory.append(pages, np.ones(300, np.uint8))
    counts = memory.counts()
    assert counts["faults"] == counts["faults_without"] == 300
    assert counts["writebacks"] == counts["writebacks_without"] == 290


@pytest.mark.parametrize(
    ("kind", "memory", "options", "message"),
    [
        ("oracle", 10, {}, "there is no prefetching oracle"),
        ("spatial", 0, {}, "a memory of 0 pages"),
        ("proximity", 10, {"degree": 0}, "prefetching with no pages"),
        ("proximity", 10, {"unused_share": 0.0}, "a share of unused pages"),
    ],
)
def test_what_cannot_prefetch_is_refused(
    kind: str, memory: int, options: dict[str, float], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        prefetching(kind, memory, **options)  # type: ignore[arg-type]
