# SPDX-License-Identifier: Apache-2.0
"""Clusters of threads assigned to chips, with the load balanced, and the words that do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PlacedThread:
    thread: int
    name: str
    cluster: int | None  # number of it; None for a thread that is in none
    chip: int
    processor: int  # hardware thread, as the machine numbers them


def assign(
    clusters: Sequence[Sequence[int]],
    rest: Sequence[int],
    weight: Mapping[int, int],
    chips: int,
) -> dict[int, int]:
    """The chip of each thread. Clusters go, the heaviest first, to the chip with the least to do;
    one that would overload every chip is divided among as few as it needs. Then the threads of no
    cluster fill up."""
    load = [0.0] * chips
    fair = max(1, sum(weight.get(t, 1) for c in [*clusters, rest] for t in c)) / chips
    chip_of: dict[int, int] = {}

    def total(threads: Sequence[int]) -> int:
        return sum(weight.get(thread, 1) for thread in threads)

    for cluster in sorted(clusters, key=lambda c: (-total(c), list(c))):
        pending = sorted(cluster)
        while pending:
            chip = min(range(chips), key=lambda c: (load[c], c))
            heaviest = max(weight.get(thread, 1) for thread in pending)
            room = max(fair - load[chip] + heaviest / 2, heaviest)
            taken: list[int] = []
            for thread in pending:
                if total([*taken, thread]) <= room:
                    taken.append(thread)
            pending = [thread for thread in pending if thread not in taken]
            load[chip] += total(taken)
            chip_of |= dict.fromkeys(taken, chip)
    for thread in sorted(rest, key=lambda t: (-weight.get(t, 1), t)):
        chip = min(range(chips), key=lambda c: (load[c], c))
        load[chip] += weight.get(thread, 1)
        chip_of[thread] = chip
    return chip_of


def processors(
    chip_of: Mapping[int, int], weight: Mapping[int, int], cores: int, threads: int
) -> dict[int, int]:
    """A hardware thread for each thread: cores of its chip first, then their other threads, always
    where there is least to do."""
    placed: dict[int, int] = {}
    load: dict[int, float] = {}
    for thread in sorted(chip_of, key=lambda t: (-weight.get(t, 1), t)):
        first = chip_of[thread] * cores * threads
        order = [first + core * threads + way for way in range(threads) for core in range(cores)]
        best = min(order, key=lambda p: (load.get(p, 0), order.index(p)))
        load[best] = load.get(best, 0) + max(1, weight.get(thread, 1))
        placed[thread] = best
    return placed


def cpu_list(numbers: Sequence[int]) -> str:
    """0-3,8 of 0, 1, 2, 3, 8."""
    parts: list[str] = []
    ordered = sorted(set(numbers))
    at = 0
    while at < len(ordered):
        end = at
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        parts.append(str(ordered[at]) if end == at else f"{ordered[at]}-{ordered[end]}")
        at = end + 1
    return ",".join(parts)
