# SPDX-License-Identifier: Apache-2.0
"""The code of inline prefetches for one distance: by stages, the addresses of later turns."""

from __future__ import annotations

from dataclasses import dataclass

from iced_x86 import Code, Instruction, Mnemonic, OpKind, Register, RegisterExt

from stallscope.slicing.assembler import GENERAL, Assembler, CannotEncode, at, operand_of
from stallscope.slicing.inline import Inline, Stage, Stepping
from stallscope.slicing.site import Frame, Net, Site, displaced, finish, live, original
from stallscope.slicing.step import FLAGS, Step
from stallscope.slicing.trace import Declined

_FARTHEST = 1 << 30  # bytes that a displacement can be moved by
_MOST_SAVED = 12


def inline_site(
    ahead: Inline,
    code: int,
    distance: int,
    *,
    prefetch: bool = True,
    guard: bool = True,
    count: int | None = None,
) -> Site | Declined:
    """`code` is where it will lie. With `guard` it reads only within pages that the program is
    about to read anyway. Without prefetches it is the control that costs the same and brings
    nothing. `count` is the address of a word that counts turns."""
    moved = displaced(ahead.graph.steps, ahead.head)
    if isinstance(moved, Declined):
        return moved
    try:
        plans = [_Plan(ahead, stage, distance * stage.times, guard) for stage in ahead.stages]
        return _Writer(ahead, code, prefetch, count).site(plans, moved)
    except CannotEncode as error:
        return Declined(f"it cannot be written elsewhere: {error}")
    except _Refused as refused:
        return Declined(str(refused))


class _Refused(Exception):
    pass


@dataclass(frozen=True)
class _Shift:
    stepping: Stepping
    turns: int

    @property
    def amount(self) -> int:
        return self.stepping.amount * self.turns


class _Plan:
    """How one stage is written: which registers are set forward as part of each address, and which
    by an instruction of their own."""

    def __init__(self, ahead: Inline, stage: Stage, turns: int, guard: bool):
        self.ahead, self.stage, self.guarded = ahead, stage, guard and bool(stage.steps)
        shifts = [_Shift(one, turns) for one in ahead.stepping if one.register in stage.starts]
        self.folded = {one.stepping.register: one for one in shifts if self._folds(one)}
        self.added = [one for one in shifts if one.stepping.register not in self.folded]
        if self.guarded:
            self._check_guards()

    @property
    def parts(self) -> set[int]:
        return {*self.stage.steps, *self.stage.loads}

    @property
    def multiplies(self) -> bool:
        return any(one.stepping.by != Register.NONE for one in self.added)

    @property
    def written(self) -> set[int]:
        return {one for place in self.stage.steps for one in self.ahead.step(place).writes}

    @property
    def changes_flags(self) -> bool:
        return bool(self.added) or self.guarded or FLAGS in self.written

    def _folds(self, shift: _Shift) -> bool:
        """Only addresses are made of the register, and it stays as it is."""
        register = shift.stepping.register
        if shift.stepping.by != Register.NONE or register in self.written:
            return False
        if abs(shift.amount) * 8 > _FARTHEST:
            return False
        return all(
            register not in _plain_reads(self.ahead.step(place)) for place in self.stage.steps
        )

    def _check_guards(self) -> None:
        """A fault could not be caught: only addresses that can be compared with those of this turn
        are read."""
        if self.added:
            raise _Refused("the program blocks the signal of faults")
        for place in self.stage.steps:
            step = self.ahead.step(place)
            operand = step.operand()
            divides = step.instruction.mnemonic in (Mnemonic.DIV, Mnemonic.IDIV)
            if divides or (operand is not None and operand.registers & self.written):
                raise _Refused("the program blocks the signal of faults")

    def moved(self, step: Step) -> int:
        """Bytes that its address lies further on, some turns ahead."""
        instruction = step.instruction
        far = 0
        for register, times in (
            (instruction.memory_base, 1),
            (instruction.memory_index, instruction.memory_index_scale),
        ):
            if register in self.folded:
                far += self.folded[register].amount * times
        return far


def _plain_reads(step: Step) -> frozenset[int]:
    """Registers that are read for something else than the address of an operand."""
    instruction = step.instruction
    named = {
        int(RegisterExt.full_register(instruction.op_register(number)))
        for number in range(instruction.op_count)
        if instruction.op_kind(number) == OpKind.REGISTER
    }
    pieces = {instruction.memory_base, instruction.memory_index}
    return (step.reads - pieces) | (named - step.writes)


