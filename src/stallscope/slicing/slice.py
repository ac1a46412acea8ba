# SPDX-License-Identifier: Apache-2.0
"""Prefetch slices: of a connected trace, only what computes the addresses of its loads.

A slice is cut backwards from the loads: over registers and memory cells to what defines them, and
over control dependences to the branches that decide, with the steps that set their flags.

Memory is told apart as TOPP does it: a cell has a fixed address (on the stack, or made of registers
that the trace does not change); all else moves, and a store that moves matters only where `flows`,
taken from a recording, says that it feeds a load. Other aliases are ignored: a slice may be wrong,
it is never trusted with more than prefetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iced_x86 import FlowControl, Mnemonic, Register

from stallscope.slicing.graph import is_call
from stallscope.slicing.step import FLAGS, Step
from stallscope.slicing.trace import Declined, Trace

# What a call that is not followed may change.
_CLOBBERED = frozenset(
    (
        *(Register.RAX, Register.RCX, Register.RDX, Register.RSI, Register.RDI),
        *(Register.R8, Register.R9, Register.R10, Register.R11, FLAGS),
    )
)
_GENERAL = frozenset(range(Register.RAX, Register.R15 + 1))

Flows = frozenset[tuple[int, int]]  # instruction that stores, instruction that loads it


@dataclass(frozen=True, order=True)
class Cell:
    """Memory at a fixed address: `base` is RSP for the stack, counted from where it stands at the
    load; else registers that the trace does not change."""

    base: int
    index: int
    scale: int
    displacement: int
    size: int


@dataclass(frozen=True)
class Slice:
    trace: Trace
    loads: frozenset[int]  # that are prefetched; the trace's own among them
    data: frozenset[int]  # steps that compute
    branches: frozenset[int]  # that decide
    cells: tuple[Cell, ...]  # kept in scratch memory, filled at the start
    written: frozenset[Cell]  # of them: the slice stores there
    places: dict[int, Cell] = field(repr=False)  # cell of a step's memory operand
    shadowed: frozenset[int]  # stores that move, and loads that they feed
    postdominators: dict[int, frozenset[int]] = field(repr=False)

    @property
    def kept(self) -> frozenset[int]:
        return self.data | self.branches | self.loads

    @property
    def registers(self) -> frozenset[int]:
        """General registers that it reads before it writes them, in the worst case."""
        read = {part for at in self.kept for part in self.trace.step(at).reads}
        return frozenset(read & _GENERAL) - {Register.RSP}

    @property
    def feeds(self) -> frozenset[int]:
        """Loads whose results it needs; the others are prefetched only."""
        return self.data & self.loads


def cut(trace: Trace, loads: Iterable[int] = (), flows: Flows = frozenset()) -> Slice | Declined:
    """The slice for the trace's own load and for others of it."""
    cutter = Dependences(trace, frozenset({trace.load, *loads}) & trace.steps, flows)
    return cutter.run()


