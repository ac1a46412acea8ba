# SPDX-License-Identifier: Apache-2.0
"""Slices for people: readable assembly with what each step is for, and C where that is possible."""

from __future__ import annotations

from dataclasses import dataclass

from iced_x86 import (
    ConditionCode,
    Formatter,
    FormatterSyntax,
    Instruction,
    MemorySizeExt,
    Mnemonic,
    OpKind,
    Register,
    RegisterExt,
)

from stallscope.slicing.slice import Slice
from stallscope.slicing.step import Step

_formatter = Formatter(FormatterSyntax.INTEL)
_formatter.space_after_operand_separator = True
_formatter.hex_prefix, _formatter.hex_suffix = "0x", ""
_names = Formatter(FormatterSyntax.INTEL)

ROLES = ("load", "data", "branch")
_BINARY = {
    Mnemonic.ADD: "+",
    Mnemonic.SUB: "-",
    Mnemonic.AND: "&",
    Mnemonic.OR: "|",
    Mnemonic.XOR: "^",
    Mnemonic.IMUL: "*",
    Mnemonic.SHL: "<<",
    Mnemonic.SAL: "<<",
    Mnemonic.SHR: ">>",
}
_CONDITIONS = {
    ConditionCode.E: "==",
    ConditionCode.NE: "!=",
    ConditionCode.A: ">",
    ConditionCode.AE: ">=",
    ConditionCode.B: "<",
    ConditionCode.BE: "<=",
    ConditionCode.G: ">",
    ConditionCode.GE: ">=",
    ConditionCode.L: "<",
    ConditionCode.LE: "<=",
}
_SIGNED = (ConditionCode.G, ConditionCode.GE, ConditionCode.L, ConditionCode.LE)


@dataclass(frozen=True)
class Line:
    address: int
    role: str  # of ROLES
    text: str
    note: str  # what becomes of it: prefetched, kept in scratch memory, shadowed


def lines_of(slice_: Slice) -> list[Line]:
    found = []
    for address in sorted(slice_.kept):
        step = slice_.trace.step(address)
        role = "load" if address in slice_.loads else "data"
        role = "branch" if address in slice_.branches else role
        found.append(Line(address, role, text_of(step), _note(slice_, step)))
    return found


def text_of(step: Step) -> str:
    return str(_formatter.format(step.instruction))


def _note(slice_: Slice, step: Step) -> str:
    notes = []
    if step.address in slice_.loads and step.address not in slice_.data:
        notes.append("prefetched")
    elif step.address in slice_.loads:
        notes.append("prefetched and loaded")
    place = slice_.places.get(step.address)
    if place is not None and step.address in slice_.data:
        notes.append("scratch" if place in slice_.written else "primed at the start")
    if step.address in slice_.shadowed:
        notes.append("shadowed")
    elif step.address in slice_.data and step.stores and place is None:
        notes.append("not stored")
    return ", ".join(notes)


class _NoC(Exception):
    """This instruction has no short form in C here."""


def c_of(slice_: Slice) -> str | None:
    """A function body with labels and gotos; None where a step cannot be said in C."""
    try:
        return "\n".join(_body(slice_))
    except _NoC:
        return None


def _body(slice_: Slice) -> list[str]:
    from stallscope.slicing.emit import follow

    order = sorted(slice_.kept)
    out: list[str] = []
    compared: tuple[str, str] | None = None
    for number, address in enumerate(order):
        step = slice_.trace.step(address)
        out.append(f"L{number}:")
        if address in slice_.loads:
            out.append(f"  __builtin_prefetch((const void*)({_address(step.instruction)}));")
        if address in slice_.data:
            said, compared = _statement(step.instruction, compared)
            out += [f"  {line}" for line in said]
        ends = [order.index(end) if end in slice_.kept else -1 for end in follow(slice_, address)]
        labels = [f"L{end}" if end >= 0 else "out" for end in ends]
        if address in slice_.branches:
            out.append(f"  if ({_condition(step.instruction, compared)}) goto {labels[1]};")
        if ends[0] != number + 1:
            out.append(f"  goto {labels[0]};")
    return [*out, "out:;"]


