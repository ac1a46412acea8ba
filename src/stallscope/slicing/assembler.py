# SPDX-License-Identifier: Apache-2.0
"""Writes machine code: instructions and labels in, bytes and places of the labels out."""

from __future__ import annotations

from iced_x86 import Code, Encoder, Instruction, MemoryOperand, Register

GENERAL = tuple(range(Register.RAX, Register.R15 + 1))


class CannotEncode(Exception):
    """An instruction has no form that fits where it should go."""


def at(address: int) -> MemoryOperand:
    """Memory at a fixed address near the code."""
    return MemoryOperand(Register.RIP, displ=address, displ_size=8)


class Assembler:
    def __init__(self, base: int):
        self.base = base
        self._items: list[Instruction | int] = []  # a label is its number
        self._jumps: dict[int, int] = {}  # index in _items -> label
        self._addresses: dict[int, tuple[int, int]] = {}
        self._labels = 0
        self.places: dict[int, int] = {}  # label -> address, once assembled

    def label(self) -> int:
        self._labels += 1
        return self._labels

    def mark(self, label: int) -> None:
        self._items.append(label)

    def add(self, instruction: Instruction) -> None:
        self._items.append(instruction)

    def jump(self, label: int, code: int = Code.JMP_REL32_64) -> None:
        self._jumps[len(self._items)] = label
        self._items.append(Instruction.create_branch(code, self.base))

    def load(self, register: int, address: int) -> None:
        self.add(Instruction.create_reg_mem(Code.MOV_R64_RM64, register, at(address)))

    def store(self, address: int, register: int) -> None:
        self.add(Instruction.create_mem_reg(Code.MOV_RM64_R64, at(address), register))

    def address(self, register: int, label: int) -> None:
        """The place of a label into a register."""
        self._addresses[len(self._items)] = (register, label)
        self._items.append(Instruction.create_reg_mem(Code.LEA_R64_M, register, at(self.base)))

    def assemble(self) -> bytes:
        """All jumps have their long form, so that lengths do not depend on places."""
        place = self.base
        lengths: list[int] = []
        for item in self._items:
            if isinstance(item, int):
                self.places[item] = place
                lengths.append(0)
                continue
            lengths.append(len(self._encode(item, place)))
            place += lengths[-1]
        code = b""
        for index, item in enumerate(self._items):
            if isinstance(item, int):
                continue
            if index in self._jumps:
                item = Instruction.create_branch(item.code, self.places[self._jumps[index]])
            if index in self._addresses:
                register, label = self._addresses[index]
                place_of = at(self.places[label])
                item = Instruction.create_reg_mem(Code.LEA_R64_M, register, place_of)
            piece = self._encode(item, self.base + len(code))
            assert len(piece) == lengths[index]
            code += piece
        return code

    def _encode(self, instruction: Instruction, place: int) -> bytes:
        encoder = Encoder(64)
        try:
            encoder.encode(instruction, place)
        except ValueError as error:
            raise CannotEncode(f"{instruction}: {error}") from error
        return bytes(encoder.take_buffer())


def fixed(instruction: Instruction, address: int) -> Instruction:
    """A copy whose memory operand lies at a fixed address."""
    copy = instruction.copy()
    copy.memory_base = Register.RIP
    copy.memory_index = Register.NONE
    copy.memory_index_scale = 1
    copy.memory_displacement = address
    copy.memory_displ_size = 8
    return copy


def operand_of(instruction: Instruction, more: int = 0) -> MemoryOperand:
    """The memory operand, `more` bytes further on."""
    displacement = instruction.memory_displacement + more
    if displacement >= 1 << 63:
        displacement -= 1 << 64
    if instruction.memory_base == Register.RIP:
        return at(displacement)
    return MemoryOperand(
        instruction.memory_base,
        instruction.memory_index,
        instruction.memory_index_scale,
        displacement,
        8,
        False,
        instruction.segment_prefix,
    )


def near_jump(instruction: Instruction) -> int:
    """The code of a conditional jump's long form."""
    copy = instruction.copy()
    copy.as_near_branch()
    return int(copy.code)