class _Writer:
    def __init__(self, ahead: Inline, code: int, prefetch: bool, count: int | None):
        self.ahead, self.prefetch, self.count = ahead, prefetch, count
        self.steps = ahead.graph.steps
        self.out = Assembler(code)
        self.nets: list[tuple[int, int, int]] = []  # labels

    def site(self, plans: list[_Plan], moved: list[Step]) -> Site:
        head, out = self.ahead.head, self.out
        self.spare = self._spare(plans)
        changed = {
            *(one for plan in plans for one in plan.written if one not in (FLAGS, Register.RSP)),
            *self.spare,
        }
        saved = [one for one in sorted(changed) if live(self.steps, head, one)]
        if len(saved) > _MOST_SAVED:
            raise _Refused("too many registers change")
        flags = self.count is not None or any(plan.changes_flags for plan in plans)
        self.frame = Frame(out, flags and live(self.steps, head, FLAGS))
        self.frame.open(saved)
        for plan in plans:
            self._stage(plan)
        if self.count is not None:
            out.add(Instruction.create_mem_i32(Code.ADD_RM64_IMM8, at(self.count), 1))
        self.frame.close()
        body, patch = finish(out, moved, head)
        places = out.places
        nets = tuple(Net(places[one], places[two], places[three]) for one, two, three in self.nets)
        return Site(head, original(moved, len(patch)), patch, body, nets)

    def _spare(self, plans: list[_Plan]) -> list[int]:
        """Registers that nothing here uses: two to compare addresses with, one to multiply in."""
        wanted = max(2 * plan.guarded or int(plan.multiplies) for plan in plans)
        used = (
            {
                register
                for plan in plans
                for place in plan.parts
                for register in self.steps[place].reads | self.steps[place].writes
            }
            | {one.register for one in self.ahead.stepping}
            | {Register.RSP}
        )
        free = [one for one in GENERAL if one not in used]
        free.sort(key=lambda one: live(self.steps, self.ahead.head, one))  # dead ones are not saved
        if len(free) < wanted:
            raise _Refused("no register is free")
        return free[:wanted]

    def _stage(self, plan: _Plan) -> None:
        out = self.out
        begin, end = out.label(), out.label()
        for shift in plan.added:
            self._shift(shift, Code.ADD_RM64_IMM32, Code.ADD_R64_RM64)
        out.mark(begin)
        for place in _in_turn(self.ahead, plan.stage):
            step = self.steps[place]
            if plan.guarded and place in plan.stage.steps and step.loads:
                self._guard(plan, step, end)
            if place in plan.stage.loads:
                self._prefetch(plan, step)
            if place in plan.stage.steps:
                out.add(self._moved(plan, step))
        out.mark(end)
        self.nets.append((begin, end, end))
        for shift in plan.added:
            if shift.stepping.register in self.frame.saved:
                self.frame.reload(shift.stepping.register)
            else:
                self._shift(shift, Code.SUB_RM64_IMM32, Code.SUB_R64_RM64)

    def _shift(self, shift: _Shift, plainly: int, by_register: int) -> None:
        one, out = shift.stepping, self.out
        if abs(shift.amount) > _FARTHEST:
            raise _Refused("what it would bring is too far away")
        if one.by == Register.NONE:
            out.add(Instruction.create_reg_i32(plainly, one.register, shift.amount))
            return
        free = self.spare[0]
        out.add(
            Instruction.create_reg_reg_i32(Code.IMUL_R64_RM64_IMM32, free, one.by, shift.amount)
        )
        out.add(Instruction.create_reg_reg(by_register, one.register, free))

    def _prefetch(self, plan: _Plan, step: Step) -> None:
        wanted = operand_of(step.instruction, self._lower(step) + plan.moved(step))
        # Both only take the address.
        code = Code.PREFETCHT0_M8 if self.prefetch else Code.NOP_RM32
        self.out.add(Instruction.create_mem(code, wanted))

    def _guard(self, plan: _Plan, step: Step, skip: int) -> None:
        """Only within the page that the program is about to read anyway."""
        operand = step.operand()
        assert operand is not None
        lower, out = self._lower(step), self.out
        here = operand_of(step.instruction, lower)
        last = operand_of(step.instruction, lower + plan.moved(step) + operand.size - 1)
        one, other = self.spare[:2]
        out.add(Instruction.create_reg_mem(Code.LEA_R64_M, one, here))
        out.add(Instruction.create_reg_mem(Code.LEA_R64_M, other, last))
        out.add(Instruction.create_reg_reg(Code.XOR_R64_RM64, other, one))
        out.add(Instruction.create_reg_i32(Code.SHR_RM64_IMM8, other, 12))
        out.jump(skip, Code.JNE_REL32_64)

    def _lower(self, step: Step) -> int:
        """What is added to addresses on the stack, which stands lower here."""
        return self.frame.depth if step.instruction.memory_base == Register.RSP else 0

    def _moved(self, plan: _Plan, step: Step) -> Instruction:
        """The step as it is some turns ahead."""
        if (
            step.instruction.memory_base != Register.RSP
            and Register.RSP in step.reads | step.writes
        ):
            raise CannotEncode(f"{step.instruction} uses the stack pointer")
        far = self._lower(step) + plan.moved(step)
        if not far:
            return step.instruction
        copy = step.instruction.copy()
        copy.memory_displacement = (copy.memory_displacement + far) % (1 << 64)
        copy.memory_displ_size = 8
        return copy


def _in_turn(ahead: Inline, stage: Stage) -> list[int]:
    """Steps and loads merged, each list in its own order."""
    order = list(stage.steps)
    for load in stage.loads:
        if load in order:
            continue
        operand = ahead.step(load).operand()
        needed = operand.registers if operand else frozenset()
        behind = -1
        for number, place in enumerate(order):
            if place in stage.steps and ahead.step(place).writes & needed and place < load:
                behind = number
        order.insert(behind + 1, load)
    return order
