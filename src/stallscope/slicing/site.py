# SPDX-License-Identifier: Apache-2.0
"""Patched sites: code that a jump at a loop's head leads to, and that comes back behind it.

The code saves what it changes below the red zone and restores it, so that a signal, a longjmp or
the end of a thread may happen anywhere in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iced_x86 import (
    Code,
    FlowControl,
    Instruction,
    MemoryOperand,
    Mnemonic,
    Register,
)

from stallscope.slicing.assembler import GENERAL, Assembler, CannotEncode, at, operand_of
from stallscope.slicing.graph import is_call
from stallscope.slicing.inline import Inline
from stallscope.slicing.step import FLAGS, Step
from stallscope.slicing.trace import Declined

JUMP = 5  # bytes of a jump to anywhere near
_ROOM = 0x100  # below the stack pointer: the red zone, and what is saved
# Words of a site: what is counted, and by how much registers are set forward.
COUNT, SHIFTS = 8, 16
SITE_BYTES = 128
# Words of a slot (runtime/ahead/layout.h, struct ahead_slot).
SLOT_WANT, SLOT_HANDED, SLOT_RUNS, SLOT_AT_HAND, SLOT_HAND = 4, 8, 32, 40, 80


@dataclass(frozen=True)
class Site:
    address: int
    original: bytes  # as long as `patch`
    patch: bytes
    code: bytes
    net: tuple[int, int, int] | None  # begin, end and landing of code in which a fault is caught


_LAST = (FlowControl.RETURN, FlowControl.CONDITIONAL_BRANCH)


def displaced(steps: Mapping[int, Step], address: int, ends: bool = False) -> list[Step] | Declined:
    """The instructions that a jump at an address would overwrite. The last of them may be a return
    or a branch when the code that they are moved to `ends` with them."""
    found: list[Step] = []
    length = 0
    targets = {step.target for step in steps.values() if step.target is not None}
    while length < JUMP:
        step = steps.get(address + length)
        if step is None:
            return Declined("what follows its loop's head is not known")
        if length and step.address in targets:
            return Declined("a jump leads into the bytes that would be overwritten")
        last = ends and step.flow in _LAST and length + step.instruction.len >= JUMP
        last = last or (ends and step.flow == FlowControl.RETURN)
        if found and found[-1].flow == FlowControl.RETURN and not _pads(step):
            return Declined("what follows a return is used")
        if (step.flow != FlowControl.NEXT and not last) or is_call(step):
            return Declined(f"{step.instruction} cannot be moved elsewhere")
        found.append(step)
        length += step.instruction.len
    return found


def _pads(step: Step) -> bool:
    return bool(step.instruction.mnemonic in (Mnemonic.NOP, Mnemonic.INT3))


def live(steps: Mapping[int, Step], address: int, register: int) -> bool:
    """Whether a register's value at a place is read later; where that is not known, it is."""
    left, seen = [address], set[int]()
    while left:
        here = left.pop()
        if here in seen:
            continue
        seen.add(here)
        step = steps.get(here)
        if step is None or is_call(step) or register in step.reads:
            return True
        if register in step.kills:
            continue
        if step.flow == FlowControl.UNCONDITIONAL_BRANCH:
            left.append(step.target or 0)
            continue
        if step.flow not in (FlowControl.NEXT, FlowControl.CONDITIONAL_BRANCH):
            return True
        left.append(step.next)
        if step.flow == FlowControl.CONDITIONAL_BRANCH:
            left.append(step.target or 0)
    return False


class _Frame:
    """Room below the red zone for registers and flags."""

    def __init__(self, out: Assembler, steps: Mapping[int, Step], address: int):
        self.out = out
        self.flags = live(steps, address, FLAGS)
        self.saved: list[int] = []
        self.depth = _ROOM + (8 if self.flags else 0)

    def open(self, registers: list[int]) -> None:
        if not registers and not self.flags:
            self.depth = 0
            return
        room = MemoryOperand(Register.RSP, displ=-_ROOM, displ_size=8)
        self.out.add(Instruction.create_reg_mem(Code.LEA_R64_M, Register.RSP, room))
        if self.flags:
            self.out.add(Instruction.create(Code.PUSHFQ))
        self.saved = registers
        for number, register in enumerate(registers):
            place = MemoryOperand(Register.RSP, displ=8 + 8 * number, displ_size=8)
            self.out.add(Instruction.create_mem_reg(Code.MOV_RM64_R64, place, register))

    def close(self) -> None:
        if not self.depth:
            return
        for number, register in enumerate(self.saved):
            place = MemoryOperand(Register.RSP, displ=8 + 8 * number, displ_size=8)
            self.out.add(Instruction.create_reg_mem(Code.MOV_R64_RM64, register, place))
        if self.flags:
            self.out.add(Instruction.create(Code.POPFQ))
        room = MemoryOperand(Register.RSP, displ=_ROOM, displ_size=8)
        self.out.add(Instruction.create_reg_mem(Code.LEA_R64_M, Register.RSP, room))


