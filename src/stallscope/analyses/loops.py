# SPDX-License-Identifier: Apache-2.0
"""Loops: how long they run, how they go through memory, what they wait for, and which
optimisations fit, with the numbers that speak for them."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stallscope.showing import Shown

LINE = 64  # bytes; what one miss brings
UNROLL = 4
STAGES = 2  # of software pipelining: one iteration waits while another computes
# What a suggestion asks for. Each is a condition below which following it cannot gain much.
LONG = 16  # iterations an entry, for software pipelining
REPEATED = 8  # and for unrolling
SHORT = 24  # instructions an iteration, for unrolling
SEQUENTIAL = 0.9  # share of pairs of accesses at the usual distance
UNDECIDED = 0.1  # a branch goes each way at least so often
WORTH = 0.05  # share of the loop's cycles
MISSING = 0.1  # misses an access
WORTH_SHOWING = 0.01  # share of all instructions
# Suggestions that make a cause of stalls go: what that brings is replayed, not subtracted.
REMOVES = {"if-conversion": "branch_mispredict", "prefetch": "data_cache"}


@dataclass(frozen=True)
class Stride:
    line: int | None
    kind: str  # load, store, modify
    executions: int
    stride: int | None  # bytes; None where no two follow each other
    regular: float  # share of pairs at that distance
    misses: int


@dataclass(frozen=True)
class Branch:
    address: str
    taken: int
    passed: int
    backward: bool
    bias: float  # share of the way that it mostly goes


@dataclass(frozen=True)
class Suggestion:
    optimisation: str
    why: str
    metric: str  # instructions, misses or cycles, of the loop
    before: int
    after: int  # predicted
    gcc: str
    clang: str


@dataclass(frozen=True)
class Loop:
    function: str
    file: str
    line: int | None
    header: str
    end: str
    depth: int  # 0 for an outermost loop
    around: int | None  # number of the loop around it
    number: int
    entries: int
    iterations: int
    trips: float  # iterations an entry
    shortest: int
    longest: int
    instructions: int
    per_iteration: float
    calls: int
    accesses: int
    sequential: float  # share of pairs of accesses one element behind the other
    misses: int
    cycles: int  # of its own code, without loops inside and what it calls
    stalls: dict[str, int]  # of these
    strides: tuple[Stride, ...]
    branches: tuple[Branch, ...]
    suggestions: tuple[Suggestion, ...] = field(default=())


@dataclass(frozen=True)
class Loops(Shown):
    recording: str
    machine: str
    instructions: int
    rows: tuple[Loop, ...]


@dataclass(frozen=True)
class Facts:
    """What is known of a recording, besides its loops."""

    operations: Mapping[int, Mapping[str, Any]]
    misses: Mapping[int, int]  # of the first data cache, by operation
    stalls: Mapping[int, Mapping[str, int]]  # cycles by cause, by address of an instruction
    control: Mapping[int, int]  # instructions that only steer the loop, by its number
    latency: int  # of memory
    completion: float  # cycles that retire something, for each instruction
    blocks: Mapping[int, Mapping[str, Any]]  # what their first instruction belongs to
    window: int  # instructions that the core has in flight at most; 0: it issues in order


def loops(
    recording: str,
    machine: str,
    found: Mapping[str, Sequence[Mapping[str, Any]]],
    total: int,
    facts: Facts,
) -> Loops:
    """From the rows of loop, loop_branch and loop_access; most instructions first."""
    accesses: dict[int, list[Mapping[str, Any]]] = collections.defaultdict(list)
    for row in found["loop_access"]:
        accesses[row["loop"]].append(row)
    branches: dict[int, list[Mapping[str, Any]]] = collections.defaultdict(list)
    for row in found["loop_branch"]:
        branches[row["loop"]].append(row)
    all_rows = {row["loop"]: row for row in found["loop"]}
    has_inner = {row["around"] for row in found["loop"]}
    inside = _innermost(found["loop"], facts.stalls)
    rows = [
        _loop(row, all_rows, accesses[row["loop"]], branches[row["loop"]], inside, has_inner, facts)
        for row in found["loop"]
        if row["entries"]
    ]
    small = WORTH_SHOWING * total
    rows = [
        one if one.instructions >= small else dataclasses.replace(one, suggestions=())
        for one in rows
    ]
    rows.sort(key=lambda one: (-one.instructions, one.header))
    return Loops(recording, machine, total, tuple(rows))


def removed_causes(result: Loops) -> set[str]:
    """What cores are to be replayed without, for what the suggestions predict."""
    return {
        REMOVES[one.optimisation]
        for row in result.rows
        for one in row.suggestions
        if one.optimisation in REMOVES
    }


def replayed(result: Loops, cause: str, without: Loops) -> Loops:
    """With the cycles that the loops take where the cause is made ideal. A suggestion that then
    brings too little is dropped."""
    cycles = {row.number: row.cycles for row in without.rows}

    def kept(row: Loop) -> tuple[Suggestion, ...]:
        made = [
            dataclasses.replace(one, after=cycles[row.number])
            if REMOVES.get(one.optimisation) == cause
            else one
            for one in row.suggestions
        ]
        return tuple(
            one
            for one in made
            if REMOVES.get(one.optimisation) != cause or one.after < (1 - WORTH) * one.before
        )

    rows = tuple(dataclasses.replace(row, suggestions=kept(row)) for row in result.rows)
    return dataclasses.replace(result, rows=rows)


def _innermost(
    rows: Sequence[Mapping[str, Any]], stalls: Mapping[int, Mapping[str, int]]
) -> dict[int, collections.Counter[str]]:
    """Cycles by cause of each loop's own code, inner loops left out."""
    found: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    ordered = sorted(rows, key=lambda row: row["end"] - row["header"])
    for address, causes in stalls.items():
        for row in ordered:
            if row["header"] <= address <= row["end"]:
                found[row["loop"]].update(causes)
                break
    return found


