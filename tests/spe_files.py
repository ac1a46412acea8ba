# SPDX-License-Identifier: Apache-2.0
"""Builds perf.data files of Arm's SPE: packets as the Arm Architecture Reference Manual describes
them, inside the records that `perf record -e arm_spe_0//` writes around them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.perf_files import (
    CPU,
    IDENTIFIER,
    IP,
    TID,
    TIME,
    PerfFile,
    Source,
    attribute,
    comm,
    mapping,
    record,
    round_end,
    sized_text,
    words,
)

NEOVERSE_N1 = 0x410FD0C0
EVENT_TYPE = 9  # of the unit, on the machine that recorded
EVENTS = IDENTIFIER | IP | TID | TIME | CPU
L1D, L2, PEER, SYSTEM_CACHE, REMOTE, DRAM = 0x0, 0x8, 0x9, 0xB, 0xD, 0xE
TRUNCATED = 1
NOBODY = 0xFFFFFFFF
TICK_NS = 40  # a timer of 25 MHz


def packet(header: int, size: int, payload: int) -> bytes:
    return bytes([header]) + payload.to_bytes(size, "little")


def access(
    ip: int, address: int, tick: int | None, *, source: int = DRAM, total: int = 200,
    issue: int = 40, store: bool = False, thread: int = 0, level: int = 0, events: int = 0x16,
) -> bytes:  # fmt: skip
    out = packet(0xB0, 8, ip | level << 61 | 1 << 63)
    out += packet(0x49, 1, int(store)) + packet(0x98, 2, total) + packet(0x99, 2, issue)
    if thread:
        out += packet(0x65, 4, thread)
    out += packet(0xB2, 8, address) + packet(0x52, 2, events)
    if not store:
        out += packet(0x43, 1, source)
    return out + (b"\x01" if tick is None else packet(0x71, 8, tick))


def branch(ip: int, target: int, tick: int) -> bytes:
    out = packet(0xB0, 8, ip | 1 << 63) + packet(0x4A, 1, 1) + packet(0xB1, 8, target)
    return out + packet(0x42, 1, 2) + packet(0x71, 8, tick)


def info(midrs: dict[int, int] | None = None) -> bytes:
    """AUXTRACE_INFO; with processors its second form."""
    head = struct.pack("<II", 4, 0)
    if midrs is None:
        return record(70, 0, head + words(EVENT_TYPE, 1))
    out = words(2, 4, EVENT_TYPE, len(midrs))
    for cpu, midr in midrs.items():
        out += words(0x1010101010101010, cpu, 3, midr, EVENT_TYPE, 1024)
    return record(70, 0, head + out)


def timer(zero: int = 0) -> bytes:
    """TIME_CONV: nanoseconds are zero + ticks * TICK_NS."""
    return record(79, 0, words(0, TICK_NS, zero))


def piece(packets: bytes, cpu: int = 0, tid: int = NOBODY, offset: int = 0) -> bytes:
    packets += bytes(-len(packets) % 8)
    head = words(len(packets), offset, 0) + struct.pack("<IIII", cpu, tid, cpu, 0)
    return record(71, 0, head) + packets


def taken(source: Source, offset: int = 0, size: int = 64, flags: int = 0) -> bytes:
    """The kernel's AUX record."""
    return record(11, 0, words(offset, size, flags) + source.bytes())


def switched(source: Source) -> bytes:
    """To a thread that runs from here on."""
    return record(14, 0, source.bytes())


def spe_event(period: int = 1024) -> bytes:
    head = bytearray(attribute(EVENTS, config=0x300000001, kind=EVENT_TYPE, precise=0))
    head[16:24] = period.to_bytes(8, "little")
    head[40:48] = (1 << 18).to_bytes(8, "little")  # no frequency
    return bytes(head)


def spe_file(records: Sequence[bytes], cpu_id: str | None = None) -> PerfFile:
    """With one program, app, and its mappings, before `records`."""
    begin = Source(time=1000)
    known = [
        comm("app", begin, exec=True),
        mapping("/nowhere/app", 0x400000, 0x10000, begin),
        mapping("//anon", 0xFFFF70000000, 0x100000, begin, data=True),
    ]
    names = struct.pack("<II", 1, 128) + spe_event() + struct.pack("<I", 1)
    names += sized_text("arm_spe_0/load_filter=1,ts_enable=1/") + words(11)
    features = {6: sized_text("aarch64"), 12: names}
    if cpu_id is not None:
        features[9] = sized_text(cpu_id)
    return PerfFile([*known, *records], ((spe_event(), (11,)),), features)


def small() -> PerfFile:
    """Loads, a store and a branch of one thread, as a Neoverse N1 writes them."""
    packets = access(0x401010, 0xFFFF70000040, 100, source=L1D, total=44)
    packets += branch(0x401020, 0x401000, 110)
    packets += access(0x401030, 0xFFFF70000080, 120, total=700) + bytes(13)
    packets += access(0x401040, 0xFFFF700000C0, 130, store=True)
    return spe_file(
        [info({0: NEOVERSE_N1}), timer(), taken(Source(time=6000)), piece(packets), round_end()]
    )
