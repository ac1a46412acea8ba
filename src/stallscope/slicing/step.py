# SPDX-License-Identifier: Apache-2.0
"""One instruction as slicing sees it: what it reads and writes, and where control goes."""

from __future__ import annotations

from dataclasses import dataclass, field

from iced_x86 import (
    Code,
    Decoder,
    FlowControl,
    Instruction,
    InstructionInfoFactory,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
    RflagsBits,
)

FLAGS = -1  # as a register's number
_ARITHMETIC = (
    RflagsBits.OF | RflagsBits.SF | RflagsBits.ZF | RflagsBits.AF | RflagsBits.CF | RflagsBits.PF
)
_READS = frozenset(
    (
        OpAccess.READ,
        OpAccess.COND_READ,
        OpAccess.READ_WRITE,
        OpAccess.READ_COND_WRITE,
    )
)
_WRITES = frozenset((OpAccess.WRITE, OpAccess.READ_WRITE))
_MAY_WRITE = frozenset((OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE))
_factory = InstructionInfoFactory()


@dataclass(frozen=True)
class Memory:
    """A memory operand: what its address is made of, and what is done there."""

    base: int
    index: int
    scale: int
    displacement: int  # of one relative to the instruction pointer: the address itself
    size: int
    reads: bool
    writes: bool

    @property
    def registers(self) -> frozenset[int]:
        return frozenset(part for part in (self.base, self.index) if part != Register.NONE)


@dataclass(frozen=True)
class Step:
    address: int
    instruction: Instruction
    reads: frozenset[int]  # whole registers, FLAGS among them; those of addresses too
    writes: frozenset[int]
    kills: frozenset[int]  # of `writes`: nothing of what was there before stays
    memory: tuple[Memory, ...]
    flow: int  # FlowControl
    target: int | None  # of a direct jump or call
    count: int = field(default=0, compare=False)  # times that it ran; 0 when unknown

    @property
    def next(self) -> int:
        return self.address + int(self.instruction.len)

    @property
    def loads(self) -> bool:
        return any(part.reads for part in self.memory)

    @property
    def stores(self) -> bool:
        return any(part.writes for part in self.memory)

    def operand(self) -> Memory | None:
        """What it loads, hidden operands of push and pop aside."""
        return next((part for part in self.memory if part.reads), None)


def decode(code: bytes, address: int, count: int = 0) -> Step | None:
    """The first instruction of the bytes; None when they are none."""
    instruction = Decoder(64, code, ip=address).decode()
    if instruction.is_invalid:
        return None
    return step_of(instruction, count)


def step_of(instruction: Instruction, count: int = 0) -> Step:
    info = _factory.info(instruction)
    reads, writes, kills = set[int](), set[int](), set[int]()
    for used in info.used_registers():
        whole = RegisterExt.full_register(used.register)
        if used.access in _READS:
            reads.add(whole)
        if used.access in _WRITES or used.access in _MAY_WRITE:
            writes.add(whole)
            # Of a general register, a write of 32 bits clears the rest; 8 and 16 bits leave it.
            small = RegisterExt.is_gpr8(used.register) or RegisterExt.is_gpr16(used.register)
            if used.access in _WRITES and not small:
                kills.add(whole)
            else:
                reads.add(whole)
    if instruction.rflags_read & _ARITHMETIC:
        reads.add(FLAGS)
    changed = instruction.rflags_modified & _ARITHMETIC
    if changed:
        writes.add(FLAGS)
        if changed | RflagsBits.AF == _ARITHMETIC:
            kills.add(FLAGS)
        else:
            reads.add(FLAGS)
    if is_zeroing(instruction):
        reads -= {RegisterExt.full_register(instruction.op0_register)}
    return Step(
        instruction.ip,
        instruction,
        frozenset(reads),
        frozenset(writes),
        frozenset(kills),
        _memory(info, instruction),
        instruction.flow_control,
        _target(instruction),
        count,
    )


def is_zeroing(instruction: Instruction) -> bool:
    return bool(
        instruction.mnemonic in (Mnemonic.XOR, Mnemonic.SUB, Mnemonic.PXOR, Mnemonic.XORPS)
        and instruction.op0_kind == OpKind.REGISTER
        and instruction.op1_kind == OpKind.REGISTER
        and instruction.op0_register == instruction.op1_register
    )


def is_direct(instruction: Instruction) -> bool:
    return bool(instruction.op_count and instruction.op0_kind == OpKind.NEAR_BRANCH64)


def _target(instruction: Instruction) -> int | None:
    return int(instruction.near_branch_target) if is_direct(instruction) else None


def _memory(info: object, instruction: Instruction) -> tuple[Memory, ...]:
    found = []
    if instruction.code == Code.NOP_RM16 or instruction.mnemonic == Mnemonic.NOP:
        return ()
    for used in info.used_memory():  # type: ignore[attr-defined]
        if used.access == OpAccess.NO_MEM_ACCESS:
            continue
        displacement = used.displacement
        if displacement >= 1 << 63:
            displacement -= 1 << 64
        found.append(
            Memory(
                used.base,
                used.index,
                used.scale,
                displacement,
                _size(used.memory_size),
                used.access in _READS,
                used.access in _WRITES or used.access in _MAY_WRITE,
            )
        )
    return tuple(found)


def _size(kind: int) -> int:
    from iced_x86 import MemorySizeExt

    return int(MemorySizeExt.size(kind)) or 8


ENDS = frozenset((FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.EXCEPTION))
