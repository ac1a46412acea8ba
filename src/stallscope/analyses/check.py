# SPDX-License-Identifier: Apache-2.0
"""Whether a run keeps to its budgets, and is no worse than its baseline.

Counts of a simulated machine do not vary with the weather: what is compared here differs only when
the program does, so that a budget can be as tight as one likes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stallscope.analyses.diff import matched, struct_changes
from stallscope.analyses.measures import (
    FunctionMeasure,
    Measures,
    ObjectMeasure,
    StructMeasure,
)
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

TOLERANCE = 0.01  # of what the baseline has; threads do not run in the same order each time:
THREADED_TOLERANCE = 0.10
MATTERS = 0.01  # share of the run's latency from which on an object or struct is looked at


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One [[budget]] of stallscope.toml. Names may have * and ?."""

    program: str | None = None
    object: str | None = None
    function: str | None = None
    struct: str | None = None
    level: str | None = None  # of the program's misses
    misses: int | None = None  # at most, as what follows
    latency: int | None = None
    instructions: int | None = None
    lines: int | None = None
    size: int | None = None
    bytes_per_line: float | None = None  # at least
    apart: tuple[str, str] | None = None  # fields that must not share a line

    def named(self) -> tuple[str, str]:
        for kind in KINDS:
            name = getattr(self, kind)
            if name is not None:
                return kind, name
        return "", ""

    def limits(self) -> list[str]:
        return [name for name in LIMITS if getattr(self, name) is not None]


KINDS = {
    "program": ("misses", "latency", "instructions", "level"),
    "object": ("misses", "latency", "lines", "bytes_per_line"),
    "function": ("misses", "latency"),
    "struct": ("misses", "latency", "size", "apart"),
}
LIMITS = ("misses", "latency", "instructions", "lines", "size", "bytes_per_line", "apart")


@dataclass(frozen=True)
class CheckRow:
    kind: str  # program, level, object, function or struct
    name: str
    measure: str
    before: float | None  # in the baseline; None: there is none, or it knows nothing of this
    now: float | None
    limit: float | None
    passed: bool
    cost: int | None  # cycles of latency more than before, or that the thing has where unknown
    words: str


@dataclass(frozen=True)
class Check(Shown):
    recording: str
    machine: str
    baseline: str | None
    budgets: int
    tolerance: float
    checked: int
    failed: int
    passed: bool
    rows: list[CheckRow]  # what failed comes first


def check(
    recording: str,
    now: Measures,
    before: Measures | None,
    baseline: str | None,
    budgets: Sequence[Budget],
    tolerance: float | None = None,
) -> Check:
    threaded = now.threads > 1 or (before is not None and before.threads > 1)
    allowed = tolerance
    if allowed is None:
        allowed = THREADED_TOLERANCE if threaded else TOLERANCE
    rows = [row for budget in budgets for row in _budget_rows(budget, now, before)]
    if before is not None:
        rows += _against(now, before, allowed)
    rows.sort(key=lambda row: (row.passed, -(row.cost or 0)))
    failed = sum(not row.passed for row in rows)
    return Check(
        recording,
        now.machine,
        baseline,
        len(budgets),
        allowed,
        len(rows),
        failed,
        failed == 0,
        rows,
    )


def check_budget(budget: Budget, number: int) -> None:
    """One sentence for what cannot be meant."""
    where = f"budget {number} of stallscope.toml"
    given = [kind for kind in KINDS if getattr(budget, kind) is not None]
    if len(given) != 1:
        raise StallscopeError(
            f"{where} is for {' and '.join(given) or 'nothing'}",
            f"it names one of: {', '.join(KINDS)}",
            'object = "name"',
        )
    if not budget.limits():
        raise StallscopeError(f"{where} limits nothing", f"{given[0]} can have: {_can(given[0])}")
    for name in (*LIMITS, "level"):
        if getattr(budget, name) is not None and name not in KINDS[given[0]]:
            raise StallscopeError(
                f"{where}: {name} is not for a {given[0]}", f"there is: {_can(given[0])}"
            )


