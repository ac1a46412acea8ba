# SPDX-License-Identifier: Apache-2.0
"""Trying out performance events: each is opened by the system call, made to happen, and read.

What an event list or libpfm says counts for nothing here: in a virtual machine only the kernel's
answer to perf_event_open tells whether an event can be counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import re
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PERF_EVENT_OPEN = 298  # x86-64
_FLAG_CLOEXEC = 8

HARDWARE, SOFTWARE, TRACEPOINT, RAW, BREAKPOINT = 0, 1, 2, 4, 5

_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR, _FREQUENCY = 1 << 0, 1 << 5, 1 << 6, 1 << 10
_PRECISE_SHIFT = 15
_SAMPLE_IP, _SAMPLE_TID, _SAMPLE_ADDRESS, _SAMPLE_REGISTERS = 1 << 0, 1 << 1, 1 << 3, 1 << 12
_USER_REGISTERS = 0xFF0FFF  # all that x86-64 has for user code: not the segments ds, es, fs, gs
_RECORD_SAMPLE = 9
_IOC_ENABLE, _IOC_DISABLE = 0x2400, 0x2401

_DEVICES = Path("/sys/bus/event_source/devices")
TRACING = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))


class Attributes(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("breakpoint_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64),
        ("config2", ctypes.c_uint64),
        ("branch_sample_type", ctypes.c_uint64),
        ("sample_regs_user", ctypes.c_uint64),
        ("sample_stack_user", ctypes.c_uint32),
        ("clockid", ctypes.c_int32),
        ("sample_regs_intr", ctypes.c_uint64),
        ("aux_watermark", ctypes.c_uint32),
        ("sample_max_stack", ctypes.c_uint16),
        ("reserved", ctypes.c_uint16),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of trying one thing. `error` is an errno's name, or empty."""

    name: str
    works: bool
    detail: str = ""
    error: str = ""
    limited: bool = False  # it works in part, and `detail` says which


_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def _opened(attributes: Attributes, leader: int = -1) -> Iterator[int]:
    """A disabled event on this thread, in `leader`'s group; closed at the end. Raises OSError."""
    attributes.size = ctypes.sizeof(attributes)
    attributes.flags |= _DISABLED
    ctypes.set_errno(0)
    fd = _libc.syscall(
        _PERF_EVENT_OPEN, ctypes.byref(attributes), 0, -1, leader, ctypes.c_ulong(_FLAG_CLOEXEC)
    )
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    try:
        yield fd
    finally:
        os.close(fd)


