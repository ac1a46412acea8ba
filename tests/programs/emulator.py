# SPDX-License-Identifier: Apache-2.0
"""Slices and the programs that they were cut from, side by side in an emulator.

A program runs natively up to a load; from there on its memory and registers go into Unicorn twice:
once the program itself goes on, once the slice does. Both tell the addresses of the slice's loads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import unicorn
from iced_x86 import Register
from unicorn import x86_const as x86

from stallscope.slicing import emit as emitting
from stallscope.slicing.emit import Emitted, emit
from stallscope.slicing.slice import Cell, Slice
from stallscope.slicing.step import Memory
from stallscope.slicing.trace import Declined

_NAMES = ("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", *(f"R{n}" for n in range(8, 16)))
_ICED = [getattr(Register, name) for name in _NAMES]
_UNICORN = [getattr(x86, f"UC_X86_REG_{name}") for name in _NAMES]
_OF_ICED = dict(zip(_ICED, _UNICORN, strict=True))
# The order of struct user_regs_struct.
_USER = (
    *("R15", "R14", "R13", "R12", "RBP", "RBX", "R11", "R10", "R9", "R8", "RAX", "RCX", "RDX"),
    *("RSI", "RDI", "ORIG_RAX", "RIP", "CS", "EFLAGS", "RSP", "SS", "FS_BASE", "GS_BASE"),
)
_PAGE = 4096
_END = 0x7000_0000_0000  # a return address at which emulation stops
_TRACEME, _CONT, _GETREGS, _SETREGS, _STEP = 0, 7, 12, 13, 9
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


@dataclass(frozen=True)
class Snapshot:
    registers: dict[str, int]
    memory: list[tuple[int, bytes]]
    base: int  # where the program's file begins


def base_of(pid: int, program: Path) -> int:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith(str(program)):
            return int(line.split("-")[0], 16)
    raise AssertionError(f"{program} is not mapped")


def snapshots(
    program: Path, arguments: Sequence[str], load: int, at: Sequence[int]
) -> Iterator[Snapshot]:
    """Of a run, at so many runs of the load, which is told as an offset into the file's memory."""
    pid = os.fork()
    if pid == 0:
        out = os.open("/dev/null", os.O_WRONLY)
        os.dup2(out, 1)
        _libc.ptrace(_TRACEME, 0, None, None)
        os.execv(program, [str(program), *arguments])
    try:
        os.waitpid(pid, 0)
        base = base_of(pid, program)
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            yield from _stops(pid, memory, base, base + load, at)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _stops(
    pid: int, memory: object, base: int, place: int, at: Sequence[int]
) -> Iterator[Snapshot]:
    def poke(byte: bytes) -> bytes:
        memory.seek(place)  # type: ignore[attr-defined]
        before: bytes = memory.read(1)  # type: ignore[attr-defined]
        memory.seek(place)  # type: ignore[attr-defined]
        memory.write(byte)  # type: ignore[attr-defined]
        return before

    registers = (ctypes.c_ulonglong * 27)()
    for run in range(max(at) + 1):
        original = poke(b"\xcc")
        _libc.ptrace(_CONT, pid, None, None)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP:
            return
        poke(original)
        _libc.ptrace(_GETREGS, pid, None, registers)
        registers[_USER.index("RIP")] = place
        _libc.ptrace(_SETREGS, pid, None, registers)
        if run in at:
            values = dict(zip(_USER, registers, strict=False))
            yield Snapshot(values, list(_memory(pid, memory)), base)
        _libc.ptrace(_STEP, pid, None, None)
        os.waitpid(pid, 0)


def _memory(pid: int, memory: object) -> Iterator[tuple[int, bytes]]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split()
        start, end = (int(part, 16) for part in words[0].split("-"))
        if "r" not in words[1] or words[-1].startswith("[v"):
            continue
        memory.seek(start)  # type: ignore[attr-defined]
        content = b""
        while len(content) < end - start:
            content += memory.read(end - start - len(content))  # type: ignore[attr-defined]
        yield start, content


def _machine(snapshot: Snapshot) -> unicorn.Uc:
    machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    for start, content in snapshot.memory:
        machine.mem_map(start, len(content))
        machine.mem_write(start, content)
    for name, number in zip(_NAMES, _UNICORN, strict=True):
        machine.reg_write(number, snapshot.registers[name])
    machine.reg_write(x86.UC_X86_REG_FS_BASE, snapshot.registers["FS_BASE"])
    machine.reg_write(x86.UC_X86_REG_EFLAGS, snapshot.registers["EFLAGS"])
    return machine


