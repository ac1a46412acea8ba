# SPDX-License-Identifier: Apache-2.0
"""Slices as machine code that an assist thread calls.

A slice runs on its caller's stack and never writes the program's memory. What it needs lies in one
block of data: registers as the program handed them over, how many runs of the load are left until
it must come back, scratch cells, and a shadow of what it would have stored at moving addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from iced_x86 import Code, Instruction, MemoryOperand, Mnemonic, OpKind, Register

from stallscope.slicing.assembler import (
    GENERAL,
    Assembler,
    CannotEncode,
    at,
    fixed,
    near_jump,
    operand_of,
)
from stallscope.slicing.graph import is_call
from stallscope.slicing.slice import Cell, Slice
from stallscope.slicing.step import FLAGS, Step
from stallscope.slicing.trace import Declined

# The block of data; runtime/ahead/layout.h has the same.
REGISTERS = 0  # sixteen, in the order of their numbers
LEFT = 128
STACK = 136  # of the caller
REASON = 144
RESUME = 152
FLAG_BITS = 160
TEMPORARY = 168
COUNT = 176  # runs of the load so far
CELLS = 192
MOST_CELLS = 96
SHADOW = 1024  # entries of address and value
SHADOW_ENTRIES = 4096
DATA_BYTES = SHADOW + 16 * SHADOW_ENTRIES
OFF_TRACE, CHUNK = 0, 1  # reasons

_SAVED = (Register.RBX, Register.RBP, Register.R12, Register.R13, Register.R14, Register.R15)
OUTSIDE = -1


@dataclass(frozen=True)
class Emitted:
    code: bytes
    leave: int  # its way out, for whoever catches its faults
    start: int  # where the slice begins when it is resumed for the first time
    cells: tuple[tuple[Cell, int], ...]  # each with its place in the data
    probes: dict[int, int]  # place in the code -> load whose address is computed there
    steps: int  # that it kept


def emit(
    slice_: Slice, code: int, data: int, prefetch: bool = True, entry: int | None = None
) -> Emitted | Declined:
    """Code for `code`, with data at `data`, both near what the slice reads at fixed addresses. It
    begins at the step `entry`, or else at the load. Without prefetches it is the control that costs
    the same and does nothing."""
    try:
        return _Emitter(slice_, code, data, prefetch).run(entry)
    except CannotEncode as error:
        return Declined(f"it cannot be written elsewhere: {error}")


def follow(slice_: Slice, address: int) -> list[int]:
    """The kept steps that come after a kept one; of a branch the fall-through first. OUTSIDE is
    off the trace."""
    after = slice_.trace.after(address)
    if address in slice_.branches:
        return [_first_kept(slice_, end) for end in after]
    end = after[0] if len(after) == 1 else _beyond(slice_, address)
    return [_first_kept(slice_, end)]


def _first_kept(slice_: Slice, address: int) -> int:
    """Branches that decide nothing are passed."""
    steps, seen = slice_.trace.steps, set[int]()
    while address in steps and address not in slice_.kept:
        if address in seen:
            return OUTSIDE
        seen.add(address)
        after = slice_.trace.after(address)
        address = after[0] if len(after) == 1 else _beyond(slice_, address)
    return address if address in steps else OUTSIDE


def _beyond(slice_: Slice, address: int) -> int:
    """The nearest step that all ways from here pass."""
    known = slice_.postdominators
    return max(known[address] - {address}, key=lambda at: len(known[at]))


class _Emitter:
    def __init__(self, slice_: Slice, code: int, data: int, prefetch: bool):
        self.slice, self.trace, self.data, self.prefetch = slice_, slice_.trace, data, prefetch
        self.out = Assembler(code)
        self.labels = {at: self.out.label() for at in slice_.kept}
        self.labels[OUTSIDE] = self.out.label()
        self.leave = self.out.label()
        self.cells = {cell: CELLS + 8 * i for i, cell in enumerate(slice_.cells)}
        self.probes: dict[int, int] = {}  # label -> load

    def run(self, entry: int | None) -> Emitted | Declined:
        if len(self.cells) > MOST_CELLS or any(cell.size > 8 for cell in self.cells):
            return Declined("it keeps more in memory than scratch cells hold")
        self.enter()
        start = _first_kept(self.slice, self.trace.load if entry is None else entry)
        left, done = [start], set[int]()
        while left:
            here = left.pop()
            while here != OUTSIDE and here not in done:
                done.add(here)
                self.out.mark(self.labels[here])
                here = self.node(here, left)
            self.out.jump(self.labels[here])
        self.out.mark(self.labels[OUTSIDE])
        self.reason(OFF_TRACE)
        self.exit()
        code = self.out.assemble()
        places = self.out.places
        return Emitted(
            code,
            places[self.leave],
            places[self.labels[start]],
            tuple(self.cells.items()),
            {places[label]: load for label, load in self.probes.items()},
            len(self.slice.kept),
        )

    def enter(self) -> None:
        for register in _SAVED:
            self.out.add(Instruction.create_reg(Code.PUSH_R64, register))
        self.out.store(self.data + STACK, Register.RSP)
        for number, register in enumerate(GENERAL):
            if register != Register.RSP:
                self.out.load(register, self.data + REGISTERS + 8 * number)
        self.out.add(Instruction.create_mem(Code.JMP_RM64, at(self.data + RESUME)))

    def exit(self) -> None:
        self.out.mark(self.leave)
        for number, register in enumerate(GENERAL):
            if register != Register.RSP:
                self.out.store(self.data + REGISTERS + 8 * number, register)
        self.out.load(Register.RSP, self.data + STACK)
        for register in reversed(_SAVED):
            self.out.add(Instruction.create_reg(Code.POP_R64, register))
        self.out.add(Instruction.create(Code.RETNQ))

    def reason(self, why: int) -> None:
        self.out.add(Instruction.create_mem_i32(Code.MOV_RM64_IMM32, at(self.data + REASON), why))

    def node(self, here: int, left: list[int]) -> int:
        """Writes one kept step; what comes next."""
        step = self.trace.step(here)
        if here in self.slice.loads:
            self.load(step)
        if here in self.slice.data:
            self.compute(step)
        ends = follow(self.slice, here)
        if here in self.slice.branches:
            if not step.instruction.is_jcc_short_or_near:
                raise CannotEncode(f"{step.instruction} is no plain conditional jump")
            self.out.jump(self.labels[ends[1]], near_jump(step.instruction))
            if ends[1] != OUTSIDE:
                left.append(ends[1])
        return ends[0]

    def load(self, step: Step) -> None:
        """The prefetch of a load; at the trace's own, runs are counted down as well."""
        label = self.out.label()
        self.probes[label] = step.address
        self.out.mark(label)
        instruction = step.instruction
        moving = step.address not in self.slice.places
        if self.prefetch and moving and instruction.memory_base != Register.RSP:
            self.out.add(Instruction.create_mem(Code.PREFETCHT0_M8, operand_of(instruction)))
        else:
            self.out.add(Instruction.create(Code.NOPD))
        if step.address != self.trace.load:
            return
        live = self.flags_needed(step.address)
        flags = at(self.data + FLAG_BITS)
        if live:
            self.out.add(Instruction.create(Code.PUSHFQ))
            self.out.add(Instruction.create_mem(Code.POP_RM64, flags))
        more, resume = self.out.label(), self.out.label()
        count = Instruction.create_mem_i32(Code.SUB_RM64_IMM8, at(self.data + LEFT), 1)
        self.out.add(count)
        self.out.jump(more, Code.JNE_REL32_64)
        self.reason(CHUNK)
        self.resume_at(resume)
        self.out.jump(self.leave)
        self.out.mark(resume)
        self.out.mark(more)
        if live:
            self.out.add(Instruction.create_mem(Code.PUSH_RM64, flags))
            self.out.add(Instruction.create(Code.POPFQ))

    def resume_at(self, label: int) -> None:
        """Keeps where to go on; a register serves and gets its value back."""
        place = at(self.data + RESUME)
        self.out.add(Instruction.create_reg(Code.PUSH_R64, Register.RAX))
        self.out.address(Register.RAX, label)
        self.out.add(Instruction.create_mem_reg(Code.MOV_RM64_R64, place, Register.RAX))
        self.out.add(Instruction.create_reg(Code.POP_R64, Register.RAX))

    def flags_needed(self, address: int) -> bool:
        """Whether a kept step reads the flags as they are before this one."""
        left, seen = [address], set[int]()
        while left:
            here = left.pop()
            if here in seen or here not in self.trace.steps:
                continue
            seen.add(here)
            step = self.trace.step(here)
            kept = here in self.slice.data or here in self.slice.branches
            if kept and FLAGS in step.reads:
                return True
            if kept and FLAGS in step.kills:
                continue
            left.extend(self.trace.after(here))
        return False

    def compute(self, step: Step) -> None:
        instruction, place = step.instruction, self.slice.places.get(step.address)
        if is_call(step):
            raise CannotEncode("a call that computes")
        if place is not None:
            self.in_cell(step, self.data + self.cells[place])
        elif not step.memory:
            self.plain(step)
        elif step.address in self.slice.shadowed or step.stores:
            self.shadowed(step)
        else:
            if instruction.memory_base == Register.RSP:
                raise CannotEncode("an address on the stack moves")
            self.out.add(instruction)

    def plain(self, step: Step) -> None:
        instruction = step.instruction
        stacked = Register.RSP in (instruction.memory_base, instruction.memory_index)
        if not stacked and Register.RSP not in step.reads:
            self.out.add(instruction)
            return
        # The address of something on the stack: the program's, not that of the assist thread.
        if instruction.mnemonic != Mnemonic.LEA or instruction.memory_index != Register.NONE:
            raise CannotEncode(f"{instruction} needs the stack pointer")
        raise CannotEncode("the address of something on the stack")

    def in_cell(self, step: Step, address: int) -> None:
        instruction = step.instruction
        if instruction.mnemonic == Mnemonic.PUSH and instruction.op0_kind == OpKind.REGISTER:
            self.out.store(address, instruction.op0_register)
        elif instruction.mnemonic == Mnemonic.POP and instruction.op0_kind == OpKind.REGISTER:
            self.out.load(instruction.op0_register, address)
        elif instruction.is_stack_instruction:
            raise CannotEncode(f"{instruction} uses the stack in another way")
        else:
            self.out.add(fixed(instruction, address))

    def shadowed(self, step: Step) -> None:
        """Runs on a copy of the memory: the shadow's when there is one for the address, else the
        program's. What it stores goes into the shadow."""
        instruction = step.instruction
        part = step.memory[0]
        if len(step.memory) != 1 or part.size > 8 or Register.RSP in part.registers:
            raise CannotEncode(f"{instruction} cannot be shadowed")
        temporary = self.data + TEMPORARY
        if part.reads:
            self.around(lambda: self.copy_in(step, temporary))
        self.out.add(fixed(instruction, temporary))
        if part.writes and step.address in self.slice.shadowed:
            # The instruction may have changed a register of the address only if it loads; a store
            # leaves them.
            self.around(lambda: self.copy_out(step, temporary))

    def around(self, body: object) -> None:
        self.out.add(Instruction.create(Code.PUSHFQ))
        for register in (Register.RAX, Register.RCX):
            self.out.add(Instruction.create_reg(Code.PUSH_R64, register))
        body()  # type: ignore[operator]
        for register in (Register.RCX, Register.RAX):
            self.out.add(Instruction.create_reg(Code.POP_R64, register))
        self.out.add(Instruction.create(Code.POPFQ))

    def entry(self, step: Step) -> MemoryOperand:
        """rax: the address; rcx: the shadow's entry for it."""
        out = self.out
        rax, rcx = Register.RAX, Register.RCX
        out.add(Instruction.create_reg_mem(Code.LEA_R64_M, rax, operand_of(step.instruction)))
        out.add(Instruction.create_reg_reg(Code.MOV_R64_RM64, rcx, rax))
        out.add(Instruction.create_reg_i32(Code.SHR_RM64_IMM8, rcx, 2))
        out.add(Instruction.create_reg_i32(Code.AND_RM64_IMM32, rcx, SHADOW_ENTRIES - 1))
        out.add(Instruction.create_reg_i32(Code.SHL_RM64_IMM8, rcx, 4))
        shadow = Instruction.create_reg_mem(Code.LEA_R64_M, rax, at(self.data + SHADOW))
        out.add(Instruction.create_reg(Code.PUSH_R64, rax))
        out.add(shadow)
        out.add(Instruction.create_reg_reg(Code.ADD_R64_RM64, rcx, rax))
        out.add(Instruction.create_reg(Code.POP_R64, rax))
        return MemoryOperand(rcx, displ=0, displ_size=0)

    def copy_in(self, step: Step, temporary: int) -> None:
        out, rax, rcx = self.out, Register.RAX, Register.RCX
        key = self.entry(step)
        other, done = out.label(), out.label()
        out.add(Instruction.create_reg_mem(Code.CMP_R64_RM64, rax, key))
        out.jump(other, Code.JNE_REL32_64)
        value = MemoryOperand(rcx, displ=8, displ_size=1)
        out.add(Instruction.create_reg_mem(Code.MOV_R64_RM64, rax, value))
        out.jump(done)
        out.mark(other)
        size = step.memory[0].size
        codes = {1: Code.MOVZX_R64_RM8, 2: Code.MOVZX_R64_RM16, 8: Code.MOV_R64_RM64}
        target = Register.EAX if size == 4 else rax
        memory = MemoryOperand(rax, displ=0, displ_size=0)
        code = codes.get(size, Code.MOV_R32_RM32)
        out.add(Instruction.create_reg_mem(code, target, memory))
        out.mark(done)
        out.store(temporary, rax)

    def copy_out(self, step: Step, temporary: int) -> None:
        out, rax, rcx = self.out, Register.RAX, Register.RCX
        key = self.entry(step)
        out.add(Instruction.create_mem_reg(Code.MOV_RM64_R64, key, rax))
        out.load(rax, temporary)
        value = MemoryOperand(rcx, displ=8, displ_size=1)
        out.add(Instruction.create_mem_reg(Code.MOV_RM64_R64, value, rax))
