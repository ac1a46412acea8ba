# SPDX-License-Identifier: Apache-2.0
"""Inline prefetches: addresses of loads some turns of a loop ahead, computed in the loop itself.

Of one turn of the loop, from its head on, the steps that lead to the addresses are taken as they
are; what changes by the same amount from turn to turn is set forward before them. Ways through the
turn are not chosen: what a branch would decide is taken as the definition that comes first.

An address that depends on a load that misses itself would wait for it. So loads are told in stages:
those whose addresses depend on more loads one after the other are told later, when what they depend
on has been brought by the stage before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iced_x86 import Mnemonic, OpKind, Register, RegisterExt

from stallscope.slicing.graph import Graph, Loop, closure, is_call
from stallscope.slicing.step import FLAGS, Step
from stallscope.slicing.trace import Declined

MOST_STEPS = 24
MOST_DEPTH = 2  # loads that one address may depend on one after the other: more often fault
NEAR = 16  # bytes between two loads of one object that are most likely in one line
_GENERAL = frozenset(range(Register.RAX, Register.R15 + 1))


@dataclass(frozen=True)
class Stepping:
    """A register that grows by the same amount in each turn: a number, or another register."""

    register: int
    amount: int
    by: int = Register.NONE  # times `amount`


@dataclass(frozen=True)
class Stage:
    """Loads that are told equally far ahead."""

    times: int  # the distance
    loads: tuple[int, ...]  # in the order in which a turn comes to them
    steps: tuple[int, ...]  # what computes their addresses, in that order too
    starts: frozenset[int]  # registers that these begin with


@dataclass(frozen=True)
class Inline:
    graph: Graph
    loop: Loop
    loads: tuple[int, ...]  # of all stages
    stages: tuple[Stage, ...]  # the farthest first
    stepping: tuple[Stepping, ...]
    leading: int  # the load whose address grows evenly: the first on the way to any of them

    @property
    def head(self) -> int:
        return self.loop.head

    def step(self, address: int) -> Step:
        return self.graph.steps[address]

    @property
    def amount(self) -> int:
        """Bytes by which the leading address grows in a turn; 0 where a register says it."""
        operand = self.step(self.leading).operand()
        if operand is None or any(one.by != Register.NONE for one in self.stepping):
            return 0
        amounts = {one.register: one.amount for one in self.stepping}
        return amounts.get(operand.base, 0) + amounts.get(operand.index, 0) * operand.scale


@dataclass(frozen=True)
class _Needs:
    """Of a load: steps that compute its address in a turn, registers that they start from, and how
    many loads one after the other they have."""

    steps: frozenset[int]
    starts: frozenset[int]
    depth: int


def inline(
    graph: Graph, loop: Loop, loads: Iterable[int], beside: Iterable[int] = ()
) -> Inline | Declined:
    """Of the loads, those whose addresses can be told ahead in this loop. Of those `beside` them,
    the ones that depend on other loads come along: hardware brings what grows evenly."""
    turn = _Turn(graph, loop)
    needs: dict[int, _Needs] = {}
    reasons: list[str] = []
    for load in loads:
        if load not in loop.steps:
            continue
        found = turn.needs(load)
        if isinstance(found, Declined):
            reasons.append(found.reason)
        else:
            needs[load] = found
    if not needs:
        return Declined(reasons[0] if reasons else "none of its loads is in the loop")
    feeding = {at for one in needs.values() for at in one.steps if graph.steps[at].loads}
    more = turn.dependent(feeding)
    for chosen in (needs | more | turn.dependent(beside), needs | more):
        made = turn.inline(chosen)
        if isinstance(made, Inline):
            break
    return made


class _Turn:
    """One turn of a loop: its steps without the ways back."""

    def __init__(self, graph: Graph, loop: Loop):
        self.graph, self.loop = graph, loop
        self.order = self._order()
        self.writes: dict[int, list[int]] = {}
        for at in loop.steps:
            for register in self._written(at):
                self.writes.setdefault(register, []).append(at)

    def _written(self, at: int) -> frozenset[int]:
        step = self.graph.steps[at]
        if is_call(step) and at not in self.graph.followed:
            return _GENERAL | {FLAGS}
        return step.writes

    def position(self, at: int) -> int:
        return self.order.get(at, 1 << 30)

    def _order(self) -> dict[int, int]:
        """Steps numbered so that each comes behind those that lead to it, ways back aside."""
        done: list[int] = []
        state: dict[int, int] = {}
        stack: list[tuple[int, list[int]]] = [(self.loop.head, self._after(self.loop.head))]
        state[self.loop.head] = 1
        while stack:
            at, left = stack[-1]
            if left:
                end = left.pop()
                if end not in state:
                    state[end] = 1
                    stack.append((end, self._after(end)))
                continue
            done.append(at)
            stack.pop()
        return {at: number for number, at in enumerate(reversed(done))}

    def _repeats(self, at: int) -> bool:
        """Whether an inner loop runs a step several times a turn."""
        inside = set(self.loop.steps) - {self.loop.head}
        return at in closure([at], self.graph.after, inside)

    def _after(self, at: int) -> list[int]:
        return [end for end in self.graph.after[at] if end in self.loop.steps]

    def dependent(self, loads: Iterable[int]) -> dict[int, _Needs]:
        """Those of the loads whose addresses can be told and depend on other loads."""
        found = {load: self.needs(load) for load in loads if load in self.loop.steps}
        return {
            load: one
            for load, one in found.items()
            if not isinstance(one, Declined) and one.depth > 0
        }

    def inline(self, needs: dict[int, _Needs]) -> Inline | Declined:
        steps = {at for one in needs.values() for at in one.steps}
        if len(steps) > MOST_STEPS:
            return Declined(f"it takes {len(steps)} instructions to compute an address")
        order, loads = self._sorted(steps), self._sorted(needs)
        starts = {register for one in needs.values() for register in one.starts}
        found = (self.stepping(register) for register in sorted(starts))
        stepping = tuple(one for one in found if one is not None)
        moving = [at for at in order if self.graph.steps[at].loads]
        leading = (moving or loads)[0]
        stages = self._stages(needs)
        return Inline(self.graph, self.loop, tuple(loads), stages, stepping, leading)

    def _stages(self, needs: dict[int, _Needs]) -> tuple[Stage, ...]:
        depths = sorted({one.depth for one in needs.values()})
        found: list[Stage] = []
        for number, depth in enumerate(depths):
            loads = self._apart([load for load, one in needs.items() if one.depth == depth], needs)
            steps = {at for load in loads for at in needs[load].steps}
            starts = frozenset(register for load in loads for register in needs[load].starts)
            found.append(
                Stage(len(depths) - number, tuple(loads), tuple(self._sorted(steps)), starts)
            )
        return tuple(found)

    def _apart(self, loads: list[int], needs: dict[int, _Needs]) -> list[int]:
        """Without those that most likely lie in the line of another."""
        kept: list[int] = []
        last: dict[tuple[int, int, int, frozenset[int]], int] = {}
        for load in sorted(loads, key=self._displacement):
            operand = self.graph.steps[load].operand()
            assert operand is not None
            same = (operand.base, operand.index, operand.scale, needs[load].steps)
            if same in last and operand.displacement - last[same] < NEAR:
                continue
            last[same] = operand.displacement
            kept.append(load)
        return self._sorted(kept)

    def _displacement(self, load: int) -> int:
        operand = self.graph.steps[load].operand()
        return operand.displacement if operand is not None else 0

    def _sorted(self, steps: Iterable[int]) -> list[int]:
        return sorted(steps, key=self.position)

    def needs(self, load: int) -> _Needs | Declined:
        operand = self.graph.steps[load].operand()
        if operand is None or self.graph.steps[load].instruction.is_stack_instruction:
            return Declined("it is no plain load")
        steps: set[int] = set()
        starts: set[int] = set()
        deepest = 0
        left = [(load, register, 0) for register in operand.registers]
        while left:
            at, register, depth = left.pop()
            if register in (Register.RSP, Register.RIP, Register.NONE):
                continue
            made = self.definition(at, register)
            if made is None:
                starts.add(register)
                continue
            step = self.graph.steps[made]
            if made in steps:
                continue
            refusal = _refusal(step)
            if refusal:
                return Declined(refusal)
            if depth + step.loads > MOST_DEPTH:
                return Declined(f"its address depends on more than {MOST_DEPTH} loads in a row")
            steps.add(made)
            deepest = max(deepest, depth + step.loads)
            left += [(made, one, depth + step.loads) for one in step.reads]
        refusal = self._unsteady(starts)
        if refusal:
            return Declined(refusal)
        return _Needs(frozenset(steps), frozenset(starts), deepest)

    def _unsteady(self, starts: set[int]) -> str:
        """Why a turn's addresses cannot be told from what it starts with; nothing when they can."""
        steady = False
        for register in starts:
            if register not in self.writes:
                continue
            if self.stepping(register) is None:
                return "its address depends on what a turn before computed"
            steady = True
        return "" if steady else "its address does not change in the loop"

    def definition(self, at: int, register: int) -> int | None:
        """The step of this turn that defines a register, first on the way; None: it comes from the
        turn before."""
        before = {
            one
            for one in closure([at], self.graph.before, set(self.loop.steps))
            if self.position(one) < self.position(at)
        }
        made = [one for one in before if register in self._written(one)]
        # Of several, the earliest is what the first way through the turn brings.
        made = [one for one in made if self._reaches(one, at, register)]
        return min(made, key=self.position) if made else None

    def _reaches(self, made: int, at: int, register: int) -> bool:
        """Whether a definition comes to a step within the turn without another in between."""
        left, seen = self._forward(made), set[int]()
        while left:
            one = left.pop()
            if one == at:
                return True
            if one in seen:
                continue
            seen.add(one)
            if register not in self._written(one):
                left += self._forward(one)
        return False

    def _forward(self, at: int) -> list[int]:
        return [end for end in self._after(at) if self.position(end) > self.position(at)]

    def stepping(self, register: int) -> Stepping | None:
        """How a register grows from turn to turn, when one addition is all that happens to it."""
        made = self.writes.get(register, [])
        if len(made) != 1 or self._repeats(made[0]):
            return None
        instruction = self.graph.steps[made[0]].instruction
        if RegisterExt.full_register(instruction.op0_register) != register:
            return None
        if RegisterExt.size(instruction.op0_register) < 4:
            return None
        kind = instruction.mnemonic
        if kind in (Mnemonic.INC, Mnemonic.DEC):
            return Stepping(register, 1 if kind == Mnemonic.INC else -1)
        if kind == Mnemonic.LEA and instruction.memory_base == register:
            plain = instruction.memory_index == Register.NONE
            return Stepping(register, _signed(instruction.memory_displacement)) if plain else None
        if kind not in (Mnemonic.ADD, Mnemonic.SUB):
            return None
        sign = 1 if kind == Mnemonic.ADD else -1
        if instruction.op1_kind == OpKind.REGISTER:
            by = RegisterExt.full_register(instruction.op1_register)
            return Stepping(register, sign, by) if by not in self.writes else None
        if instruction.op1_kind == OpKind.MEMORY:
            return None
        return Stepping(register, sign * _signed(instruction.immediate(1)))


def _refusal(step: Step) -> str:
    if is_call(step):
        return "its address depends on a call"
    if step.stores or step.instruction.is_stack_instruction:
        return "its address depends on a store"
    if any(one not in _GENERAL and one != FLAGS for one in step.writes):
        return "its address depends on vector registers"
    return ""


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
