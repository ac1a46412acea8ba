# SPDX-License-Identifier: Apache-2.0
"""Slices and sites of a few instructions, some of them run in an emulator."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import time

import pytest
import unicorn
from iced_x86 import Code as Op
from iced_x86 import Instruction, MemoryOperand, Register
from unicorn import x86_const as x86

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
from stallscope.analyses.advice import prefetches
from stallscope.slicing.assembler import Assembler
from stallscope.slicing.image import steps_from
from stallscope.slicing.inline import Inline, inline
from stallscope.slicing.kinds import kind_of
from stallscope.slicing.site import SHIFTS, Site, displaced, inline_site
from stallscope.slicing.slice import Slice, cut
from stallscope.slicing.step import FLAGS, decode
from stallscope.slicing.trace import Code, Declined, Trace, connect

BASE, SITE, WORDS, DATA = 0x400000, 0x500000, 0x510000, 0x600000
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


def inlined(code: bytes, load: int) -> Inline:
    trace = trace_of(code, load)
    found = inline(trace.graph, trace.inner, [load])
    assert isinstance(found, Inline)
    return found


def run(code: bytes, site: Site | None, distance: int = 0) -> dict[str, int]:
    """The registers after 100 turns."""
    machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    for start in (BASE, SITE, WORDS, DATA):
        machine.mem_map(start, 0x10000)
    machine.mem_write(BASE, code)
    if site is not None:
        machine.mem_write(SITE, site.code)
        machine.mem_write(site.address, site.patch)
        machine.mem_write(WORDS + SHIFTS, struct.pack("<q", distance))
    machine.mem_write(DATA, b"".join(struct.pack("<I", i * 7 % 100) for i in range(100)))
    machine.mem_write(DATA + 0x1000, b"".join(struct.pack("<Q", i * i) for i in range(100)))
    stack = DATA + 0x8000
    machine.mem_write(stack, struct.pack("<Q", BASE + 0xF000))
    start = {"RAX": 0, "RCX": 1, "RDX": 2, "R8": 100, "RSI": DATA, "RDI": DATA + 0x1000}
    start |= {"RSP": stack, "RBX": 11, "RBP": 12, "R9": 13, "R15": 14}
    for name, value in start.items():
        machine.reg_write(getattr(x86, f"UC_X86_REG_{name}"), value)
    machine.emu_start(BASE, BASE + 0xF000)
    return {name: machine.reg_read(getattr(x86, f"UC_X86_REG_{name}")) for name in start}


def test_a_patched_loop_does_what_it_did() -> None:
    code, load = gather()
    site = inline_site(inlined(code, load), SITE, WORDS)
    assert isinstance(site, Site)
    native = run(code, None)
    for distance in (0, 4, 1 << 20):  # the last leads out of the page, and is not followed
        assert run(code, site, distance) == native
    bare = inline_site(inlined(code, load), SITE, WORDS, guard=False)
    assert isinstance(bare, Site)
    assert len(bare.code) < len(site.code)
    assert run(code, bare, 8) == native


def test_a_site_knows_the_bytes_that_it_replaces() -> None:
    code, load = gather()
    site = inline_site(inlined(code, load), SITE, WORDS)
    assert isinstance(site, Site)
    assert site.address == BASE
    assert site.original == code[: len(site.patch)]
    assert site.net is not None
    assert SITE < site.net[0] < site.net[1] <= site.net[2] < SITE + len(site.code)


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


def test_prefetches_are_written_with_a_bound_where_they_read() -> None:
    lines = ["for (int i = 0; i < n; i++) {", "  sum += a[b[i]] + c[i];", "}"]
    bound = "if (i + 8 < n) __builtin_prefetch(&a[b[(i + 8)]]);"
    assert prefetches(lines, 1, "indirect", 8) == [bound]
    assert prefetches(lines, 1, "stride", 8) == ["__builtin_prefetch(&c[(i + 8)]);"]
    assert prefetches(["while (p) p = p->next;"], 0, "stride", 8) == []