def _finish(out: Assembler, moved: list[Step], address: int, code: int) -> tuple[bytes, bytes]:
    """The displaced instructions and the way back; the code, and the jump to it."""
    for step in moved:
        copy = step.instruction.copy()
        if step.flow == FlowControl.CONDITIONAL_BRANCH:
            copy.as_near_branch()
        out.add(copy)
    back = address + sum(step.instruction.len for step in moved)
    out.add(Instruction.create_branch(Code.JMP_REL32_64, back))
    body = out.assemble()
    way = Assembler(address)
    way.add(Instruction.create_branch(Code.JMP_REL32_64, code))
    return body, way.assemble()


def _original(moved: list[Step], length: int) -> bytes:
    from iced_x86 import Encoder

    found = b""
    for step in moved:
        encoder = Encoder(64)
        encoder.encode(step.instruction, step.address)
        found += bytes(encoder.take_buffer())
    return found[:length]


def inline_site(
    ahead: Inline, code: int, words: int, prefetch: bool = True, guard: bool = True
) -> Site | Declined:
    """`code` is where it will lie, `words` the address of its words. With `guard` it reads only
    within the page that the program is about to read anyway. Without prefetches it is the
    control that costs the same and brings nothing."""
    steps = ahead.graph.steps
    moved = displaced(steps, ahead.head)
    if isinstance(moved, Declined):
        return moved
    out = Assembler(code)
    frame = _Frame(out, steps, ahead.head)
    spare = [
        one
        for one in GENERAL
        if one != Register.RSP and all(one not in _touched(steps[at_]) for at_ in _parts(ahead))
    ]
    spare.sort(key=lambda one: live(steps, ahead.head, one))  # dead ones need not be saved
    by_register = any(one.by != Register.NONE for one in ahead.stepping)
    guarded = guard and ahead.leading in ahead.steps and len(spare) >= 2
    changed = {
        one for at_ in ahead.steps for one in steps[at_].writes if one not in (FLAGS, Register.RSP)
    }
    if guarded:
        changed |= set(spare[:2])
    elif by_register:
        if not spare:
            return Declined("no register is free")
        changed |= set(spare[:1])
    saved = [one for one in sorted(changed) if live(steps, ahead.head, one)]
    if len(saved) > 12:
        return Declined("too many registers change")
    try:
        return _inline(ahead, out, frame, saved, spare, guarded, words, moved, prefetch)
    except CannotEncode as error:
        return Declined(f"it cannot be written elsewhere: {error}")


def _parts(ahead: Inline) -> set[int]:
    return {*ahead.steps, *ahead.loads}


def _touched(step: Step) -> frozenset[int]:
    return step.reads | step.writes


def _inline(
    ahead: Inline,
    out: Assembler,
    frame: _Frame,
    saved: list[int],
    spare: list[int],
    guarded: bool,
    words: int,
    moved: list[Step],
    prefetch: bool,
) -> Site:
    frame.open(saved)
    skip, begin, end = out.label(), out.label(), out.label()
    leading = ahead.step(ahead.leading)
    if guarded:
        out.add(_lea(spare[0], leading, frame.depth))
    for number, one in enumerate(ahead.stepping):
        shift = at(words + SHIFTS + 8 * number)
        if one.by == Register.NONE:
            out.add(Instruction.create_reg_mem(Code.ADD_R64_RM64, one.register, shift))
            continue
        free = spare[1] if guarded else spare[0]
        out.add(Instruction.create_reg_mem(Code.MOV_R64_RM64, free, shift))
        out.add(Instruction.create_reg_reg(Code.IMUL_R64_RM64, free, one.by))
        out.add(Instruction.create_reg_reg(Code.ADD_R64_RM64, one.register, free))
    out.mark(begin)
    for place in _in_turn(ahead):
        step = ahead.step(place)
        if guarded and place == ahead.leading:
            _guard(out, step, spare, frame.depth, skip)
        if place in ahead.loads:
            wanted = operand_of(step.instruction, _lower(step, frame.depth))
            code = Code.PREFETCHT0_M8 if prefetch else Code.NOP_RM32  # both only take the address
            out.add(Instruction.create_mem(code, wanted))
        if place in ahead.steps:
            out.add(_lowered(step, frame.depth))
    out.mark(end)
    out.mark(skip)
    for number, one in enumerate(ahead.stepping):  # what no step changed goes back the way it came
        if one.register in saved:
            continue
        if one.by == Register.NONE:
            shift = at(words + SHIFTS + 8 * number)
            out.add(Instruction.create_reg_mem(Code.SUB_R64_RM64, one.register, shift))
        else:
            free = spare[1] if guarded else spare[0]
            out.add(
                Instruction.create_reg_mem(Code.MOV_R64_RM64, free, at(words + SHIFTS + 8 * number))
            )
            out.add(Instruction.create_reg_reg(Code.IMUL_R64_RM64, free, one.by))
            out.add(Instruction.create_reg_reg(Code.SUB_R64_RM64, one.register, free))
    frame.close()
    body, patch = _finish(out, moved, ahead.head, out.base)
    places = out.places
    net = (places[begin], places[end], places[skip])
    return Site(ahead.head, _original(moved, len(patch)), patch, body, net)