def _loop(
    row: Mapping[str, Any],
    all_rows: Mapping[int, Mapping[str, Any]],
    accesses: Sequence[Mapping[str, Any]],
    branches: Sequence[Mapping[str, Any]],
    inside: Mapping[int, Mapping[str, int]],
    has_inner: set[int | None],
    facts: Facts,
) -> Loop:
    strides = tuple(_stride(one, facts) for one in accesses)
    pairs = sum(one["pairs"] for one in accesses)
    stepping = sum(
        one["regular"]
        for one in accesses
        if abs(one["stride"]) == facts.operations[one["operation"]]["size"]
    )
    depth, around = 0, row["around"]
    while around is not None:
        depth, around = depth + 1, all_rows[around]["around"]
    place = _place(row, accesses, facts)
    stalls = dict(inside.get(row["loop"], {}))
    inner = sum(one["instructions"] for one in all_rows.values() if one["around"] == row["loop"])
    own = row["instructions"] - inner
    made = Loop(
        *place,
        f"{row['header']:#x}",
        f"{row['end']:#x}",
        depth,
        row["around"],
        row["loop"],
        row["entries"],
        row["iterations"],
        row["iterations"] / row["entries"],
        row["shortest"],
        row["longest"],
        row["instructions"],
        row["instructions"] / max(row["iterations"], 1),
        row["calls"],
        sum(one["executions"] for one in accesses),
        stepping / pairs if pairs else 0.0,
        sum(one.misses for one in strides),
        sum(stalls.values()) + round(own * facts.completion),
        {name: cycles for name, cycles in stalls.items() if cycles},
        strides,
        tuple(_branch(one) for one in branches),
    )
    innermost = row["loop"] not in has_inner
    return dataclasses.replace(made, suggestions=tuple(_suggest(made, innermost, facts)))


def _place(
    row: Mapping[str, Any], accesses: Sequence[Mapping[str, Any]], facts: Facts
) -> tuple[str, str, int | None]:
    """The first line of the loop that is known."""
    lines = [facts.operations[one["operation"]] for one in accesses]
    if not lines:  # all it has is in loops inside
        inside = (row["header"], row["end"])
        lines = [o for o in facts.operations.values() if inside[0] <= o["address"] <= inside[1]]
    named = [one for one in lines if one["line"]]
    if named:
        first = min(named, key=lambda one: one["address"] - row["header"])
        same = [one["line"] for one in named if one["file"] == first["file"]]
        return str(first["function"]), str(first["file"]), min(same)
    block = facts.blocks.get(row["block"])
    if block is None:
        return "?", "", None
    return str(block["function"]), str(block["file"]), block["line"]


def _stride(row: Mapping[str, Any], facts: Facts) -> Stride:
    operation = facts.operations[row["operation"]]
    return Stride(
        operation["line"],
        ("load", "store", "modify")[operation["kind"]],
        row["executions"],
        row["stride"] if row["pairs"] else None,
        row["regular"] / row["pairs"] if row["pairs"] else 0.0,
        facts.misses.get(row["operation"], 0),
    )


def _branch(row: Mapping[str, Any]) -> Branch:
    all_times = row["taken"] + row["passed"]
    bias = max(row["taken"], row["passed"]) / all_times if all_times else 1.0
    return Branch(f"{row['address']:#x}", row["taken"], row["passed"], bool(row["backward"]), bias)


def _suggest(loop: Loop, inner: bool, facts: Facts) -> list[Suggestion]:
    found: list[Suggestion | None] = []
    if inner:
        found += [_unrolling(loop, facts), _pipelining(loop, facts), _conversion(loop)]
    found += [_tiling(loop), _prefetching(loop, facts)]
    return [one for one in found if one is not None]


