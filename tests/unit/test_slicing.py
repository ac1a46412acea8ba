# SPDX-License-Identifier: Apache-2.0
"""Slices and sites of a few instructions, some of them run in an emulator."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import struct
import subprocess
import sys
import time
from typing import Any

import pytest
import unicorn
from iced_x86 import Code as Op
from iced_x86 import Instruction, MemoryOperand, Mnemonic, Register
from unicorn import x86_const as x86

from stallscope.actions.sites import Memory
from stallscope.actions.trial import (
    INTERVAL,
    SETTLE,
    SHARE,
    Budget,
    Ended,
    Gain,
    Trial,
    Watched,
    measure,
    processor_time,
)
from stallscope.actions.ways import Spot
from stallscope.analyses.advice import prefetches
from stallscope.slicing.assembler import Assembler
from stallscope.slicing.image import steps_from
from stallscope.slicing.inline import Inline, inline
from stallscope.slicing.inline_site import inline_site
from stallscope.slicing.kinds import kind_of
from stallscope.slicing.site import Site, displaced
from stallscope.slicing.slice import Slice, cut
from stallscope.slicing.step import FLAGS, decode
from stallscope.slicing.trace import Code, Declined, Trace, connect

BASE, SITE, WORD, DATA = 0x400000, 0x500000, 0x510000, 0x600000
R = Register


def gather() -> tuple[bytes, int]:
    """A loop that adds up table[index[i]], and the place of the load that picks."""
    out = Assembler(BASE)
    loop = out.label()
    out.mark(loop)
    index = MemoryOperand(R.RSI, R.RAX, 4)
    out.add(Instruction.create_reg_mem(Op.MOV_R32_RM32, R.ECX, index))
    pick = out.label()
    out.mark(pick)
    out.add(Instruction.create_reg_mem(Op.ADD_R64_RM64, R.RDX, MemoryOperand(R.RDI, R.RCX, 8)))
    out.add(Instruction.create_reg_i32(Op.ADD_RM64_IMM8, R.RAX, 1))
    out.add(Instruction.create_reg_reg(Op.CMP_R64_RM64, R.RAX, R.R8))
    out.jump(loop, Op.JNE_REL32_64)
    out.add(Instruction.create(Op.RETNQ))
    return out.assemble(), out.places[pick]


def trace_of(code: bytes, load: int) -> Trace:
    def read(at: int, count: int) -> bytes:
        return code[at - BASE :][:count] if BASE <= at < BASE + len(code) else b""

    trace = connect(Code(steps_from(read, load)), load)
    assert isinstance(trace, Trace)
    return trace


def chain(through_stack: bool = False) -> tuple[bytes, int]:
    """A loop that adds up *table[index[i]], its turns counted in a register that is set forward
    before its use, or on the way; and the place of the load that is two loads away."""
    out = Assembler(BASE)
    loop = out.label()
    out.mark(loop)
    if through_stack:
        out.add(Instruction.create_reg_mem(Op.MOV_R64_RM64, R.RDI, MemoryOperand(R.RSP, displ=8)))
    out.add(Instruction.create_reg_i32(Op.ADD_RM64_IMM8, R.RAX, 1))
    index = MemoryOperand(R.RSI, R.RAX, 4, -4)
    out.add(Instruction.create_reg_mem(Op.MOV_R32_RM32, R.ECX, index))
    out.add(Instruction.create_reg_mem(Op.MOV_R64_RM64, R.RCX, MemoryOperand(R.RDI, R.RCX, 8)))
    pick = out.label()
    out.mark(pick)
    out.add(Instruction.create_reg_mem(Op.ADD_R64_RM64, R.RDX, MemoryOperand(R.RBX, R.RCX, 8)))
    out.add(Instruction.create_reg_reg(Op.CMP_R64_RM64, R.RAX, R.R8))
    out.jump(loop, Op.JNE_REL32_64)
    out.add(Instruction.create(Op.RETNQ))
    return out.assemble(), out.places[pick]


def inlined(code: bytes, load: int) -> Inline:
    trace = trace_of(code, load)
    found = inline(trace.graph, trace.inner, [load])
    assert isinstance(found, Inline)
    return found


class Emulated:
    """Runs a loop for 100 turns, with a site or without."""

    def __init__(self, code: bytes, site: Site | None = None):
        self.prefetched: list[int] = []
        self.read: list[tuple[int, int]] = []  # by the loop itself: place and address
        machine = self._machine(code, site)
        self._start = {"RAX": 0, "RCX": 1, "RDX": 2, "R8": 100, "RSI": DATA, "RDI": DATA + 0x1000}
        stack = DATA + 0x8000
        machine.mem_write(stack, struct.pack("<QQ", BASE + 0xF000, DATA + 0x1000))
        self._start |= {"RSP": stack, "RBX": DATA + 0x2000, "RBP": 12, "R9": 13, "R15": 14}
        for name, value in self._start.items():
            machine.reg_write(getattr(x86, f"UC_X86_REG_{name}"), value)
        machine.hook_add(unicorn.UC_HOOK_CODE, self._on_step)
        machine.emu_start(BASE, BASE + 0xF000)
        self.registers = {name: self._register(name) for name in self._start}
        self.count = struct.unpack("<Q", machine.mem_read(WORD, 8))[0]

    def _machine(self, code: bytes, site: Site | None) -> unicorn.Uc:
        self._uc = machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        for start in (BASE, SITE, WORD, DATA):
            machine.mem_map(start, 0x10000)
        machine.mem_write(BASE, code)
        if site is not None:
            machine.mem_write(SITE, site.code)
            machine.mem_write(site.address, site.patch)
        order = b"".join(struct.pack("<I", i * 7 % 100) for i in range(100))
        machine.mem_write(DATA, order)
        machine.mem_write(
            DATA + 0x1000, b"".join(struct.pack("<Q", i * i % 1000) for i in range(100))
        )
        machine.mem_write(DATA + 0x2000, b"".join(struct.pack("<Q", 3 * i) for i in range(1000)))
        return machine

    def _register(self, name: str) -> int:
        return int(self._uc.reg_read(getattr(x86, f"UC_X86_REG_{name}")))

    def _on_step(self, machine: unicorn.Uc, place: int, size: int, _: object) -> None:
        step = decode(bytes(machine.mem_read(place, size)), place)
        assert step is not None
        instruction = step.instruction
        names = {getattr(R, name): name for name in (*self._start, "RSP")}

        def value(register: int) -> int:
            return self._register(names[register]) if register != R.NONE else 0

        if instruction.mnemonic == Mnemonic.PREFETCHT0 or (step.loads and place < SITE):
            if instruction.mnemonic == Mnemonic.RET:
                return
            address = value(instruction.memory_base) + instruction.memory_displacement
            address += value(instruction.memory_index) * instruction.memory_index_scale
            if place < SITE:
                self.read.append((place, address % (1 << 64)))
            else:
                self.prefetched.append(address % (1 << 64))


def run(code: bytes, site: Site | None = None) -> dict[str, int]:
    """The registers after 100 turns."""
    return Emulated(code, site).registers


def made(code: bytes, load: int, distance: int, **options: Any) -> Site:
    site = inline_site(inlined(code, load), SITE, distance, **options)
    assert isinstance(site, Site)
    return site


def test_a_patched_loop_does_what_it_did() -> None:
    code, load = gather()
    native = run(code)
    for distance in (0, 4, 1 << 12):  # the last leads out of the page, and is not followed
        assert run(code, made(code, load, distance)) == native
    bare, guarded = (made(code, load, 8, guard=guard) for guard in (False, True))
    assert len(bare.code) < len(guarded.code)
    assert run(code, bare) == native
    counting = Emulated(code, made(code, load, 8, guard=False, count=WORD))
    assert (counting.registers, counting.count) == (native, 100)


@pytest.mark.parametrize("through_stack", [False, True])
def test_what_depends_on_more_loads_is_told_later(through_stack: bool) -> None:
    """Addresses are those of the program, as many turns before as each stage should be."""
    code, load = chain(through_stack)
    ahead = inlined(code, load)
    assert [stage.times for stage in ahead.stages] == [2, 1]
    native = Emulated(code)
    site = made(code, load, 5, guard=False)
    patched = Emulated(code, site)
    assert patched.registers == native.registers
    places = sorted({stage.loads[0] for stage in ahead.stages})
    for number, (place, away) in enumerate(zip(places, (10, 5), strict=True)):
        own = [address for at, address in native.read if at == place]
        told = patched.prefetched[number::2]
        assert told[: 100 - away] == own[away:]
    assert len(site.nets) == 2


def test_a_step_that_a_register_says_is_multiplied() -> None:
    """table[index[i]] with i growing by what r9 holds, 13 at a time."""
    out = Assembler(BASE)
    loop = out.label()
    out.mark(loop)
    out.add(Instruction.create_reg_mem(Op.MOVZX_R32_RM8, R.ECX, MemoryOperand(R.RSI, R.RAX, 1)))
    pick = out.label()
    out.mark(pick)
    out.add(Instruction.create_reg_mem(Op.ADD_R64_RM64, R.RDX, MemoryOperand(R.RDI, R.RCX, 8)))
    out.add(Instruction.create_reg_reg(Op.ADD_R64_RM64, R.RAX, R.R9))
    out.add(Instruction.create_reg_i32(Op.CMP_RM64_IMM32, R.RAX, 13 * 25))
    out.jump(loop, Op.JNE_REL32_64)
    out.add(Instruction.create(Op.RETNQ))
    code, load = out.assemble(), out.places[pick]
    native, patched = Emulated(code), Emulated(code, made(code, load, 3, guard=False))
    assert patched.registers == native.registers
    own = [address for at, address in native.read if at == load]
    assert patched.prefetched[:22] == own[3:]


def test_where_faults_cannot_be_caught_only_safe_addresses_are_read() -> None:
    code, load = chain()
    refused = inline_site(inlined(code, load), SITE, 4, guard=True)
    assert isinstance(refused, Declined)
    assert refused.reason == "the program blocks the signal of faults"


def test_addresses_need_no_instruction_to_be_set_forward() -> None:
    code, load = gather()
    site = made(code, load, 8, guard=False)
    assert len(site.code) < 40  # a load, a prefetch, what was displaced, and the way back
    assert (
        Emulated(code, site).prefetched[:92]
        == [address for place, address in Emulated(code).read if place == load][8:]
    )


def test_a_site_knows_the_bytes_that_it_replaces() -> None:
    code, load = gather()
    site = made(code, load, 4)
    assert site.address == BASE
    assert site.original == code[: len(site.patch)]
    (net,) = site.nets
    assert SITE <= net.begin < net.end <= net.landing < SITE + len(site.code)


def test_the_turn_of_a_gather_is_told_ahead() -> None:
    code, load = gather()
    found = inlined(code, load)
    assert (found.leading, found.amount) == (BASE, 4)
    assert [one.register for one in found.stepping] == [R.RAX]
    assert kind_of(trace_of(code, load)) == "indirect"
    assert kind_of(trace_of(code, BASE)) == "stride"


def test_a_slice_keeps_what_leads_to_the_address() -> None:
    code, load = gather()
    slice_ = cut(trace_of(code, load))
    assert isinstance(slice_, Slice)
    assert len(slice_.kept) == 5
    assert load not in slice_.data


def test_a_jump_into_the_overwritten_bytes_is_refused() -> None:
    code, load = gather()
    steps = trace_of(code, load).graph.steps
    found = displaced(steps, BASE + len(code) - 1)  # the return
    assert isinstance(found, Declined)
    inner = displaced({**steps}, BASE)
    assert not isinstance(inner, Declined)
    # A loop whose second instruction is jumped to.
    jump = decode(b"\xeb\xfe", BASE + 0x100)
    assert jump is not None
    aimed = decode(b"\xe9" + struct.pack("<i", BASE + 3 - (BASE + 0x100 + 5)), BASE + 0x100)
    assert aimed is not None
    refused = displaced({**steps, aimed.address: aimed}, BASE)
    assert isinstance(refused, Declined)
    assert "a jump leads into" in refused.reason


@pytest.mark.parametrize(
    ("code", "reads", "writes"),
    [
        (b"\x31\xc0", set(), {R.RAX, FLAGS}),  # xor eax, eax
        (b"\x48\x01\xd8", {R.RAX, R.RBX}, {R.RAX, FLAGS}),  # add rax, rbx
        (b"\xb0\x01", {R.RAX}, {R.RAX}),  # mov al, 1: the rest of rax stays
        (b"\x48\x8b\x07", {R.RDI}, {R.RAX}),  # mov rax, [rdi]
    ],
)
def test_a_step_reads_and_writes_whole_registers(
    code: bytes, reads: set[int], writes: set[int]
) -> None:
    step = decode(code, BASE)
    assert step is not None
    assert (set(step.reads), set(step.writes)) == (reads, writes)


def test_bytes_that_are_no_instruction_are_none() -> None:
    assert decode(b"\x06", BASE) is None
    assert decode(b"", BASE) is None


def test_a_gain_has_bounds_around_it() -> None:
    gain = Gain.of([1.2, 1.25, 1.3, 1.22, 1.28])
    assert 1.15 < gain.low < gain.ratio < gain.high < 1.35
    assert Gain.of([1.5]).low == 0  # one pair says nothing


def test_something_that_pays_is_told_from_something_that_does_not() -> None:
    """A child does its rounds, twice the work in each when it is told to."""
    work = "import mmap,sys\nm=mmap.mmap(int(sys.argv[1]),16)\nc=memoryview(m).cast('Q')\n"
    work += "while c[1]<2:\n  for _ in range(50 if c[1] else 100): pass\n  c[0]+=1"
    file = os.memfd_create("rounds")
    os.ftruncate(file, 4096)
    words = memoryview(mmap.mmap(file, 16)).cast("Q")
    command = [sys.executable, "-c", work, str(file)]
    with subprocess.Popen(command, pass_fds=(file,)) as child:
        watched = Watched(processor_time(child.pid), lambda: child.poll() is None)

        def switch(on: bool) -> None:
            words[1] = int(on)

        try:
            while not words[0]:
                time.sleep(0.01)
            trial = Trial(switch, lambda: words[0], Budget(watched.used))
            gain = measure(trial, watched, 12)
        finally:
            words[1] = 2
    os.close(file)
    assert gain is not None
    assert 1.2 < gain.low < gain.ratio < 2.2
    assert trial.budget.lost < 0  # it has gained
    with pytest.raises(Ended):
        watched.used()


class Pretended:
    """A program of which trying changes the speed; its processor time is the clock's."""

    def __init__(self, speed: float, age: float) -> None:
        self.speed, self.on, self.done, self.since = speed, False, 0.0, time.monotonic()
        self.age, self.waits = age, 0  # seconds that it ran before
        self.began = self.since
        self.budget = Budget(self.used)
        self.trial = Trial(self.switch, self.progress, self.budget, self.wait)
        self.watched = Watched(self.used, lambda: True)

    def used(self) -> float:
        return self.age + time.monotonic() - self.began

    def progress(self) -> int:
        now = time.monotonic()
        self.done += (now - self.since) * (self.speed if self.on else 1.0)
        self.since = now
        return int(self.done * 1e9)

    def switch(self, on: bool) -> None:
        self.progress()
        self.on = on

    def wait(self) -> None:
        self.waits += 1
        self.age += 1.0