def _can(kind: str) -> str:
    return ", ".join(KINDS[kind])


def _budget_rows(budget: Budget, now: Measures, before: Measures | None) -> Iterator[CheckRow]:
    kind, name = budget.named()
    if kind == "program":
        yield from _program_rows(budget, now, before)
        return
    found = [one for one in _things(now, kind) if _is_called(_name_of(one), name)]
    if not found:
        words = f"no {kind} {name} missed anything in this run"
        yield CheckRow(kind, name, "exists", None, None, None, kind != "struct", None, words)
    for one in found:
        old = _same(before, kind, _name_of(one))
        for limit in budget.limits():
            yield _limited(budget, kind, one, old, limit)


def _things(
    of: Measures, kind: str
) -> Sequence[ObjectMeasure] | Sequence[FunctionMeasure] | Sequence[StructMeasure]:
    if kind == "object":
        return of.objects
    return of.functions if kind == "function" else of.structs


def _name_of(one: ObjectMeasure | FunctionMeasure | StructMeasure) -> str:
    if isinstance(one, ObjectMeasure):
        return one.object
    return one.function if isinstance(one, FunctionMeasure) else one.struct


def _is_called(name: str, wanted: str) -> bool:
    """A site's name may be given by its first function alone."""
    return (
        fnmatch.fnmatchcase(name, wanted)
        or name.removeprefix("struct ") == wanted.removeprefix("struct ")
        or name.split(" ", 1)[0] == wanted
    )


def _same(
    before: Measures | None, kind: str, name: str
) -> ObjectMeasure | FunctionMeasure | StructMeasure | None:
    if before is None:
        return None
    return next((one for one in _things(before, kind) if _name_of(one) == name), None)


def _limited(
    budget: Budget,
    kind: str,
    one: ObjectMeasure | FunctionMeasure | StructMeasure,
    old: ObjectMeasure | FunctionMeasure | StructMeasure | None,
    limit: str,
) -> CheckRow:
    name = _name_of(one)
    cost = one.latency - (old.latency if old else 0)
    if limit == "apart":
        assert isinstance(one, StructMeasure)
        return _apart(budget, one, cost)
    value, wanted = getattr(one, limit), getattr(budget, limit)
    earlier = getattr(old, limit) if old is not None else None
    if value is None:
        words = f"{limit} of {kind} {name} is not known: record with --trace"
        return CheckRow(kind, name, limit, earlier, None, wanted, False, None, words)
    passed = value >= wanted if limit == "bytes_per_line" else value <= wanted
    words = f"{kind} {name} has {_said(limit, value)}, {_than(limit, passed)} {wanted:,}"
    if isinstance(one, StructMeasure) and isinstance(old, StructMeasure) and limit == "size":
        words += _fields(old, one)
    return CheckRow(kind, name, limit, earlier, value, wanted, passed, cost, words)


def _said(limit: str, value: float) -> str:
    return f"{value:,.1f} bytes per line" if limit == "bytes_per_line" else f"{limit} {value:,}"


def _than(limit: str, passed: bool) -> str:
    if limit == "bytes_per_line":
        return "at least" if passed else "less than"
    return "at most" if passed else "more than"


def _apart(budget: Budget, one: StructMeasure, cost: int) -> CheckRow:
    assert budget.apart is not None
    first, second = budget.apart
    missing = [name for name in budget.apart if one.field(name) is None]
    if missing:
        words = f"{one.struct} has no field {' or '.join(missing)}"
        return CheckRow("struct", one.struct, "apart", None, None, None, False, None, words)
    shares = one.may_share_line(first, second)
    places = " and ".join(str(one.field(name).offset) for name in budget.apart)  # type: ignore[union-attr]
    words = f"{first} and {second} of {one.struct} {'share a' if shares else 'never share a'} line"
    words += f" (at {places}); its data costs {one.latency:,} cycles"
    return CheckRow("struct", one.struct, "apart", None, None, None, not shares, cost, words)