def _in_turn(ahead: Inline) -> list[int]:
    """Steps and loads merged, each list in its own order."""
    order = list(ahead.steps)
    for load in ahead.loads:
        if load in order:
            continue
        operand = ahead.step(load).operand()
        needed = operand.registers if operand else frozenset()
        behind = -1
        for number, place in enumerate(order):
            if place in ahead.steps and ahead.step(place).writes & needed and place < load:
                behind = number
        order.insert(behind + 1, load)
    return order


def _guard(out: Assembler, step: Step, spare: list[int], depth: int, skip: int) -> None:
    """Only within the page that the program is about to read anyway."""
    operand = step.operand()
    assert operand is not None
    last = operand_of(step.instruction, _lower(step, depth) + operand.size - 1)
    out.add(Instruction.create_reg_mem(Code.LEA_R64_M, spare[1], last))
    out.add(Instruction.create_reg_reg(Code.XOR_R64_RM64, spare[1], spare[0]))
    out.add(Instruction.create_reg_i32(Code.SHR_RM64_IMM8, spare[1], 12))
    out.jump(skip, Code.JNE_REL32_64)


def _lea(register: int, step: Step, depth: int) -> Instruction:
    wanted = operand_of(step.instruction, _lower(step, depth))
    return Instruction.create_reg_mem(Code.LEA_R64_M, register, wanted)


def _lower(step: Step, depth: int) -> int:
    """What is added to addresses on the stack, which stands lower here."""
    return depth if step.instruction.memory_base == Register.RSP else 0


def _lowered(step: Step, depth: int) -> Instruction:
    if step.instruction.memory_base != Register.RSP:
        if Register.RSP in step.reads or Register.RSP in step.writes:
            raise CannotEncode(f"{step.instruction} uses the stack pointer")
        return step.instruction
    copy = step.instruction.copy()
    copy.memory_displacement = (copy.memory_displacement + depth) % (1 << 64)
    copy.memory_displ_size = 8
    return copy


def meter_site(steps: Mapping[int, Step], address: int, code: int, words: int) -> Site | Declined:
    """Only counts how often control comes here."""
    moved = displaced(steps, address, ends=True)
    if isinstance(moved, Declined):
        return moved
    out = Assembler(code)
    frame = _Frame(out, steps, address)
    frame.open([])
    out.add(Instruction.create_mem_i32(Code.ADD_RM64_IMM8, at(words + COUNT), 1))
    frame.close()
    try:
        body, patch = _finish(out, moved, address, code)
    except CannotEncode as error:
        return Declined(f"it cannot be written elsewhere: {error}")
    return Site(address, _original(moved, len(patch)), patch, body, None)


def handover_site(steps: Mapping[int, Step], address: int, code: int, slot: int) -> Site | Declined:
    """Counts runs, and hands registers over when the assist thread wants them."""
    moved = displaced(steps, address)
    if isinstance(moved, Declined):
        return moved
    out = Assembler(code)
    frame = _Frame(out, steps, address)
    frame.open([])
    skip = out.label()
    rax = Register.RAX
    out.add(Instruction.create_mem_i32(Code.ADD_RM64_IMM8, at(slot + SLOT_RUNS), 1))
    out.add(Instruction.create_mem_i32(Code.CMP_RM32_IMM8, at(slot + SLOT_WANT), 0))
    out.jump(skip, Code.JE_REL32_64)
    taking = Instruction.create_mem_i32(Code.BTR_RM32_IMM8, at(slot + SLOT_WANT), 0)
    taking.has_lock_prefix = True
    out.add(taking)
    out.jump(skip, Code.JAE_REL32_64)
    hand = slot + SLOT_HAND
    for number, register in enumerate(GENERAL):
        if register != Register.RSP:
            out.store(hand + 8 * number, register)
    stack = MemoryOperand(Register.RSP, displ=frame.depth, displ_size=8)
    out.add(Instruction.create_reg_mem(Code.LEA_R64_M, rax, stack))
    out.store(hand + 8 * GENERAL.index(Register.RSP), rax)
    out.load(rax, slot + SLOT_RUNS)
    out.store(slot + SLOT_AT_HAND, rax)
    out.load(rax, hand)
    out.add(Instruction.create_mem_i32(Code.MOV_RM32_IMM32, at(slot + SLOT_HANDED), 1))
    out.mark(skip)
    frame.close()
    try:
        body, patch = _finish(out, moved, address, code)
    except CannotEncode as error:
        return Declined(f"it cannot be written elsewhere: {error}")
    return Site(address, _original(moved, len(patch)), patch, body, None)
