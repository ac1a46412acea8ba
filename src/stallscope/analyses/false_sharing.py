# SPDX-License-Identifier: Apache-2.0
"""Lines that go from cache to cache: who reads and writes which bytes, and whether they share data
or only a line.

A miss is false when nobody else had written to the accessed bytes since the thread had last
accessed the line. A line is falsely shared when nearly all of its misses are false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NEARLY = 0.1  # of misses that may be of the other kind
WORD = 8
APART = 256  # bytes: no two lines of any machine here meet
ELSEWHERE = 1 << 62  # where nothing lies
FEW_MISSES = 20
FEW_ELEMENTS = 2  # of an array that are told one by one
FEW_CYCLES = 0.001  # of all, below which a line is not worth a word


@dataclass(frozen=True)
class LineUse:
    """One thread's part in a line."""

    thread: str
    reads: int
    writes: int
    misses: int
    bytes: str  # ranges in the line: 0-7, 16-23
    fields: list[str]
    code: list[str]  # function (file:line), the most frequent first


@dataclass(frozen=True)
class LineRow:
    object: str
    field: str  # the fields that are accessed, as far as they are known
    line: int  # address of its first byte
    threads: list[str]
    kind: str  # true, false or mixed
    misses: int  # that another cache served, or others had to hear of
    false_misses: int
    cycles: int  # waited for them
    code: list[str]  # where the misses are
    uses: list[LineUse]
    predicted_gain: float | None = None  # of all cycles, if the parts had lines of their own
    predicted_cycles: int | None = None  # the same, in cycles


@dataclass(frozen=True)
class Naming:
    """How things are called; all of it comes from tables."""

    threads: Mapping[int, str]
    operations: Mapping[int, tuple[str, str, int | None]]  # function, file, line
    object_of: Callable[[int, int], str]  # of a line and an offset in it
    field_of: Callable[[int, int], str]  # of a line and an offset in it; empty when unknown

    def code(self, operation: int) -> str:
        function, file, line = self.operations.get(operation, ("?", "", None))
        return f"{function} ({file.rsplit('/', 1)[-1]}:{line})" if line else function


def kind_of(misses: int, false_misses: int) -> str:
    if false_misses >= (1 - NEARLY) * misses:
        return "false"
    return "true" if false_misses <= NEARLY * misses else "mixed"


def line_rows(accesses: Iterable[Mapping[str, Any]], naming: Naming, cycles: int) -> list[LineRow]:
    """Of lines that were followed; `cycles` are those of the whole run. The costliest first."""
    by_line: dict[int, list[Mapping[str, Any]]] = {}
    for row in accesses:
        by_line.setdefault(row["line"], []).append(row)
    rows = [_row(line, parts, naming) for line, parts in by_line.items()]
    worth = [row for row in rows if _matters(row, cycles)]
    return sorted(worth, key=lambda row: (-row.cycles, -row.misses, row.line))


def _matters(row: LineRow, cycles: int) -> bool:
    return (
        len(row.threads) > 1
        and row.misses >= FEW_MISSES
        and (row.cycles >= FEW_CYCLES * cycles or row.misses >= 10 * FEW_MISSES)
    )


def _row(line: int, parts: list[Mapping[str, Any]], naming: Naming) -> LineRow:
    misses = sum(part["misses"] for part in parts)
    false_misses = sum(part["false_misses"] for part in parts)
    uses = [
        _use(line, thread, [part for part in parts if part["thread"] == thread], naming)
        for thread in sorted({part["thread"] for part in parts})
    ]
    fields = {name for use in uses for name in use.fields}
    return LineRow(
        object=", ".join(_objects(line, parts, naming)),
        field=", ".join(folded(fields)),
        line=line,
        threads=[use.thread for use in uses],
        kind=kind_of(misses, false_misses),
        misses=misses,
        false_misses=false_misses,
        cycles=sum(part["cycles"] for part in parts),
        code=_code(parts, naming, "misses"),
        uses=uses,
    )


