# SPDX-License-Identifier: Apache-2.0
"""Builds perf.data files, to the layouts that linux/perf_event.h and perf's documentation give."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

IP, TID, TIME, ADDR, CPU, PERIOD = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 7, 1 << 8
WEIGHT, DATA_SRC, IDENTIFIER, WEIGHT_STRUCT = 1 << 14, 1 << 15, 1 << 16, 1 << 24
LOADS = IDENTIFIER | IP | TID | TIME | ADDR | CPU | PERIOD | WEIGHT | DATA_SRC
KERNEL, USER = 1, 2
ATTRIBUTE_BYTES = 128
L1_HIT = 0x68100142  # a load that hit L1 and the TLB, as an Intel machine gave it
LFB_HIT = 2 | (0x12 << 5)
RAM = 2 | (0x82 << 5)


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def text(value: str) -> bytes:
    data = value.encode() + b"\0"
    return data + bytes(-len(data) % 8)


def record(kind: int, misc: int, payload: bytes) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(payload)) + payload


def attribute(sample_type: int, config: int = 0x1CD, kind: int = 4, precise: int = 2) -> bytes:
    sample_id_all, frequency = 1 << 18, 1 << 10
    head = struct.pack("<IIQQQQQ", kind, ATTRIBUTE_BYTES, config, 4000, sample_type, 0,
                       sample_id_all | frequency | precise << 15)  # fmt: skip
    return head + bytes(ATTRIBUTE_BYTES - len(head))


@dataclass
class Source:
    """What stands behind every record that is no sample."""

    pid: int = 100
    tid: int = 100
    time: int = 1
    cpu: int = 0
    id: int = 11

    def bytes(self) -> bytes:
        return struct.pack("<IIQIIQ", self.pid, self.tid, self.time, self.cpu, 0, self.id)


def comm(name: str, source: Source, exec: bool = False) -> bytes:
    payload = struct.pack("<II", source.pid, source.tid) + text(name)
    return record(3, 1 << 13 if exec else 0, payload + source.bytes())


def mapping(
    path: str, start: int, size: int, source: Source, offset: int = 0, data: bool = False
) -> bytes:
    payload = struct.pack("<IIQQQ", source.pid, source.tid, start, size, offset)
    detail = struct.pack("<IIQQII", 8, 1, 77, 0, 3 if data else 5, 2)
    misc = USER | (1 << 13 if data else 0)
    return record(10, misc, payload + detail + text(path) + source.bytes())


def fork(child: int, parent: int, source: Source, thread: bool = True) -> bytes:
    pid = parent if thread else child
    payload = struct.pack("<IIIIQ", pid, parent, child, parent, source.time)
    return record(7, 0, payload + source.bytes())


def load(
    ip: int, address: int, source: Source, weight: int = 7, data_source: int = L1_HIT,
    period: int = 1, mode: int = USER,
) -> bytes:  # fmt: skip
    payload = words(source.id, ip) + struct.pack("<II", source.pid, source.tid)
    payload += words(source.time, address) + struct.pack("<II", source.cpu, 0)
    return record(9, mode | 1 << 14, payload + words(period, weight, data_source))


def round_end() -> bytes:
    return record(68, 0, b"")


def lost(count: int, source: Source) -> bytes:
    return record(2, 0, words(source.id, count) + source.bytes())


def sized_text(value: str) -> bytes:
    data = text(value)
    return struct.pack("<I", len(data)) + data


@dataclass
class PerfFile:
    records: Sequence[bytes]
    events: Sequence[tuple[bytes, Sequence[int]]] = ((attribute(LOADS), (11,)),)
    features: dict[int, bytes] = field(default_factory=dict)

    def bytes(self) -> bytes:
        ids = b"".join(words(*numbers) for _, numbers in self.events)
        each = ATTRIBUTE_BYTES + 16
        events_at = 104 + len(ids)
        data = b"".join(self.records)
        data_at = events_at + len(self.events) * each
        flags = sum(1 << feature for feature in self.features)
        out = b"PERFILE2" + words(104, each, events_at, len(self.events) * each)
        out += words(data_at, len(data), 0, 0) + flags.to_bytes(32, "little") + ids
        at = 104
        for one, numbers in self.events:
            out += one + words(at, len(numbers) * 8)
            at += len(numbers) * 8
        out += data
        at = len(out) + 16 * len(self.features)
        for _, content in sorted(self.features.items()):
            out += words(at, len(content))
            at += len(content)
        return out + b"".join(content for _, content in sorted(self.features.items()))

    def piped(self) -> bytes:
        out = b"PERFILE2" + words(16)
        for one, numbers in self.events:
            out += record(64, 0, one + words(*numbers))
        for feature, content in sorted(self.features.items()):
            out += record(80, 0, words(feature) + content)
        return out + b"".join(self.records)

    def packed(self) -> PerfFile:
        import pyarrow as pa

        data = b"".join(self.records)
        half = len(data) // 2
        packed = [
            pa.Codec("zstd").compress(part, asbytes=True) for part in (data[:half], data[half:])
        ]
        limit = {27: struct.pack("<IIIII", 0, 1, 1, 3, 1 << 20)}
        return PerfFile(
            [record(81, 0, part) for part in packed], self.events, self.features | limit
        )


def small() -> PerfFile:
    """A program with two threads, some loads, names, and a feature or two."""
    at = [Source(time=1000 + i) for i in range(20)]
    other = Source(tid=101, time=1009)
    records = [
        comm("app", at[0], exec=True),
        mapping("/nowhere/app", 0x400000, 0x10000, at[1]),
        mapping("//anon", 0x7F0000000000, 0x100000, at[1], data=True),
        mapping("[stack]", 0x7FFE00000000, 0x21000, at[2], data=True),
        load(0x401010, 0x7F0000000040, at[5], 9),
        load(0x401020, 0x7FFE00000100, at[4], 230, RAM),
        round_end(),
        fork(101, 100, at[6]),
        comm("worker", Source(tid=101, time=1008)),
        load(0x401010, 0x7F0000000080, other, 40, LFB_HIT, period=3),
        load(0xFFFFFFFF81000010, 0xFFFF888000001000, at[10], 7, mode=KERNEL),
        lost(5, at[11]),
        round_end(),
    ]
    command = struct.pack("<I", 3) + b"".join(map(sized_text, ("perf", "mem", "record")))
    names = struct.pack("<II", 1, ATTRIBUTE_BYTES) + attribute(LOADS)
    names += struct.pack("<I", 1) + sized_text("cpu/mem-loads/pp") + words(11)
    features = {3: sized_text("somewhere"), 6: sized_text("x86_64"), 11: command, 12: names}
    return PerfFile(records, features=features)