def test_what_slows_a_program_down_is_given_up_soon() -> None:
    slow = Pretended(0.5, 10.0)
    gain = measure(slow.trial, slow.watched, 24, 1.0)
    assert gain is not None and gain.high < 1.0 and gain.pairs == 3
    assert 0 < slow.budget.lost < 0.01 * slow.used() and not slow.waits
    even = Pretended(1.0, 10.0)
    gain = measure(even.trial, even.watched, 6, 0.9)
    assert gain is not None and gain.pairs > 3


def test_trying_costs_a_program_a_hundredth_of_its_time_at_most() -> None:
    young = Pretended(0.3, 0.1)
    measure(young.trial, young.watched, 12)
    assert young.waits >= 2
    pair = (INTERVAL + SETTLE) * 0.7
    assert young.budget.lost <= SHARE * young.used() + 2 * pair


def test_what_counting_costs_is_charged() -> None:
    free, dear = Pretended(1.0, 10.0), Pretended(1.0, 10.0)
    measure(free.trial, free.watched, 3)
    measure(dataclasses.replace(dear.trial, toll=0.5e-9), dear.watched, 3)
    # It counts a thousand million a second: half of the time goes to counting.
    assert dear.budget.lost - free.budget.lost > 0.4 * 6 * INTERVAL


def test_prefetches_are_written_with_a_bound_where_they_read() -> None:
    lines = ["for (int i = 0; i < n; i++) {", "  sum += a[b[i]] + c[i];", "}"]
    bound = "if (i + 8 < n) __builtin_prefetch(&a[b[(i + 8)]]);"
    assert prefetches(lines, 1, "indirect", 8) == [bound]
    assert prefetches(lines, 1, "stride", 8) == ["__builtin_prefetch(&c[(i + 8)]);"]
    assert prefetches(["while (p) p = p->next;"], 0, "stride", 8) == []


def test_code_is_read_as_it_was_before_something_was_put_in() -> None:
    size = 16
    text = ctypes.create_string_buffer(bytes(range(size)), size)
    address = ctypes.addressof(text)
    memory = Memory(
        os.getpid(), [Spot(lambda _: [True], Site(address + 3, b"abcde", b"12345", b""))]
    )
    try:
        assert memory.read(address, 4) == bytes((0, 1, 2)) + b"a"
        assert memory.read(address + 5, 5) == b"cde" + bytes((8, 9))
        assert memory.read(8, 4) == b""
    finally:
        memory.close()