def _address(machine: unicorn.Uc, operand: Memory) -> int:
    found = operand.displacement
    if operand.base not in (Register.NONE, Register.RIP):
        found += machine.reg_read(_OF_ICED[operand.base])
    if operand.index != Register.NONE:
        found += machine.reg_read(_OF_ICED[operand.index]) * operand.scale
    return int(found % (1 << 64))


def _watch(
    machine: unicorn.Uc, places: Mapping[int, int], slice_: Slice, most: int
) -> list[tuple[int, int]]:
    """Collects load and address whenever one of the places is reached."""
    found: list[tuple[int, int]] = []
    runs = [0]

    def reached(uc: unicorn.Uc, place: int, _size: int, _data: object) -> None:
        load = places[place]
        operand = slice_.trace.step(load).operand()
        assert operand is not None
        if load == slice_.trace.load:
            runs[0] += 1
            if runs[0] > most:
                uc.emu_stop()
                return
        found.append((load, _address(uc, operand)))

    for place in places:
        machine.hook_add(unicorn.UC_HOOK_CODE, reached, begin=place, end=place)
    return found


def program_addresses(snapshot: Snapshot, slice_: Slice, most: int) -> list[tuple[int, int]]:
    machine = _machine(snapshot)
    found = _watch(machine, {load: load for load in slice_.loads}, slice_, most)
    left: list[int] = []

    def outside(uc: unicorn.Uc, place: int, _size: int, _data: object) -> None:
        left.append(place)
        uc.emu_stop()

    for step in slice_.trace.steps:
        for end in slice_.trace.graph.exits(step) if len(slice_.trace.after(step)) > 1 else ():
            machine.hook_add(unicorn.UC_HOOK_CODE, outside, begin=end, end=end)
        for end in slice_.trace.after(step):
            if end not in slice_.trace.steps and end in slice_.trace.graph.steps:
                machine.hook_add(unicorn.UC_HOOK_CODE, outside, begin=end, end=end)
    try:
        machine.emu_start(snapshot.registers["RIP"], _END)
    except unicorn.UcError:
        left.append(machine.reg_read(x86.UC_X86_REG_RIP))
    return found


def slice_addresses(
    snapshot: Snapshot, slice_: Slice, most: int, prefetch: bool = True
) -> list[tuple[int, int]] | Declined:
    code = (snapshot.base & ~0xFFFFFFF) + 0x2000_0000
    data = code + 0x10_0000
    made = emit(slice_, code, data, prefetch)
    if isinstance(made, Declined):
        return made
    machine = _machine(snapshot)
    machine.mem_map(code, 0x10_0000)
    machine.mem_map(data, 0x10_0000)
    machine.mem_write(code, made.code)
    _prime(machine, snapshot, made, data)
    stack = data + 0xF_0000
    machine.mem_write(stack, struct.pack("<Q", _END))
    machine.reg_write(x86.UC_X86_REG_RSP, stack)
    found = _watch(machine, made.probes, slice_, most)
    # The slice must write nothing but its own.
    wrong: list[int] = []

    def written(_uc: object, _kind: int, address: int, *_: object) -> None:
        if not data <= address < data + 0x10_0000:
            wrong.append(address)

    machine.hook_add(unicorn.UC_HOOK_MEM_WRITE, written)
    machine.emu_start(code, _END)
    assert not wrong, f"it writes to {wrong[0]:#x}"
    return found


def _prime(machine: unicorn.Uc, snapshot: Snapshot, made: Emitted, data: int) -> None:
    for number, name in enumerate(_NAMES):
        value = struct.pack("<Q", snapshot.registers[name])
        machine.mem_write(data + emitting.REGISTERS + 8 * number, value)
    machine.mem_write(data + emitting.LEFT, struct.pack("<Q", 1 << 40))
    machine.mem_write(data + emitting.RESUME, struct.pack("<Q", made.start))
    machine.mem_write(data + emitting.FLAG_BITS, struct.pack("<Q", 0x202))
    for cell, place in made.cells:
        address = _cell_address(snapshot, cell)
        machine.mem_write(data + place, bytes(machine.mem_read(address, cell.size)))


def _cell_address(snapshot: Snapshot, cell: Cell) -> int:
    found = cell.displacement
    for register, factor in ((cell.base, 1), (cell.index, cell.scale)):
        if register != Register.NONE:
            found += snapshot.registers[_NAMES[_ICED.index(register)]] * factor
    return found
