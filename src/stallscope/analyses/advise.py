# SPDX-License-Identifier: Apache-2.0
"""What to change: findings by the cycles that a replay with the change applied saves, and the other
layouts of data that are worth such a replay.

Here nothing is simulated: candidates go out, and whoever replays them hands back the cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stallscope.showing import Shown

LEAST = 0.01  # of the cycles that a change must save
MATTERS = 0.02  # of the latency of all misses, from which on an object is looked at
HOT = 0.1  # of the accesses to the field that is used most
LINE = 64
FEW_BLOCKS = 64  # of one site, below which they are no crowd
LARGEST_NODE = 256  # bytes of a block that is worth packing
MOST_COLUMNS = 4096  # of an array that is turned
FRESH = 0x30_0000_0000  # where nothing lies
PAGE = 4096
SIMPLER = 0.9  # a simpler change will do if it saves this part of what another one does


@dataclass(frozen=True)
class AdviceRow:
    rank: int
    kind: str
    object: str
    where: str
    evidence: str
    predicted_cycles_saved: int
    predicted_share: float
    how: str


@dataclass(frozen=True)
class Advise(Shown):
    recording: str
    machine: str
    cycles: int  # as it is
    tried: int  # changes that were replayed
    declined: list[str]  # what was replayed and does not pay, or could not be
    rows: list[AdviceRow]


@dataclass(frozen=True)
class Layout:
    """Of the elements of an object: (base, stride) of groups, (start, size, group, to) of parts."""

    element: int
    groups: tuple[tuple[int, int], ...]
    parts: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class Candidate:
    kind: str
    effort: int  # lower is simpler for the person who does it
    layout: Layout
    evidence: str
    how: str


@dataclass(frozen=True)
class Field:
    name: str
    offset: int
    size: int
    accesses: int


@dataclass(frozen=True)
class Data:
    """An object that costs something, as the candidates for its layout are made from it."""

    name: str
    kind: str  # heap or global
    type: str
    blocks: int
    bytes: int
    element: int
    elements: int  # in all
    share: float  # of the latency
    fields: tuple[Field, ...]

    @property
    def is_nodes(self) -> bool:
        """Each element is a block of its own."""
        return self.kind == "heap" and self.bytes < 2 * self.element * max(1, self.blocks)

    @property
    def hot(self) -> list[Field]:
        most = max((field.accesses for field in self.fields), default=0)
        return [field for field in self.fields if field.accesses > HOT * most]


def struct_candidates(data: Data) -> list[Candidate]:
    """Other orders of fields, and parts of elements in arrays of their own."""
    hot = data.hot
    cold = [field for field in data.fields if field not in hot]
    named = ", ".join(field.name for field in hot)
    found = []
    if len(hot) > 1 and cold and _lines(hot) > 1:
        found.append(
            Candidate(
                "reorder fields",
                1,
                _reordered(data, [*hot, *cold]),
                f"{named} of {data.type} are used together and lie on {_lines(hot)} lines",
                f"declare {named} of {data.type} one after the other, before the rest",
            )
        )
    used = sum(field.size for field in hot)
    if hot and cold and 2 * used <= data.element:
        found.append(
            Candidate(
                "split fields",
                3,
                _split(data, [hot, cold]),
                f"of the {data.element} bytes of {data.type}, {used} are used: {named}",
                f"keep {named} of {data.type} in an array of their own (aligned to {LINE} bytes), "
                "and the other fields in a second one",
            )
        )
    if len(hot) > 1 and not data.is_nodes and data.elements > LINE:
        found.append(
            Candidate(
                "struct of arrays",
                4,
                _split(data, [[field] for field in data.fields]),
                f"loops use single fields of {data.type} ({named}), {data.element} bytes apart",
                f"keep every field of {data.type} in an array of its own",
            )
        )
    return found


def node_candidates(data: Data) -> list[Candidate]:
    """Small blocks, each from malloc, in one pool."""
    size = -(-data.bytes // max(1, data.blocks))
    if data.kind != "heap" or data.blocks < FEW_BLOCKS or size > LARGEST_NODE:
        return []
    stride = _up(size, 8)
    layout = Layout(_up(size, 8), ((FRESH, stride),), ())
    return [
        Candidate(
            "pack blocks",
            2,
            layout,
            f"{data.blocks:,} blocks of {size} bytes, with headers and other blocks in between",
            f"allocate them from one pool (an array aligned to {LINE} bytes), one after the other",
        )
    ]


def array_candidates(data: Data, row: int, size: int) -> list[Candidate]:
    """An array that is read `row` bytes further each time, `size` bytes at once."""
    rows = data.bytes // max(1, data.blocks) // row if row else 0
    if rows < 8 or row < 2 * LINE or size <= 0 or row % size:
        return []
    evidence = f"read in steps of {row:,} bytes, {rows:,} times, {size} bytes at once"
    found = [
        Candidate(
            "pad an array",
            1,
            Layout(row, ((FRESH, row + LINE),), ()),
            evidence,
            f"make its rows {LINE} bytes longer: {row + LINE:,} instead of {row:,} bytes",
        )
    ]
    columns = row // size
    if columns <= MOST_COLUMNS:
        groups = tuple((FRESH + i * rows * size, size) for i in range(columns))
        parts = tuple((i * size, size, i, 0) for i in range(columns))
        found.append(
            Candidate(
                "turn an array",
                2,
                Layout(row, groups, parts),
                evidence,
                "keep it by columns, or exchange the loops, so that the next is read next",
            )
        )
    return found


def chosen(tried: Iterable[tuple[Candidate, int]], cycles: int) -> list[tuple[Candidate, int]]:
    """The candidates to advise, with the cycles that each saves: those that save clearly more than
    any that is simpler to do."""
    good = [(candidate, saved) for candidate, saved in tried if saved >= LEAST * cycles]
    kept: list[tuple[Candidate, int]] = []
    for candidate, saved in sorted(good, key=lambda one: (one[0].effort, -one[1])):
        if all(known < SIMPLER * saved for _, known in kept):
            kept.append((candidate, saved))
    return kept


def ranked(rows: Sequence[AdviceRow]) -> list[AdviceRow]:
    ordered = sorted(rows, key=lambda row: (-row.predicted_cycles_saved, row.kind, row.object))
    return [replace(row, rank=number) for number, row in enumerate(ordered, 1)]


def fields_of(
    shape: Sequence[tuple[str, int, int]], accesses: Mapping[int, int]
) -> tuple[Field, ...]:
    """With the accesses to their words. A field's first word may be shared with the one before."""
    found = []
    for name, offset, size in shape:
        words = range(offset // 8 * 8, offset + size, 8)
        found.append(Field(name, offset, size, sum(accesses.get(word, 0) for word in words)))
    return tuple(found)


def _lines(fields: Sequence[Field]) -> int:
    return len({field.offset // LINE for field in fields})


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _placed(fields: Sequence[Field]) -> tuple[list[int], int]:
    """Where fields begin one after the other, aligned as they were, and the bytes they take."""
    at, starts = 0, []
    for field in fields:
        align = next(a for a in (16, 8, 4, 2, 1) if field.offset % a == 0 and field.size % a == 0)
        at = _up(at, min(align, 8))
        starts.append(at)
        at += field.size
    return starts, _up(at, 8)


def _reordered(data: Data, fields: Sequence[Field]) -> Layout:
    starts, size = _placed(fields)
    parts = tuple(
        (field.offset, field.size, 0, at) for field, at in zip(fields, starts, strict=True)
    )
    return Layout(data.element, ((0, max(size, data.element)),), parts)


def _split(data: Data, groups: Sequence[Sequence[Field]]) -> Layout:
    base, made, parts = FRESH, [], []
    for number, fields in enumerate(groups):
        starts, size = _placed(fields)
        if len(fields) == 1:
            size = fields[0].size
        made.append((base, size))
        base = _up(base + size * data.elements, PAGE) + PAGE
        parts += [
            (field.offset, field.size, number, at) for field, at in zip(fields, starts, strict=True)
        ]
    return Layout(data.element, tuple(made), tuple(parts))