def _control(fd: int, request: int) -> None:
    if _libc.ioctl(fd, ctypes.c_ulong(request), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _count(
    attributes: Attributes, work: Callable[[], object], leader: Attributes | None = None
) -> int:
    with contextlib.ExitStack() as events:
        group = -1 if leader is None else events.enter_context(_opened(leader))
        fd = events.enter_context(_opened(attributes, group))
        if leader is not None:
            _control(group, _IOC_ENABLE)
        _control(fd, _IOC_ENABLE)
        work()
        _control(fd, _IOC_DISABLE)
        (count,) = struct.unpack("=Q", os.read(fd, 8))
    return int(count)


def _attempt(name: str, attempt: Callable[[], Outcome]) -> Outcome:
    try:
        return attempt()
    except OSError as error:
        return Outcome(name, False, error=errno.errorcode.get(error.errno or 0, str(error.errno)))


def counted(
    name: str,
    attributes: Attributes,
    work: Callable[[], object],
    leader: Attributes | None = None,
) -> Outcome:
    """Counts with the kernel's part, and when that is not allowed without it."""

    def attempt() -> Outcome:
        where = ""
        try:
            count = _count(attributes, work, leader)
        except PermissionError:
            attributes.flags |= _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
            count = _count(attributes, work, leader)
            where = ", in user code only"
        if count == 0:
            return Outcome(name, True, f"opens, but counts nothing{where}", limited=True)
        return Outcome(name, True, f"counted {count:,}{where}", limited=bool(where))

    return _attempt(name, attempt)


def _busy() -> None:
    end = time.perf_counter() + 0.003
    while time.perf_counter() < end:
        pass


def _touch_pages() -> None:
    with mmap.mmap(-1, 16 * mmap.PAGESIZE) as pages:
        for offset in range(0, len(pages), mmap.PAGESIZE):
            pages[offset] = 1


def hardware() -> Iterator[Outcome]:
    for name, config in (("cycles", 0), ("instructions", 1), ("cache misses", 3)):
        yield counted(name, Attributes(type=HARDWARE, config=config), _busy)
    # 0xc0 is "instructions retired" in Intel's and in AMD's processors alike.
    yield counted("raw events", Attributes(type=RAW, config=0xC0), _busy)


def software() -> Iterator[Outcome]:
    for name, config, work in (
        ("cpu-clock", 0, _busy),
        ("task-clock", 1, _busy),
        ("page faults", 2, _touch_pages),
        ("context switches", 3, lambda: time.sleep(0.001)),
    ):
        yield counted(name, Attributes(type=SOFTWARE, config=config), work)


def tracepoint() -> Outcome:
    """Counts a system call by its tracepoint, whose number only tracefs knows."""
    name = "tracepoints"
    for folder in TRACING:
        for event in ("syscalls/sys_enter_getppid", "sched/sched_switch"):
            try:
                number = int((folder / "events" / event / "id").read_text())
            except FileNotFoundError:
                continue
            except OSError as error:
                return Outcome(name, False, f"{folder} cannot be read", _name_of(error))
            return counted(name, Attributes(type=TRACEPOINT, config=number), _call_and_sleep)
    return Outcome(name, False, "no tracefs is mounted")


def _name_of(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def _call_and_sleep() -> None:
    _libc.getppid()
    time.sleep(0.001)


def uprobe() -> Outcome:
    """Counts calls of a C library function by a probe on its first instruction."""
    name = "uprobes"
    try:
        kind = int((_DEVICES / "uprobe" / "type").read_text())
        file, offset = _file_offset(ctypes.cast(_libc.getppid, ctypes.c_void_p).value or 0)
    except (OSError, ValueError):
        return Outcome(name, False, "the kernel has no uprobes")
    path = ctypes.create_string_buffer(os.fsencode(file))
    attributes = Attributes(type=kind, config1=ctypes.addressof(path), config2=offset)
    return counted(name, attributes, _libc.getppid)


def _file_offset(address: int) -> tuple[str, int]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, _, _, *file = line.split(None, 5)
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end and file:
            return file[0], address - start + int(offset, 16)
    raise ValueError("not in a file")


def watchpoint() -> Outcome:
    """Writes to a watched variable of our own and counts the hits."""
    watched = ctypes.c_uint64(0)

    def write() -> None:
        for value in range(10):
            watched.value = value

    def attempt() -> Outcome:
        attributes = Attributes(
            type=BREAKPOINT,
            sample_period=1,
            breakpoint_type=2,  # writes
            config1=ctypes.addressof(watched),
            config2=8,
            flags=_EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR,
        )
        count = _count(attributes, write)
        return Outcome(
            "data watchpoints", True, f"{count} of 10 writes caught", limited=count != 10
        )

    return _attempt("data watchpoints", attempt)


def precise_loads() -> Outcome:
    """Opens the processor's own load sampling: mem-loads (Intel), IBS (AMD) or SPE (Arm)."""
    name = "precise loads"
    for device in ("cpu", "cpu_core"):
        if event := _event(device, "mem-loads"):
            loads = _loads(device, event["config"], 2 << _PRECISE_SHIFT | _EXCLUDE_KERNEL)
            loads.config1 = event.get("ldlat", 3)
            # From Sapphire Rapids on another event leads its group.
            beside = _event(device, "mem-loads-aux")
            leader = Attributes(type=loads.type, config=beside["config"]) if beside else None
            if leader is not None:
                leader.flags = _EXCLUDE_KERNEL
            return counted(name, loads, _busy, leader)
    if (_DEVICES / "ibs_op").exists():
        loads = _loads("ibs_op", 0, 0)
        loads.sample_period = 0x10000
        return counted(name, loads, _busy)
    if (_DEVICES / "arm_spe_0").exists():
        return _attempt(name, lambda: _opens(name, _loads("arm_spe_0", 0, _EXCLUDE_KERNEL)))
    return Outcome(name, False, "the kernel shows no unit that samples loads", "ENODEV")


def _loads(device: str, config: int, flags: int) -> Attributes:
    return Attributes(
        type=int((_DEVICES / device / "type").read_text()),
        config=config,
        sample_period=100_003,
        sample_type=_SAMPLE_IP | _SAMPLE_TID | _SAMPLE_ADDRESS,
        flags=flags,
    )


def _opens(name: str, attributes: Attributes) -> Outcome:
    """What writes packets into memory counts nothing by itself."""
    with _opened(attributes):
        return Outcome(name, True, "opens")


def _event(device: str, event: str) -> dict[str, int]:
    """Of "event=0xcd,umask=0x1,ldlat=3"; empty when the device has none."""
    try:
        text = (_DEVICES / device / "events" / event).read_text()
    except OSError:
        return {}
    fields = {k: int(v, 0) for k, v in re.findall(r"(\w+)=(0x[0-9a-f]+|\d+)", text)}
    return fields | {"config": fields.get("event", 0) | fields.get("umask", 0) << 8}


def clock_sampling(milliseconds: int = 50) -> Outcome:
    """Samples this thread by the clock, with the user's registers, and counts what arrives."""
    name = "clock sampling"

    def attempt() -> Outcome:
        attributes = Attributes(
            type=SOFTWARE,
            config=0,
            sample_period=1000,
            sample_type=_SAMPLE_IP | _SAMPLE_TID | _SAMPLE_REGISTERS,
            sample_regs_user=_USER_REGISTERS,
            flags=_FREQUENCY | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR,
        )
        with _opened(attributes) as fd, mmap.mmap(fd, 17 * mmap.PAGESIZE) as ring:
            _control(fd, _IOC_ENABLE)
            end = time.perf_counter() + milliseconds / 1000
            while time.perf_counter() < end:
                pass
            _control(fd, _IOC_DISABLE)
            samples = sum(1 for _ in _samples(ring))
        if samples == 0:
            return Outcome(name, True, "opens, but no sample arrives", limited=True)
        return Outcome(
            name, True, f"{samples} samples with registers in {milliseconds} ms at 1 kHz"
        )

    return _attempt(name, attempt)


def _samples(ring: mmap.mmap) -> Iterator[int]:
    """The instruction pointers, out of the registers of each sample in a ring that did not wrap."""
    (head,) = struct.unpack_from("=Q", ring, 1024)
    at = 0
    while at + 8 <= head:
        kind, _, size = struct.unpack_from("=IHH", ring, mmap.PAGESIZE + at)
        if size < 8:
            return
        if kind == _RECORD_SAMPLE:
            # ip, pid and tid, then the registers' kind (2: 64-bit) and the registers by number
            _, _, abi = struct.unpack_from("=QQQ", ring, mmap.PAGESIZE + at + 8)
            if abi == 2:
                yield struct.unpack_from("=Q", ring, mmap.PAGESIZE + at + 32 + 8 * 8)[0]
        at += size