def _unrolling(loop: Loop, facts: Facts) -> Suggestion | None:
    steering = facts.control.get(loop.number, 0)
    if loop.calls or loop.trips < REPEATED or loop.per_iteration > SHORT or not steering:
        return None
    saved = round(loop.iterations * steering * (UNROLL - 1) / UNROLL)
    if saved < WORTH * loop.instructions:
        return None
    why = (
        f"{loop.trips:,.0f} iterations an entry of {loop.per_iteration:.1f} instructions, "
        f"{steering} of which only steer"
    )
    return Suggestion(
        "unrolling",
        why,
        "instructions",
        loop.instructions,
        loop.instructions - saved,
        f"#pragma GCC unroll {UNROLL}",
        f"#pragma clang loop unroll_count({UNROLL})",
    )


def _pipelining(loop: Loop, facts: Facts) -> Suggestion | None:
    if facts.window > 2 * loop.per_iteration:  # the core overlaps iterations by itself
        return None
    forward = [one for one in loop.branches if not one.backward]
    waiting = sum(loop.stalls.get(name, 0) for name in ("load_store", "fpu", "iu"))
    if loop.calls or loop.trips < LONG or forward or loop.sequential < SEQUENTIAL:
        return None
    if waiting < WORTH * loop.cycles:
        return None
    interval = max(1, math.ceil((loop.cycles - waiting // STAGES) / loop.iterations))
    return Suggestion(
        "software pipelining",
        f"one backward branch, {loop.sequential:.0%} of accesses sequential, "
        f"{waiting / loop.cycles:.0%} of cycles wait for results of the same iteration",
        "cycles",
        loop.cycles,
        loop.cycles - waiting // STAGES,
        '__attribute__((optimize("modulo-sched")))',
        f"#pragma clang loop pipeline_initiation_interval({interval})",
    )


def _conversion(loop: Loop) -> Suggestion | None:
    undecided = [b for b in loop.branches if not b.backward and b.bias < 1 - UNDECIDED]
    lost = loop.stalls.get("branch_mispredict", 0)
    if not undecided or lost < WORTH * max(loop.cycles, 1):
        return None
    worst = min(undecided, key=lambda one: one.bias)
    return Suggestion(
        "if-conversion",
        f"the branch at {worst.address} goes one way {worst.bias:.0%} of the time; wrong guesses "
        f"take {lost / loop.cycles:.0%} of cycles",
        "cycles",
        loop.cycles,
        loop.cycles - lost,
        "__builtin_expect_with_probability(condition, 1, 0.5), or condition ? a : b",
        "__builtin_unpredictable(condition)",
    )


def _tiling(loop: Loop) -> Suggestion | None:
    far = [
        one
        for one in loop.strides
        if one.stride is not None
        and abs(one.stride) >= LINE
        and one.regular >= SEQUENTIAL
        and one.misses > MISSING * one.executions
    ]
    if not far or loop.around is None:
        return None
    worst = max(far, key=lambda one: one.misses)
    assert worst.stride is not None
    saved = sum(one.misses - math.ceil(one.executions * 8 / LINE) for one in far)
    if saved <= 0:
        return None
    of_line = "a load" if worst.line is None else f"line {worst.line}"
    return Suggestion(
        "tiling",
        f"{of_line} goes {worst.stride:,} bytes at a time and misses "
        f"{worst.misses / worst.executions:.0%} of the time; the loop around it comes back to the "
        "same lines",
        "misses",
        loop.misses,
        loop.misses - saved,
        '__attribute__((optimize("loop-block"))), or exchange the loops',
        "#pragma omp tile sizes(32, 32), or exchange the loops",
    )


def _prefetching(loop: Loop, facts: Facts) -> Suggestion | None:
    lost = loop.stalls.get("data_cache", 0)
    missing = [one for one in loop.strides if one.misses > 0 and one.kind != "store"]
    if lost < WORTH * max(loop.cycles, 1) or not missing or loop.trips < REPEATED:
        return None
    worst = max(missing, key=lambda one: one.misses)
    ahead = max(1, math.ceil(facts.latency * loop.iterations / max(loop.cycles, 1)))
    how = "at no steady distance" if worst.regular < SEQUENTIAL else f"{worst.stride:,} bytes apart"
    of_line = "" if worst.line is None else f" of line {worst.line}"
    return Suggestion(
        "prefetch",
        f"loads{of_line} miss {worst.misses:,} times, {how}; "
        f"{lost / loop.cycles:.0%} of cycles wait for them",
        "cycles",
        loop.cycles,
        loop.cycles - lost,
        f"__builtin_prefetch({ahead} iterations ahead)",
        f"__builtin_prefetch({ahead} iterations ahead)",
    )
