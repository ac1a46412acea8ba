# SPDX-License-Identifier: Apache-2.0
"""What is compared of a run: small enough to be committed as a baseline, whole enough to say what
got worse and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stallscope.analyses.objects import MissView, objects, places

SCHEMA = "stallscope.baseline/1"
LINE = 64  # bytes; fields share a line of this size


class LevelMeasure(msgspec.Struct, frozen=True):
    level: str
    accesses: int
    misses: int


class Touch(msgspec.Struct, frozen=True):
    lines: int
    bytes: int


class ObjectMeasure(msgspec.Struct, frozen=True):
    object: str
    kind: str
    type: str
    blocks: int
    bytes: int
    misses: int
    latency: int  # cycles
    lines: int | None = None  # that were touched; None without a trace
    bytes_per_line: float | None = None  # of them, used


class FunctionMeasure(msgspec.Struct, frozen=True):
    function: str
    misses: int
    latency: int


class FieldMeasure(msgspec.Struct, frozen=True):
    name: str
    offset: int
    size: int


class StructMeasure(msgspec.Struct, frozen=True):
    struct: str
    size: int
    starts: list[int]  # where elements begin in their line
    fields: list[FieldMeasure]
    misses: int
    latency: int
    objects: list[str]

    def may_share_line(self, first: str, second: str) -> bool:
        """Whether some element had a byte of both in one line."""
        one, other = (self.field(name) for name in (first, second))
        if one is None or other is None:
            return False
        return any(
            (start + one.offset + one.size - 1) // LINE >= (start + other.offset) // LINE
            and (start + other.offset + other.size - 1) // LINE >= (start + one.offset) // LINE
            for start in self.starts or range(0, LINE, 8)
        )

    def field(self, name: str) -> FieldMeasure | None:
        return next((field for field in self.fields if field.name == name), None)


class Measures(msgspec.Struct, frozen=True):
    schema: str
    program: str
    machine: str
    level: str  # whose misses are counted
    threads: int
    instructions: int
    accesses: int
    misses: int
    latency: int
    levels: list[LevelMeasure]
    objects: list[ObjectMeasure]
    functions: list[FunctionMeasure]
    structs: list[StructMeasure]


def measure(
    view: MissView,
    program: str,
    threads: int,
    touched: Mapping[tuple[str, str], Touch],
    structs: Sequence[StructMeasure],
) -> Measures:
    """`touched` is by name and kind of object, and empty where there is no trace."""
    found = objects(view)
    functions = places(view, by_line=False)
    return Measures(
        schema=SCHEMA,
        program=program,
        machine=found.machine,
        level=found.level,
        threads=threads,
        instructions=view.instructions,
        accesses=view.accesses,
        misses=found.misses,
        latency=sum(row.latency for row in found.rows),
        levels=[LevelMeasure(row.level, row.accesses, row.misses) for row in found.levels],
        objects=[
            ObjectMeasure(
                row.object,
                row.kind,
                row.type,
                row.blocks,
                row.bytes,
                row.misses,
                row.latency,
                *_touch(touched.get((row.object, row.kind))),
            )
            for row in found.rows
        ],
        functions=[FunctionMeasure(r.function, r.misses, r.latency) for r in functions.rows],
        structs=list(structs),
    )


def _touch(touch: Touch | None) -> tuple[int | None, float | None]:
    if touch is None:
        return None, None
    return touch.lines, touch.bytes / max(1, touch.lines)
