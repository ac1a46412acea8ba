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

from stallscope.slicing.assembler import GENERAL, Assembler, CannotEncode, at
from stallscope.slicing.graph import is_call
from stallscope.slicing.step import FLAGS, Step
from stallscope.slicing.trace import Declined

JUMP = 5  # bytes of a jump to anywhere near
_ROOM = 0x100  # below the stack pointer: the red zone, and what is saved
# Words of a slot (runtime/ahead/layout.h, struct ahead_slot).
SLOT_WANT, SLOT_HANDED, SLOT_RUNS, SLOT_AT_HAND, SLOT_HAND = 4, 8, 32, 40, 80


@dataclass(frozen=True)
class Net:
    """Code in which a fault is caught: control goes on at the landing."""

    begin: int
    end: int
    landing: int


@dataclass(frozen=True)
class Site:
    address: int
    original: bytes  # as long as `patch`
    patch: bytes
    code: bytes
    nets: tuple[Net, ...] = ()


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


class Frame:
    """Room below the red zone for registers and flags."""

    def __init__(self, out: Assembler, flags: bool):
        self.out = out
        self.flags = flags
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

    def reload(self, register: int) -> None:
        place = MemoryOperand(Register.RSP, displ=8 + 8 * self.saved.index(register), displ_size=8)
        self.out.add(Instruction.create_reg_mem(Code.MOV_R64_RM64, register, place))

    def close(self) -> None:
        if not self.depth:
            return
        for register in self.saved:
            self.reload(register)
        if self.flags:
            self.out.add(Instruction.create(Code.POPFQ))
        room = MemoryOperand(Register.RSP, displ=_ROOM, displ_size=8)
        self.out.add(Instruction.create_reg_mem(Code.LEA_R64_M, Register.RSP, room))


def finish(out: Assembler, moved: list[Step], address: int) -> tuple[bytes, bytes]:
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
    way.add(Instruction.create_branch(Code.JMP_REL32_64, out.base))
    return body, way.assemble()


def original(moved: list[Step], length: int) -> bytes:
    from iced_x86 import Encoder

    found = b""
    for step in moved:
        encoder = Encoder(64)
        encoder.encode(step.instruction, step.address)
        found += bytes(encoder.take_buffer())
    return found[:length]


def meter_site(steps: Mapping[int, Step], address: int, code: int, count: int) -> Site | Declined:
    """Only counts how often control comes here, in the word at an address."""
    moved = displaced(steps, address, ends=True)
    if isinstance(moved, Declined):
        return moved
    out = Assembler(code)
    frame = Frame(out, live(steps, address, FLAGS))
    frame.open([])
    out.add(Instruction.create_mem_i32(Code.ADD_RM64_IMM8, at(count), 1))
    frame.close()
    try:
        body, patch = finish(out, moved, address)
    except CannotEncode as error:
        return Declined(f"it cannot be written elsewhere: {error}")
    return Site(address, original(moved, len(patch)), patch, body)


def handover_site(steps: Mapping[int, Step], address: int, code: int, slot: int) -> Site | Declined:
    """Counts runs, and hands registers over when the assist thread wants them."""
    moved = displaced(steps, address)
    if isinstance(moved, Declined):
        return moved
    out = Assembler(code)
    frame = Frame(out, live(steps, address, FLAGS))
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
        body, patch = finish(out, moved, address)
    except CannotEncode as error:
        return Declined(f"it cannot be written elsewhere: {error}")
    return Site(address, original(moved, len(patch)), patch, body)
