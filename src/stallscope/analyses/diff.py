# SPDX-License-Identifier: Apache-2.0
"""Two runs beside each other: which objects, functions and structs got better or worse.

Objects are matched by name, and where lines of the source have moved, by the functions that
allocated them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stallscope.analyses.measures import (
    FieldMeasure,
    FunctionMeasure,
    Measures,
    ObjectMeasure,
    StructMeasure,
)
from stallscope.showing import Shown

_LINE = re.compile(r":\d+(?=\))")
SAME = 0.001  # of the cycles before: less is no change
One = TypeVar("One")


@dataclass(frozen=True)
class ObjectChange:
    object: str
    kind: str
    state: str  # better, worse, same, new or gone
    misses_before: int
    misses_after: int
    latency_before: int
    latency_after: int
    change: int  # of the latency
    share: float  # of the latency of the whole run before


@dataclass(frozen=True)
class FunctionChange:
    function: str
    state: str
    misses_before: int
    misses_after: int
    latency_before: int
    latency_after: int
    change: int


@dataclass(frozen=True)
class StructChange:
    struct: str
    size_before: int
    size_after: int
    fields: list[str]  # what became of fields, in words
    latency_before: int
    latency_after: int
    change: int


@dataclass(frozen=True)
class LevelChange:
    level: str
    misses_before: int
    misses_after: int
    change: int


@dataclass(frozen=True)
class Diff(Shown):
    before: str
    after: str
    machine: str
    level: str
    instructions_before: int
    instructions_after: int
    latency_before: int
    latency_after: int
    change: int
    ratio: float | None
    levels: list[LevelChange]
    rows: list[ObjectChange]
    functions: list[FunctionChange]
    structs: list[StructChange]


def diff(before: Measures, after: Measures) -> Diff:
    return Diff(
        before=before.program,
        after=after.program,
        machine=after.machine,
        level=after.level,
        instructions_before=before.instructions,
        instructions_after=after.instructions,
        latency_before=before.latency,
        latency_after=after.latency,
        change=after.latency - before.latency,
        ratio=after.latency / before.latency if before.latency else None,
        levels=[
            LevelChange(old.level, old.misses, new.misses, new.misses - old.misses)
            for old, new in matched(before.levels, after.levels, lambda one: one.level)
            if old is not None and new is not None
        ],
        rows=object_changes(before, after),
        functions=function_changes(before, after),
        structs=struct_changes(before.structs, after.structs),
    )


def matched(
    before: Sequence[One], after: Sequence[One], name: Callable[[One], str]
) -> list[tuple[One | None, One | None]]:
    """Pairs of the same name; of what is left, of the same functions, in their order."""
    pairs: list[tuple[One | None, One | None]] = []
    left, right = list(before), list(after)
    for key in (name, lambda one: _LINE.sub("", name(one))):
        waiting: dict[str, list[One]] = {}
        for one in left:
            waiting.setdefault(key(one), []).append(one)
        unmatched = []
        for other in right:
            found = waiting.get(key(other))
            if found:
                pairs.append((found.pop(0), other))
            else:
                unmatched.append(other)
        left, right = [one for rest in waiting.values() for one in rest], unmatched
    return [*pairs, *((one, None) for one in left), *((None, other) for other in right)]


def object_changes(before: Measures, after: Measures) -> list[ObjectChange]:
    rows = []
    pairs = matched(before.objects, after.objects, lambda one: f"{one.kind} {one.object}")
    for old, new in pairs:
        one = new or old
        assert one is not None
        numbers = _numbers(old, new)
        rows.append(
            ObjectChange(
                one.object,
                one.kind,
                _state(old, new, numbers[4], before.latency),
                *numbers,
                share=numbers[2] / max(1, before.latency),
            )
        )
    return sorted(rows, key=lambda row: (-abs(row.change), -row.latency_after, row.object))


def function_changes(before: Measures, after: Measures) -> list[FunctionChange]:
    rows = []
    for old, new in matched(before.functions, after.functions, lambda one: one.function):
        one = new or old
        assert one is not None
        numbers = _numbers(old, new)
        state = _state(old, new, numbers[4], before.latency)
        rows.append(FunctionChange(one.function, state, *numbers))
    return sorted(rows, key=lambda row: (-abs(row.change), -row.latency_after, row.function))


def _numbers(
    old: ObjectMeasure | FunctionMeasure | None, new: ObjectMeasure | FunctionMeasure | None
) -> tuple[int, int, int, int, int]:
    misses = (old.misses if old else 0, new.misses if new else 0)
    latency = (old.latency if old else 0, new.latency if new else 0)
    return (*misses, *latency, latency[1] - latency[0])


def _state(old: object, new: object, change: int, whole: int) -> str:
    if old is None or new is None:
        return "new" if old is None else "gone"
    if abs(change) <= SAME * whole:
        return "same"
    return "worse" if change > 0 else "better"


def struct_changes(
    before: Sequence[StructMeasure], after: Sequence[StructMeasure]
) -> list[StructChange]:
    """Of structs that have another layout."""
    rows = []
    for old, new in matched(before, after, lambda one: one.struct):
        if old is None or new is None:
            continue
        fields = field_changes(old.fields, new.fields)
        if fields or old.size != new.size:
            rows.append(
                StructChange(
                    new.struct,
                    old.size,
                    new.size,
                    fields,
                    old.latency,
                    new.latency,
                    new.latency - old.latency,
                )
            )
    return sorted(rows, key=lambda row: (-row.change, row.struct))


def field_changes(before: Sequence[FieldMeasure], after: Sequence[FieldMeasure]) -> list[str]:
    old, new = ({field.name: field for field in fields} for fields in (before, after))
    words = [
        f"{name} added ({field.size} bytes at {field.offset})"
        for name, field in new.items()
        if name not in old
    ]
    words += [f"{name} removed" for name in old if name not in new]
    for name in old.keys() & new.keys():
        if old[name].size != new[name].size:
            words.append(f"{name} has {new[name].size} bytes, not {old[name].size}")
    kept = [name for name in old if name in new]
    order = sorted(kept, key=lambda name: new[name].offset)
    if sorted(kept, key=lambda name: old[name].offset) != order:
        words.append("fields in another order")
    return words
