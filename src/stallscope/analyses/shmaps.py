# SPDX-License-Identifier: Apache-2.0
"""Signatures of what threads miss remotely (shMaps).

An shMap is a vector of 256 saturating 8-bit counters. A line's counter is chosen by a hash; a
filter that all threads of a process share lets one line through for each counter, the one that
missed first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

ENTRIES = 256
WORD = 2**64 - 1
MOST = 255  # of a counter


class Filter:
    """Which line each counter is for: claimed by the first miss, and never given up."""

    def __init__(self, line: int, salt: int = 0) -> None:
        self._bits = line.bit_length() - 1
        self._salt = salt
        self.lines: list[int | None] = [None] * ENTRIES

    def place(self, address: int) -> int:
        number = (address >> self._bits) + self._salt * 0x9E3779B97F4A7C15
        # Mixed twice: with another salt other lines must meet.
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            number = (number ^ (number & WORD) >> shift) * factor & WORD
        return (number >> 31) % ENTRIES

    def entry(self, address: int) -> int | None:
        """The counter of a line, or None when another line has it."""
        at = self.place(address)
        if self.lines[at] is None:
            self.lines[at] = address
        return at if self.lines[at] == address else None


@dataclass
class Maps:
    """The shMaps of some threads, as they fill. When a filter leaves threads undecided, another one
    is filled; what was counted so far is kept by line."""

    filter: Filter
    counts: dict[int, list[int]] = field(default_factory=dict)  # by thread
    kept: dict[int, dict[int, int]] = field(default_factory=dict)  # by thread and line, of before
    samples: int = 0
    rounds: int = 1

    def add(self, thread: int, address: int) -> None:
        self.samples += 1
        entry = self.filter.entry(address)
        if entry is None:
            return
        counters = self.counts.setdefault(thread, [0] * ENTRIES)
        if counters[entry] < MOST:
            counters[entry] += 1

    def begin_round(self, filter: Filter) -> None:
        self.kept = {thread: self.lines(thread) for thread in self.counts.keys() | self.kept}
        self.counts, self.filter = {}, filter
        self.rounds += 1

    def lines(self, thread: int) -> dict[int, int]:
        """Every count, by line."""
        found = dict(self.kept.get(thread, {}))
        for line, count in zip(self.filter.lines, self.counts.get(thread, []), strict=False):
            if line is not None and count:
                found[line] = found.get(line, 0) + count
        return found

    def columns(self, thread: int, without: Collection[int]) -> dict[int, int]:
        """As a picture shows them: one column for each counter."""
        found: dict[int, int] = {}
        for line, count in self.lines(thread).items():
            if line not in without:
                at = self.filter.place(line)
                found[at] = min(MOST, found.get(at, 0) + count)
        return found
