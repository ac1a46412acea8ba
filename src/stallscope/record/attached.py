# SPDX-License-Identifier: Apache-2.0
"""Watched words of a process that runs already: breakpoints of the processor, set from outside.
Nothing is injected and nothing is held up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.record.life import check_ours
from stallscope.record.watch_spec import range_lines

MOST = 4
SIZES = (1, 2, 4, 8)
READS = 1
# As the engine has them.
REGISTERS = (
    *("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "rip"),
    *(f"r{i}" for i in range(8, 16)),
)


@dataclass(frozen=True)
class Word:
    start: int
    bytes: int
    watch: int  # number of its target


@dataclass(frozen=True)
class WordHit:
    time: int  # nanoseconds since the beginning
    ip: int  # behind the instruction
    word: Word
    thread: int
    registers: dict[str, int]
    # What the word held when we heard of it, a moment later; None where it was accessed again.
    held: bytes | None


class AttachedWatch:
    def __init__(self, pid: int, targets: Sequence[str], kind: int) -> None:
        """`kind`: 1 reads, 2 writes, 3 both."""
        check_ours(pid)
        self.pid = pid
        self.words = _words(pid, targets, kind)
        self.began = time.monotonic_ns()
        wanted = [(word.start, word.bytes, bool(kind & READS)) for word in self.words]
        try:
            self._breakpoints = _engine.Breakpoints(pid, wanted)
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error

    @property
    def lost(self) -> int:
        return self._breakpoints.lost

    def take(self) -> Iterator[WordHit]:
        """What was accessed since, in its order."""
        hits = self._breakpoints.poll()
        newest = {word: number for number, (_, _, word, _, _) in enumerate(hits)}
        for number, (when, ip, word, thread, registers) in enumerate(hits):
            one = self.words[word]
            held = self._read(one) if newest[word] == number else None
            named = dict(zip(REGISTERS, registers, strict=True))
            yield WordHit(max(when - self.began, 0), ip, one, thread, named, held)

    def _read(self, word: Word) -> bytes | None:
        try:
            with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
                return os.pread(memory.fileno(), word.bytes, word.start)
        except OSError:
            return None


def _words(pid: int, targets: Sequence[str], kind: int) -> list[Word]:
    try:
        program = Path(f"/proc/{pid}/exe").resolve(strict=True)
        base = _base(Path(f"/proc/{pid}/maps").read_text(errors="replace"), program)
    except OSError as error:
        raise StallscopeError(f"process {pid} cannot be looked at", error.strerror or "") from error
    words = []
    for line in range_lines(program, targets, kind):
        where, start, size, watch, _ = line.split()
        address = int(start, 16) + (base if where == "exe" else 0)
        words.append(Word(address, int(size), int(watch)))
    fits = all(word.bytes in SIZES and word.start % word.bytes == 0 for word in words)
    if not words or len(words) > MOST or not fits:
        raise StallscopeError(
            "a process that runs is watched by breakpoints: up to four words of 1, 2, 4 or 8 "
            "aligned bytes",
            f"these are {len(words):,} ranges, the largest of "
            f"{max((word.bytes for word in words), default=0):,} bytes",
            "--source live -- PROGRAM watches any number",
        )
    return words


def _base(maps: str, program: Path) -> int:
    for line in maps.splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[5] == str(program) and int(words[2], 16) == 0:
            return int(words[0].partition("-")[0], 16)
    return 0
