# SPDX-License-Identifier: Apache-2.0
"""The text of source files that a recording names, as far as it is still there.

Names of files come from debug information, which anybody may have written: only files that look
like source code are read, and only so much of them.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

SUFFIXES = frozenset(
    f".{suffix}"
    for suffixes in (
        "c cc cpp cxx c++ h hh hpp hxx inc inl tcc ipp m mm cu cuh y l rs go zig d nim swift v",
        "f for f90 f95 adb ads pas ml py pyx s S asm",
    )
    for suffix in suffixes.split()
)
MOST_BYTES = 4_000_000  # of a file
WHOLE = 1500  # lines up to which a file is shown from the first to the last
AROUND = 20  # lines before and after one that matters, in longer files
WIDEST = 400  # characters of a line


@dataclass(frozen=True)
class Piece:
    """Lines of a file that follow each other."""

    first: int
    lines: list[str]


@dataclass(frozen=True)
class Source:
    file: str  # as the recording names it
    path: str | None  # where it was found; None: it was not
    newer: bool  # changed since the recording was made
    lines: int
    pieces: list[Piece]


def read_source(
    file: str, wanted: Collection[int], folders: Sequence[Path] = (), made: float = 0.0
) -> Source:
    """The file around the wanted lines; `made` is when the program was recorded."""
    for path in _places(file, folders):
        text = _text(path)
        if text is None:
            continue
        lines = [line[:WIDEST] for line in text.splitlines()]
        newer = bool(made) and path.stat().st_mtime > made
        return Source(file, str(path), newer, len(lines), _pieces(lines, wanted))
    return Source(file, None, False, 0, [])


def _places(file: str, folders: Sequence[Path]) -> Iterable[Path]:
    pure = PurePath(file)
    if pure.suffix not in SUFFIXES or "\0" in file:
        return
    if pure.is_absolute():
        yield Path(file)
    parts = [part for part in pure.parts if part not in ("/", ".", "..")]
    for folder in folders:
        for start in range(len(parts)):
            yield folder.joinpath(*parts[start:])


def _text(path: Path) -> str | None:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None


def _pieces(lines: list[str], wanted: Collection[int]) -> list[Piece]:
    if len(lines) <= WHOLE:
        return [Piece(1, lines)]
    spans: list[list[int]] = []
    for line in sorted(number for number in wanted if 1 <= number <= len(lines)):
        first, last = max(1, line - AROUND), min(len(lines), line + AROUND)
        if spans and first <= spans[-1][1] + 1:
            spans[-1][1] = last
        else:
            spans.append([first, last])
    return [Piece(first, lines[first - 1 : last]) for first, last in spans]
