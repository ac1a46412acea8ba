# SPDX-License-Identifier: Apache-2.0
"""Phases: stretches of time in which a breakdown stays the same.

Rows are joined to their neighbours, the two most alike first, until no two neighbours are alike.
What is compared is the mean breakdown, the distance is the sum of differences relative to the
larger of the two, and a phase shorter than one in fifty of the run joins whatever is nearest to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

ALIKE = 0.25  # distance below which neighbours are one phase
SHORTEST = 0.02  # of all cycles


@dataclass(frozen=True)
class Phase:
    start: int  # cycle
    cycles: int
    instructions: int
    cpi: float
    completion_cpi: float
    causes: dict[str, float]  # CPI
    main: str  # the cause of most stalls


@dataclass
class _Part:
    cycles: int
    instructions: int
    sums: list[float]  # cycles by cause, completion last
    first: int  # row

    def mean(self) -> list[float]:
        return [value / max(1, self.instructions) for value in self.sums]

    def take(self, other: _Part) -> None:
        self.cycles += other.cycles
        self.instructions += other.instructions
        self.sums = [a + b for a, b in zip(self.sums, other.sums, strict=True)]


def _distance(a: _Part, b: _Part) -> float:
    x, y = a.mean(), b.mean()
    larger = max(sum(x), sum(y))
    return sum(abs(p - q) for p, q in zip(x, y, strict=True)) / larger if larger else 0.0


def phases(rows: Sequence[tuple[int, int, Sequence[float]]], causes: Sequence[str]) -> list[Phase]:
    """From (cycles, instructions, CPI by cause with completion last) of stretches of time."""
    parts = [
        _Part(cycles, instructions, [value * instructions for value in shape], at)
        for at, (cycles, instructions, shape) in enumerate(rows)
    ]
    return _named(_join(parts), rows, causes)


def _join(parts: list[_Part]) -> list[_Part]:
    """Neighbours in a linked list, the nearest pair first."""
    after = [*range(1, len(parts)), -1]
    before = list(range(-1, len(parts) - 1))
    version = [0] * len(parts)
    whole = sum(part.cycles for part in parts)
    queue: list[tuple[float, int, int, int, int]] = []

    def offer(left: int) -> None:
        right = after[left]
        if left < 0 or right < 0:
            return
        a, b = parts[left], parts[right]
        short = min(a.cycles, b.cycles) < SHORTEST * whole
        distance = _distance(a, b) * (0.1 if short else 1.0)
        heapq.heappush(queue, (distance, left, right, version[left], version[right]))

    for index in range(len(parts) - 1):
        offer(index)
    gone = set()
    while queue:
        distance, left, right, of_left, of_right = heapq.heappop(queue)
        if left in gone or right in gone:
            continue
        if (version[left], version[right]) != (of_left, of_right):
            continue
        if distance > ALIKE:
            break
        parts[left].take(parts[right])
        gone.add(right)
        version[left] += 1
        after[left] = after[right]
        if after[right] >= 0:
            before[after[right]] = left
        offer(left)
        if before[left] >= 0:
            offer(before[left])
    return [part for index, part in enumerate(parts) if index not in gone]


def _named(
    parts: Sequence[_Part],
    rows: Sequence[tuple[int, int, Sequence[float]]],
    causes: Sequence[str],
) -> list[Phase]:
    found, start = [], 0
    for part in parts:
        mean = part.mean()
        by_cause = dict(zip(causes, mean[:-1], strict=True))
        found.append(
            Phase(
                start=start,
                cycles=part.cycles,
                instructions=part.instructions,
                cpi=part.cycles / max(1, part.instructions),
                completion_cpi=mean[-1],
                causes=by_cause,
                main=max(by_cause, key=lambda cause: by_cause[cause]),
            )
        )
        start += part.cycles
    return found
