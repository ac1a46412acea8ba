# SPDX-License-Identifier: Apache-2.0
"""Replacement policies as their papers put them, with lists that are searched: slow and plain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def lru(pages: Sequence[int], memory: int) -> int:
    order: list[int] = []
    misses = 0
    for page in pages:
        if page in order:
            order.remove(page)
        else:
            misses += 1
            if len(order) == memory:
                order.pop(0)
        order.append(page)
    return misses


def mru(pages: Sequence[int], memory: int) -> int:
    order: list[int] = []
    misses = 0
    for page in pages:
        if page in order:
            order.remove(page)
        else:
            misses += 1
            if len(order) == memory:
                order.pop()
        order.append(page)
    return misses


def clock(pages: Sequence[int], memory: int) -> int:
    """As a queue: the hand is at its front, a spared page goes to its end."""
    queue: list[int] = []
    marked: set[int] = set()
    misses = 0
    for page in pages:
        if page in queue:
            marked.add(page)
            continue
        misses += 1
        if len(queue) == memory:
            while queue[0] in marked:
                marked.remove(queue[0])
                queue.append(queue.pop(0))
            queue.pop(0)
        queue.append(page)
    return misses


def belady(pages: Sequence[int], memory: int) -> int:
    resident: set[int] = set()
    misses = 0
    for now, page in enumerate(pages):
        if page in resident:
            continue
        misses += 1
        if len(resident) == memory:
            rest = list(pages[now:])
            resident.remove(max(resident, key=lambda p: rest.index(p) if p in rest else len(pages)))
        resident.add(page)
    return misses


def arc(pages: Sequence[int], c: int) -> int:
    t1: list[int] = []
    t2: list[int] = []
    b1: list[int] = []
    b2: list[int] = []
    p = 0.0
    misses = 0

    def replace(in_b2: bool) -> None:
        if t1 and (len(t1) > p or (in_b2 and len(t1) == p)):
            b1.append(t1.pop(0))
        else:
            b2.append(t2.pop(0))

    for page in pages:
        if page in t1 or page in t2:
            (t1 if page in t1 else t2).remove(page)
            t2.append(page)
            continue
        misses += 1
        if page in b1:
            p = min(p + max(1.0, len(b2) / len(b1)), c)
            replace(False)
            b1.remove(page)
            t2.append(page)
        elif page in b2:
            p = max(p - max(1.0, len(b1) / len(b2)), 0)
            replace(True)
            b2.remove(page)
            t2.append(page)
        else:
            if len(t1) + len(b1) == c:
                if len(t1) < c:
                    b1.pop(0)
                    replace(False)
                else:
                    t1.pop(0)
            elif len(t1) + len(t2) + len(b1) + len(b2) >= c:
                if len(t1) + len(t2) + len(b1) + len(b2) == 2 * c:
                    b2.pop(0)
                replace(False)
            t1.append(page)
    return misses


class _S3Fifo:
    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.small_size = max(1, memory // 10)
        self.main_size = memory - self.small_size
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghost: list[int] = []
        self.references: dict[int, int] = {}

    def remember(self, page: int) -> None:
        if len(self.ghost) == self.main_size:
            self.ghost.pop(0)
        self.ghost.append(page)

    def evict_main(self) -> None:
        while True:
            page = self.main.pop(0)
            if self.references[page] == 0:
                return
            self.references[page] -= 1
            self.main.append(page)

    def evict_small(self, at_once: bool) -> None:
        """at_once: a main queue that became too long gives up a page, and that is enough."""
        while self.small:
            page = self.small.pop(0)
            if self.references[page] <= 1:
                self.remember(page)
                return
            self.references[page] = 0
            self.main.append(page)
            if at_once and len(self.main) > self.main_size:
                self.evict_main()
                return
        if at_once:
            self.evict_main()


def s3_fifo(pages: Sequence[int], memory: int) -> int:
    queues = _S3Fifo(memory)
    misses = 0
    for page in pages:
        if page in queues.small or page in queues.main:
            queues.references[page] = min(queues.references[page] + 1, 3)
            continue
        misses += 1
        if len(queues.small) + len(queues.main) == memory:
            if len(queues.small) >= queues.small_size:
                queues.evict_small(at_once=True)
            else:
                queues.evict_main()
        if page in queues.ghost:
            queues.ghost.remove(page)
            queues.main.append(page)
        else:
            queues.small.append(page)
        queues.references[page] = 0
    return misses


def s3_fifo_of_libcachesim(pages: Sequence[int], memory: int) -> int:
    """Until the first eviction it fills the main queue when the small one is full; a page is taken
    from the remembered ones before room is made; the main queue gives up pages only when it is too
    long or the small one is empty. Its small queue may have no room at all."""
    queues = _S3Fifo(memory)
    queues.small_size = memory // 10
    queues.main_size = memory - queues.small_size
    misses = 0
    evicted = False
    for page in pages:
        if page in queues.small or page in queues.main:
            queues.references[page] = min(queues.references[page] + 1, 3)
            continue
        misses += 1
        remembered = page in queues.ghost
        if remembered:
            queues.ghost.remove(page)
        while len(queues.small) + len(queues.main) >= memory:
            evicted = True
            if len(queues.main) > queues.main_size or not queues.small:
                queues.evict_main()
            else:
                queues.evict_small(at_once=False)
        full = not evicted and len(queues.small) >= queues.small_size
        (queues.main if remembered or full else queues.small).append(page)
        queues.references[page] = 0
    return misses


class _Lirs:
    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.hirs = max(1, memory // 100)
        self.lirs = memory - self.hirs
        self.stack: list[int] = []  # bottom first
        self.queue: list[int] = []
        self.lir: set[int] = set()

    def to_top(self, page: int) -> None:
        if page in self.stack:
            self.stack.remove(page)
        self.stack.append(page)

    def prune(self) -> None:
        while self.stack[0] not in self.lir:
            self.stack.pop(0)

    def promote(self, page: int) -> None:
        self.lir.add(page)
        if len(self.lir) > self.lirs:
            bottom = self.stack.pop(0)
            self.lir.remove(bottom)
            self.queue.append(bottom)
            self.prune()

    def limit(self) -> None:
        gone = [p for p in self.stack if p not in self.lir and p not in self.queue]
        while len(self.stack) > 2 * self.memory and gone:
            self.stack.remove(gone.pop(0))

    def access(self, page: int) -> bool:
        if page in self.lir:
            self.to_top(page)
            self.prune()
            return True
        hit = page in self.queue
        in_stack = page in self.stack
        if hit:
            self.queue.remove(page)
        elif len(self.lir) + len(self.queue) == self.memory:
            self.queue.pop(0)
        self.to_top(page)
        if in_stack:
            self.promote(page)
        elif not hit and len(self.lir) < self.lirs:
            self.lir.add(page)
        else:
            self.queue.append(page)
        self.limit()
        return hit


def lirs(pages: Iterable[int], memory: int) -> int:
    model = _Lirs(memory)
    return sum(not model.access(page) for page in pages)


class _LirsOfLibcachesim(_Lirs):
    """A hit on an HIR page outside of the stack costs a LIR page, which the set gets back from
    pages that are new. Where the queue has no room for it, the page just hit may itself be thrown
    out, and still counts as in memory for as long as it is in the stack."""

    def __init__(self, memory: int) -> None:
        super().__init__(memory)
        self.phantoms: set[int] = set()

    def demote(self) -> None:
        bottom = self.stack.pop(0)
        self.lir.remove(bottom)
        while len(self.queue) + 1 > self.hirs:
            self.queue.pop(0)
        self.queue.append(bottom)
        self.prune()

    def prune(self) -> None:
        while len(self.stack) > 1 and self.stack[0] not in self.lir:
            self.phantoms.discard(self.stack.pop(0))

    def limit(self) -> None:
        there = self.lir.union(self.queue, self.phantoms)
        gone = [p for p in self.stack if p not in there]
        while len(self.stack) > 2 * self.memory and gone:
            self.stack.remove(gone.pop(0))

    def access(self, page: int) -> bool:
        hit = self.reference(page)
        self.limit()
        return hit

    def reference(self, page: int) -> bool:
        in_stack, in_queue = page in self.stack, page in self.queue
        hit = in_queue or page in self.phantoms
        if in_stack:
            self.to_top(page)
        if in_queue:
            self.queue.remove(page)
        if page in self.lir:
            self.prune()
            return True
        if in_queue and not in_stack:
            self.queue.append(page)
        if in_stack or in_queue:
            while len(self.lir) + 1 > self.lirs:
                self.demote()
            self.phantoms.discard(page)
            if in_stack:
                self.lir.add(page)
            else:
                self.stack.append(page)
                if page not in self.queue:
                    self.phantoms.add(page)
            return hit
        if len(self.lir) < self.lirs:
            self.lir.add(page)
        else:
            while len(self.queue) + 1 > self.hirs:
                self.queue.pop(0)
            self.queue.append(page)
        self.stack.append(page)
        return False


def lirs_of_libcachesim(pages: Iterable[int], memory: int) -> int:
    model = _LirsOfLibcachesim(memory)
    return sum(not model.access(page) for page in pages)


POLICIES: dict[str, Callable[[Sequence[int], int], int]] = {
    "lru": lru,
    "clock": clock,
    "mru": mru,
    "lirs": lirs,
    "arc": arc,
    "s3-fifo": s3_fifo,
    "belady": belady,
}