def _program_rows(budget: Budget, now: Measures, before: Measures | None) -> Iterator[CheckRow]:
    if budget.program is not None and not _is_called(now.program, budget.program):
        return
    for limit in budget.limits():
        value, earlier = _of_program(now, budget, limit), None
        if before is not None:
            earlier = _of_program(before, budget, limit)
        wanted = getattr(budget, limit)
        level = f" of {budget.level}" if limit == "misses" and budget.level else ""
        words = f"the program has {limit} {value:,}{level}, {_than(limit, value <= wanted)} "
        words += f"{wanted:,}"
        cost = now.latency - before.latency if before else None
        yield CheckRow(
            "program", now.program, f"{limit}{level}", earlier, value, wanted, value <= wanted,
            cost, words,
        )  # fmt: skip


def _of_program(of: Measures, budget: Budget, limit: str) -> int:
    if limit == "misses" and budget.level is not None:
        for row in of.levels:
            if row.level.lower() == budget.level.lower():
                return row.misses
        names = ", ".join(row.level for row in of.levels)
        raise StallscopeError(
            f"stallscope.toml has a budget for level {budget.level}", f"the machine has: {names}"
        )
    value: int = getattr(of, limit)
    return value


def _against(now: Measures, before: Measures, allowed: float) -> Iterator[CheckRow]:
    """What a baseline asks for without any budget."""

    def row(kind: str, name: str, measure: str, old: int, new: int, words: str) -> CheckRow:
        limit = old + allowed * old
        cost = new - old if measure == "latency" else None
        return CheckRow(kind, name, measure, old, new, limit, new <= limit, cost, words)

    cycles = f"the program waits {now.latency:,} cycles for memory, before {before.latency:,}"
    yield row("program", now.program, "latency", before.latency, now.latency, cycles)
    for old, new in matched(before.levels, now.levels, lambda one: one.level):
        if old is not None and new is not None:
            words = f"{new.level} misses {new.misses:,} times, before {old.misses:,}"
            yield row("level", new.level, "misses", old.misses, new.misses, words)
    yield from _objects_against(now, before, allowed)
    yield from _structs_against(now, before)


def _objects_against(now: Measures, before: Measures, allowed: float) -> Iterator[CheckRow]:
    for old, new in matched(before.objects, now.objects, lambda o: f"{o.kind} {o.object}"):
        if new is None:
            continue
        earlier = old.latency if old else 0
        if max(new.latency, earlier) < MATTERS * max(1, before.latency):
            continue
        # A small object may change much in its own measure; what counts is what that costs.
        limit = earlier + allowed * max(earlier, MATTERS * before.latency)
        words = f"{new.object} costs {new.latency:,} cycles, before {earlier:,}"
        if old is None:
            words = f"{new.object} is new and costs {new.latency:,} cycles"
        yield CheckRow(
            "object", new.object, "latency", earlier, new.latency, limit, new.latency <= limit,
            new.latency - earlier, words,
        )  # fmt: skip


def _structs_against(now: Measures, before: Measures) -> Iterator[CheckRow]:
    """A struct whose data costs something may not grow unnoticed."""
    old = {one.struct: one for one in before.structs}
    new = {one.struct: one for one in now.structs}
    for change in struct_changes(before.structs, now.structs):
        cost = max(change.latency_before, change.latency_after)
        if cost < MATTERS * max(1, before.latency) or change.size_after <= change.size_before:
            continue
        words = f"{change.struct} grew from {change.size_before} to {change.size_after} bytes"
        words += _fields(old[change.struct], new[change.struct])
        words += f"; its data costs {change.change:+,} cycles ({change.latency_after:,})"
        yield CheckRow(
            "struct", change.struct, "size", change.size_before, change.size_after,
            change.size_before, False, change.change, words,
        )  # fmt: skip


def _fields(old: StructMeasure, new: StructMeasure) -> str:
    changes = struct_changes([old], [new])
    said = "; ".join(changes[0].fields) if changes else ""
    return f": {said}" if said else ""