def folded(fields: Iterable[str]) -> list[str]:
    """Sorted; many elements of one array are told by the first and the last."""
    arrays: dict[tuple[str, str], list[int]] = {}
    for name in fields:
        before, bracket, rest = name.rpartition("[")
        index, _, after = rest.partition("]")
        key, number = ((before, after), int(index)) if bracket else ((name, ""), -1)
        arrays.setdefault(key, []).append(number)
    found: list[str] = []
    for (before, after), numbers in arrays.items():
        few = sorted(numbers)
        if len(few) > FEW_ELEMENTS:
            found.append(f"{before}[{few[0]}…{few[-1]}]{after}")
        else:
            found += [before if n < 0 else f"{before}[{n}]{after}" for n in few]
    return sorted(found)


def _objects(line: int, parts: list[Mapping[str, Any]], naming: Naming) -> list[str]:
    """Those that cause the misses, the costliest first."""
    misses: dict[str, int] = {}
    for part in parts:
        if part["misses"]:
            name = naming.object_of(line, part["offset"])
            misses[name] = misses.get(name, 0) + part["misses"]
    total = sum(misses.values())
    ordered = sorted(misses, key=lambda name: (-misses[name], name))
    return [name for name in ordered if misses[name] >= NEARLY / 10 * total] or ["unknown"]


def _use(line: int, thread: int, parts: list[Mapping[str, Any]], naming: Naming) -> LineUse:
    touched = {
        byte for part in parts for byte in range(part["offset"], part["offset"] + part["size"])
    }
    fields = {naming.field_of(line, part["offset"]) for part in parts} - {""}
    return LineUse(
        thread=naming.threads.get(thread, str(thread)),
        reads=sum(part["count"] for part in parts if not part["writes"]),
        writes=sum(part["count"] for part in parts if part["writes"]),
        misses=sum(part["misses"] for part in parts),
        bytes=_ranges(touched),
        fields=sorted(fields),
        code=_code(parts, naming, "count"),
    )


def _code(parts: list[Mapping[str, Any]], naming: Naming, weight: str) -> list[str]:
    counts: dict[str, int] = {}
    for part in parts:
        if part[weight]:
            name = naming.code(part["operation"])
            counts[name] = counts.get(name, 0) + part[weight]
    return sorted(counts, key=lambda name: (-counts[name], name))


def _ranges(numbers: set[int]) -> str:
    parts, ordered = [], sorted(numbers)
    at = 0
    while at < len(ordered):
        end = at
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        parts.append(f"{ordered[at]}-{ordered[end]}" if end > at else str(ordered[at]))
        at = end + 1
    return ", ".join(parts)


Moved = tuple[tuple[int, tuple[int, ...]], ...]


def padded(accesses: Iterable[Mapping[str, Any]], lines: Iterable[int], size: int) -> Moved:
    """A layout in which the words of these lines that different threads use lie in lines of their
    own: each 64 bytes, and where their eight words go; 0 for one that stays."""
    wanted = set(lines)
    users: dict[int, set[int]] = {}  # threads, by the address of a word
    for row in accesses:
        if row["line"] not in wanted:
            continue
        first = (row["line"] + row["offset"]) // WORD * WORD
        for word in range(first, row["line"] + row["offset"] + row["size"], WORD):
            users.setdefault(word, set()).add(row["thread"])
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    chunks: dict[int, list[int]] = {}
    for word, threads in sorted(users.items()):
        part = (word // size, tuple(sorted(threads)))
        start = ELSEWHERE + numbers.setdefault(part, len(numbers)) * max(APART, size)
        chunk = chunks.setdefault(word // 64, [0] * 8)
        chunk[word % 64 // WORD] = start + word % size
    return tuple((chunk, tuple(to)) for chunk, to in sorted(chunks.items()))
