# SPDX-License-Identifier: Apache-2.0
"""What a file is, by its content rather than by its name."""

from __future__ import annotations

import lzma
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from stallscope import _engine
from stallscope.errors import StallscopeError

NAMES = ("perf", "lackey", "champsim", "drmemtrace", "csv", "parquet")
FIRST_BYTES = 8192
PIECE_BYTES = 1 << 20
PACKED_BYTES = 1 << 16
CHAMPSIM_RECORD = 64

_PACKED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "xz": lzma.LZMADecompressor,
}
_PERF = (b"PERFILE2", b"2ELIFREP", b"PERFFILE")
_LACKEY = re.compile(rb"^(?:I | [LSM]) +[0-9a-fA-F]+,\d+\r?$", re.M)
_VIEW = re.compile(rb"^ *\d+ +\d+: +\S+ (?:ifetch|read|write|<marker)", re.M)


@dataclass(frozen=True)
class Opened:
    format: str
    first: bytes  # unpacked


class Pieces:
    """A file piece by piece, unpacked when it is packed. `cut_off` tells that it ended too early;
    what stood in front was given."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)
        self.size = path.stat().st_size
        self.cut_off = False
        self._pieces = self._unpack()

    def read(self) -> bytes:
        """The next piece, of PIECE_BYTES at most; nothing at the end."""
        return next(self._pieces, b"")

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    @property
    def fraction(self) -> float:
        return self._file.tell() / self.size if self.size else 1.0

    def close(self) -> None:
        self._file.close()

    def _unpack(self) -> Iterator[bytes]:
        first = self._file.read(8)
        self._file.seek(0)
        kind = next((name for magic, name in _PACKED.items() if first.startswith(magic)), None)
        try:
            if kind is None:
                yield from iter(lambda: self._file.read(PIECE_BYTES), b"")
            elif kind == "zstd":
                yield from self._zstd()
            else:
                yield from self._members(_DECOMPRESSORS[kind])
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise StallscopeError(
                f"{self._path} cannot be unpacked at byte {self._file.tell()}",
                (error.strerror if isinstance(error, OSError) else None) or str(error),
                "copy the file again",
            ) from error

    def _members(self, make: Callable[[], Any]) -> Iterator[bytes]:
        """Packed files may be joined end to end."""
        member, data = make(), self._file.read(PACKED_BYTES)
        while data or not member.eof:
            if unpacked := member.decompress(data, PIECE_BYTES):
                yield unpacked
            if member.eof:
                data = (member.unused_data or self._file.read(PACKED_BYTES)).lstrip(b"\0")
                if not data:
                    return
                member = make()
                continue
            # zlib gives back what it did not take; lzma keeps it and says so.
            data = getattr(member, "unconsumed_tail", b"")
            if not data and getattr(member, "needs_input", True):
                data = self._file.read(PACKED_BYTES)
                if not data:
                    self.cut_off = True
                    return

    def _zstd(self) -> Iterator[bytes]:
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(self._file, mode="r"), "zstd")
        try:
            yield from iter(lambda: stream.read(PIECE_BYTES), b"")
        except OSError as error:
            if "truncated" not in str(error).lower():
                raise
            self.cut_off = True


def _open(path: Path) -> IO[bytes]:
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise StallscopeError(f"{path} is a folder", now="give one file of it")
        if not stat.S_ISREG(facts.st_mode):
            raise StallscopeError(f"{path} is no file", now="save it to a file first")
        return path.open("rb")
    except OSError as error:
        raise StallscopeError(f"cannot read {path}", error.strerror or "") from error


def look(path: Path, format: str) -> Opened:
    """Opens the file, and finds out what it is when `format` is auto."""
    pieces = Pieces(path)
    try:
        first = pieces.read()[:FIRST_BYTES]
    finally:
        pieces.close()
    if not first:
        raise StallscopeError(f"{path} is empty" if pieces.size == 0 else f"{path} holds nothing")
    found = _format_of(first, path) if format == "auto" else format
    if found in ("perf", "parquet") and first[:4] != path.open("rb").read(4):
        raise StallscopeError(
            f"{path} is packed", f"{found} files are read as they are", "unpack it"
        )
    return Opened(found, first)


def _format_of(first: bytes, path: Path) -> str:
    if first.startswith(_PERF):
        return "perf"
    if first.startswith(b"PAR1"):
        return "parquet"
    if b"\0" in first or "champsim" in path.name.lower():
        if _is_champsim(first):
            return "champsim"
    elif _LACKEY.search(first):
        return "lackey"
    elif b"<--record#->" in first or _VIEW.search(first):
        return "drmemtrace"
    elif _is_csv(first):
        return "csv"
    raise StallscopeError(
        f"{path} is in no format that is known",
        f"known are {', '.join(NAMES)}",
        "name it with --format; a CSV file needs a header with a column address",
    )


def _is_champsim(first: bytes) -> bool:
    """Every record has an address and two bytes that are 0 or 1."""
    records = [
        first[at : at + CHAMPSIM_RECORD]
        for at in range(0, len(first) - CHAMPSIM_RECORD + 1, CHAMPSIM_RECORD)
    ]
    return bool(records) and all(r[8] <= 1 and r[9] <= 1 and any(r[:8]) for r in records)


def _is_csv(first: bytes) -> bool:
    head = first.lstrip(b"\xef\xbb\xbf").splitlines()[0].decode(errors="replace")
    names = [name.strip(' "') for name in re.split("[,;\t]", head)]
    return any(_engine.access_column(name) for name in names)
