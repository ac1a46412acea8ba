# SPDX-License-Identifier: Apache-2.0
"""Steps out of a program's file, for code of which only addresses are known."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from stallscope.slicing.graph import function_of
from stallscope.slicing.step import Step, decode

_LONGEST = 15
_LOAD, _EXECUTE = 1, 1

Read = Callable[[int, int], bytes]  # address and count; fewer bytes or none where nothing is


class Image:
    """The executable parts of an ELF file, by the file's own addresses."""

    def __init__(self, path: str | Path):
        self._bytes = Path(path).read_bytes()
        self._parts: list[tuple[int, int, int]] = []  # address, offset, size
        if self._bytes[:4] != b"\x7fELF" or len(self._bytes) < 64:
            return
        start, size, count = (
            *struct.unpack_from("<Q", self._bytes, 32),
            *struct.unpack_from("<HH", self._bytes, 54),
        )
        for number in range(count):
            at = start + number * size
            if size < 56 or at + 56 > len(self._bytes):
                break
            kind, flags, offset, address, _, in_file = struct.unpack_from(
                "<IIQQQQ", self._bytes, at
            )
            if kind == _LOAD and flags & _EXECUTE:
                self._parts.append((address, offset, in_file))

    def read(self, address: int, count: int) -> bytes:
        for start, offset, size in self._parts:
            if start <= address < start + size:
                count = min(count, start + size - address)
                return self._bytes[offset + address - start :][:count]
        return b""


def steps_from(read: Read, address: int) -> dict[int, Step]:
    """Everything that control can reach from an address without leaving its function. Loops around
    it are among that."""

    def fetch(at: int) -> Step | None:
        code = read(at, _LONGEST)
        return decode(code, at) if code else None

    return function_of(fetch, address)