class Dependences:
    """What the steps of a trace need of each other."""

    def __init__(self, trace: Trace, loads: frozenset[int], flows: Flows):
        self.trace, self.loads, self.flows = trace, loads, flows
        self.changed = {part for at in trace.steps for part in self.writes(at)}
        self.heights = _heights(trace)
        self.places: dict[int, Cell] = {}
        for at in trace.steps:
            place = self.place_of(trace.step(at))
            if place is not None:
                self.places[at] = place
        self.data: set[int] = set()
        self.branches: set[int] = set()
        self.shadowed: set[int] = set()
        self.refusal = ""

    def run(self) -> Slice | Declined:
        if self.heights is None:
            return Declined("the stack stands at several heights in one place of the trace")
        dominators = postdominators(self.trace)
        left = [(at, False) for at in self.loads]
        while left or self.decide(dominators, left):
            at, whole = left.pop()
            for found in self.needs(at, whole):
                if found not in self.data:
                    self.data.add(found)
                    left.append((found, True))
            if self.refusal:
                return Declined(self.refusal)
        cells = {self.places[at] for at in self.data | self.loads if at in self.places}
        written = {
            self.places[at] for at in self.data if at in self.places and self.trace.step(at).stores
        }
        return Slice(
            self.trace,
            self.loads,
            frozenset(self.data),
            frozenset(self.branches),
            tuple(sorted(cells)),
            frozenset(written),
            self.places,
            frozenset(self.shadowed),
            dominators,
        )

    def decide(self, dominators: dict[int, frozenset[int]], left: list[tuple[int, bool]]) -> bool:
        """Adds branches on which something kept depends; whether there were any."""
        kept = self.data | self.branches | self.loads
        for at in self.trace.steps:
            after = self.trace.after(at)
            if len(after) < 2 or at in self.branches:
                continue
            mine = dominators[at] - {at}
            theirs = [dominators.get(end, frozenset()) for end in after]
            if any(kept & (other - mine) for other in theirs):
                self.branches.add(at)
                left.append((at, True))
        return bool(left)

    def needs(self, at: int, whole: bool) -> set[int]:
        """Steps that define what a step reads; only its address unless `whole`."""
        step = self.trace.step(at)
        if whole and is_call(step) and at not in self.trace.graph.followed:
            self.refusal = "an address depends on what a call returns that is not followed"
            return set()
        operand = step.operand()
        registers = step.reads if whole or operand is None else operand.registers
        found: set[int] = set()
        for register in registers - {Register.RSP, Register.NONE, Register.RIP}:
            if register != FLAGS and register not in _GENERAL:
                self.refusal = "an address depends on vector registers"
            found |= self.definitions(at, register)
        if at in self.places:
            if whole and step.loads:
                found |= self.stores_to(at, self.places[at])
        elif whole and step.loads:
            for store, load in self.flows:
                if load == at and store in self.trace.steps and store not in self.places:
                    self.shadowed |= {store, at}
                    found.add(store)
        return found

    def closure(self, load: int) -> frozenset[int]:
        """Steps that go into the load's address as data, whatever branches decide."""
        seen: set[int] = set()
        left = [(load, False)]
        while left:
            at, whole = left.pop()
            for found in self.needs(at, whole):
                if found not in seen:
                    seen.add(found)
                    left.append((found, True))
        return frozenset(seen)

    def moves(self, at: int) -> bool:
        """Whether a step loads from an address that changes in the trace."""
        step = self.trace.step(at)
        if is_call(step) or step.flow == FlowControl.RETURN:
            return False
        return step.loads and at not in self.places

    def writes(self, at: int) -> frozenset[int]:
        step = self.trace.step(at)
        if is_call(step) and at not in self.trace.graph.followed:
            return _CLOBBERED
        return step.writes

    def definitions(self, at: int, register: int) -> set[int]:
        """Reaching definitions of a register at a step."""
        found, seen = set[int](), set[int]()
        left = list(self.trace.before(at))
        while left:
            one = left.pop()
            if one in seen:
                continue
            seen.add(one)
            step = self.trace.step(one)
            if register in self.writes(one):
                found.add(one)
                if register in step.kills or is_call(step):
                    continue
            left.extend(self.trace.before(one))
        return found

    def stores_to(self, at: int, cell: Cell) -> set[int]:
        """Reaching definitions of a cell at a step."""
        found, seen = set[int](), set[int]()
        left = list(self.trace.before(at))
        while left:
            one = left.pop()
            if one in seen:
                continue
            seen.add(one)
            place = self.places.get(one)
            if place is not None and self.trace.step(one).stores and _overlap(place, cell):
                if place != cell:
                    self.refusal = "memory is written and read in pieces of different sizes"
                found.add(one)
                continue
            left.extend(self.trace.before(one))
        return found

    def place_of(self, step: Step) -> Cell | None:
        """The cell of a step's memory operand; None when it moves or there is none."""
        if len(step.memory) != 1 or is_call(step) or self.heights is None:
            return None
        part = step.memory[0]
        if part.base == Register.RSP:
            if part.index != Register.NONE:
                return None
            height = self.heights.get(step.address, 0) + part.displacement
            return Cell(Register.RSP, Register.NONE, 1, height, part.size)
        if part.base == Register.RIP:
            return Cell(Register.NONE, Register.NONE, 1, part.displacement, part.size)
        if part.registers & self.changed:
            return None
        return Cell(part.base, part.index, part.scale, part.displacement, part.size)


def _overlap(one: Cell, other: Cell) -> bool:
    if (one.base, one.index, one.scale) != (other.base, other.index, other.scale):
        return False
    return (
        one.displacement < other.displacement + other.size
        and other.displacement < one.displacement + one.size
    )


def _heights(trace: Trace) -> dict[int, int] | None:
    """How much lower than at the load the stack stands before each step, in bytes upwards; None
    when ways differ."""
    found = {trace.load: 0}
    left = [trace.load]
    while left:
        at = left.pop()
        change = _stack_change(trace, trace.step(at))
        if change is None:
            return None
        for end in trace.after(at):
            if end not in trace.steps:
                continue
            if end not in found:
                found[end] = found[at] + change
                left.append(end)
            elif found[end] != found[at] + change:
                return None
    return found


def _stack_change(trace: Trace, step: Step) -> int | None:
    if step.flow == FlowControl.RETURN:
        return 8
    if is_call(step):
        return -8 if step.address in trace.graph.followed else 0
    if Register.RSP not in step.writes:
        return 0
    instruction = step.instruction
    if instruction.is_stack_instruction:
        return int(instruction.stack_pointer_increment)
    if instruction.mnemonic in (Mnemonic.ADD, Mnemonic.SUB) and instruction.op_count == 2:
        try:
            amount = instruction.immediate(1)
        except ValueError:
            return None
        amount = amount - (1 << 64) if amount >= 1 << 63 else amount
        return int(amount if instruction.mnemonic == Mnemonic.ADD else -amount)
    part = instruction.memory_base == Register.RSP and instruction.mnemonic == Mnemonic.LEA
    return int(_signed(instruction.memory_displacement)) if part else None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def postdominators(trace: Trace) -> dict[int, frozenset[int]]:
    """Of every step those that all ways out of the trace pass, itself included; 0 is outside."""
    inside = trace.steps
    every = inside | {0}
    found: dict[int, frozenset[int]] = dict.fromkeys(inside, every)
    found[0] = frozenset({0})
    order = sorted(inside, reverse=True)
    changed = True
    while changed:
        changed = False
        for at in order:
            ends = [found[end if end in inside else 0] for end in trace.after(at)]
            merged = frozenset.intersection(*ends) | {at}
            if merged != found[at]:
                found[at] = merged
                changed = True
    return found