def _statement(
    instruction: Instruction, compared: tuple[str, str] | None
) -> tuple[list[str], tuple[str, str] | None]:
    kind = instruction.mnemonic
    if kind in (Mnemonic.CMP, Mnemonic.TEST):
        left, right = _value(instruction, 0), _value(instruction, 1)
        if kind == Mnemonic.CMP:
            return [], (left, right)
        return [], (left if left == right else f"({left} & {right})", "0")
    if instruction.op0_kind != OpKind.REGISTER or not RegisterExt.is_gpr(instruction.op0_register):
        raise _NoC
    target = _whole(instruction.op0_register)
    if kind in (Mnemonic.MOV, Mnemonic.MOVZX):
        return [f"{target} = {_value(instruction, 1)};"], compared
    if kind in (Mnemonic.MOVSXD, Mnemonic.MOVSX):
        bits = 8 * _operand_size(instruction, 1)
        return [f"{target} = (int{bits}_t){_value(instruction, 1)};"], compared
    if kind == Mnemonic.LEA:
        return [f"{target} = {_address(instruction)};"], compared
    if kind in (Mnemonic.INC, Mnemonic.DEC):
        return [f"{target}{'++' if kind == Mnemonic.INC else '--'};"], (target, "0")
    if kind in _BINARY and instruction.op_count == 2:
        if kind == Mnemonic.XOR and instruction.op0_register == instruction.op1_register:
            return [f"{target} = 0;"], ("0", "0")
        return [f"{target} {_BINARY[kind]}= {_value(instruction, 1)};"], (target, "0")
    if kind == Mnemonic.IMUL and instruction.op_count == 3:
        factor = _value(instruction, 1)
        return [f"{target} = {factor} * {_value(instruction, 2)};"], (target, "0")
    raise _NoC


def _condition(instruction: Instruction, compared: tuple[str, str] | None) -> str:
    sign = _CONDITIONS.get(instruction.condition_code)
    if sign is None or compared is None:
        raise _NoC
    left, right = compared
    if instruction.condition_code in _SIGNED:
        left, right = f"(int64_t){left}", f"(int64_t){right}"
    return f"{left} {sign} {right}"


def _operand_size(instruction: Instruction, operand: int) -> int:
    if instruction.op_kind(operand) == OpKind.REGISTER:
        return int(RegisterExt.size(instruction.op_register(operand)))
    return int(MemorySizeExt.size(instruction.memory_size))


def _value(instruction: Instruction, operand: int) -> str:
    kind = instruction.op_kind(operand)
    if kind == OpKind.REGISTER:
        register = instruction.op_register(operand)
        if not RegisterExt.is_gpr(register):
            raise _NoC
        size = RegisterExt.size(register)
        whole = _whole(register)
        return whole if size == 8 else f"(uint{8 * size}_t){whole}"
    if kind == OpKind.MEMORY:
        size = int(MemorySizeExt.size(instruction.memory_size))
        if size not in (1, 2, 4, 8):
            raise _NoC
        return f"*(uint{8 * size}_t*)({_address(instruction)})"
    value = instruction.immediate(operand)
    return str(value - (1 << 64) if value >= 1 << 63 else value)


def _address(instruction: Instruction) -> str:
    parts = []
    if instruction.memory_base == Register.RIP:
        return hex(instruction.memory_displacement)
    if instruction.memory_base != Register.NONE:
        parts.append(_whole(instruction.memory_base))
    if instruction.memory_index != Register.NONE:
        scale = instruction.memory_index_scale
        parts.append(_whole(instruction.memory_index) + (f" * {scale}" if scale > 1 else ""))
    displacement = instruction.memory_displacement
    displacement = displacement - (1 << 64) if displacement >= 1 << 63 else displacement
    text = " + ".join(parts)
    if displacement or not parts:
        text += f" {'-' if displacement < 0 else '+'} {abs(displacement)}" if parts else ""
        text = text or hex(displacement)
    return text


def _whole(register: int) -> str:
    return str(_names.format_register(RegisterExt.full_register(register)))
