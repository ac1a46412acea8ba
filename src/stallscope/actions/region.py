# SPDX-License-Identifier: Apache-2.0
"""The memory that is shared with the prefetch runtime inside a program, as runtime/ahead/layout.h
has it: a header, then code and data that are written here and used there."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

from iced_x86 import Register

from stallscope.actions.launch import SIZE
from stallscope.slicing import site as slicing
from stallscope.slicing.slice import Cell

REACH = 0x7000_0000  # of a jump, with room to spare
_FIRST = 64 << 10  # behind the header
_FUTEX, _WAKE = 202, 1  # x86-64
_LIBC = ctypes.CDLL(None)


class NoRoom(Exception):
    """All of the memory is used."""


class Net(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64), ("end", ctypes.c_uint64), ("landing", ctypes.c_uint64)]


class CellPlace(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_int32),
        ("index", ctypes.c_int32),
        ("scale", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("displacement", ctypes.c_int64),
        ("place", ctypes.c_uint64),
    ]


class Slot(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("armed", "want", "handed", "cell_count")),
        *((name, ctypes.c_uint32) for name in ("chunk", "slack", "pause", "unused")),
        *((name, ctypes.c_uint64) for name in ("runs", "at_hand", "enter", "start", "leave")),
        ("data", ctypes.c_uint64),
        ("hand", ctypes.c_uint64 * 16),
        *((name, ctypes.c_uint64) for name in ("visits", "ahead_runs", "faults", "behind")),
        *((name, ctypes.c_uint64) for name in ("pauses", "off")),
        ("cells", CellPlace * 96),
    ]


class Header(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_uint64),
        ("owner", ctypes.c_uint32),
        ("assist", ctypes.c_uint32),
        ("views", ctypes.c_uint64 * 2),
        ("stop", ctypes.c_uint32),
        ("net_count", ctypes.c_uint32),
        ("caught", ctypes.c_uint64),
        ("calls", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("nets", Net * 512),
        ("slots", Slot * 8),
    ]


class Region:
    """Owns the memory. What the program sees of it begins at one of `views`."""

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, SIZE)
        self.header = Header.from_buffer(self._memory)
        self._next = _FIRST
        self._slots = 0

    @property
    def ready(self) -> bool:
        """The runtime is in the program."""
        return bool(self.header.views[0])

    def call(self) -> None:
        """Wakes the assist thread, which sleeps while there is nothing to do."""
        self.header.calls = (self.header.calls + 1) & 0xFFFFFFFF
        word = ctypes.byref(self.header, Header.calls.offset)
        _LIBC.syscall(_FUTEX, word, _WAKE, 1, None, None, 0)

    def stop(self) -> None:
        """The assist thread ends."""
        self.header.stop = 1
        self.call()

    def near(self, address: int) -> int | None:
        """The view that code at an address can reach."""
        for view in self.header.views:
            if view and abs(view - address) < REACH:
                return int(view)
        return None

    def room(self, size: int) -> int:
        """An offset with so many free bytes, on lines of its own."""
        place, size = self._next, (size + 127) // 128 * 128
        if place + size > SIZE:
            raise NoRoom
        self._next += size
        return place

    def write(self, offset: int, content: bytes) -> None:
        self._memory[offset : offset + len(content)] = content

    def word(self, offset: int) -> ctypes.c_int64:
        return ctypes.c_int64.from_buffer(self._memory, offset)

    def add_nets(self, nets: Sequence[slicing.Net]) -> bool:
        """False when there is no room for them."""
        count = self.header.net_count
        if count + len(nets) > len(self.header.nets):
            return False
        for number, net in enumerate(nets, count):
            self.header.nets[number] = Net(net.begin, net.end, net.landing)
        self.header.net_count = count + len(nets)
        return True

    def take_slot(self) -> int | None:
        if self._slots >= len(self.header.slots):
            return None
        self._slots += 1
        return self._slots - 1

    def slot_address(self, view: int, number: int) -> int:
        return view + Header.slots.offset + number * ctypes.sizeof(Slot)

    def set_cells(self, slot: Slot, cells: list[tuple[Cell, int]]) -> None:
        """Each cell with the address of its copy."""
        for number, (cell, place) in enumerate(cells):
            slot.cells[number] = CellPlace(
                _number(cell.base),
                _number(cell.index),
                cell.scale,
                cell.size,
                cell.displacement,
                place,
            )
        slot.cell_count = len(cells)


def _number(register: int) -> int:
    return -1 if register == Register.NONE else int(register - Register.RAX)
