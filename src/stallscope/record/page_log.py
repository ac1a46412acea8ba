# SPDX-License-Identifier: Apache-2.0
"""The logs that the page tracker (runtime/pages) leaves: how a program is started with it, and what
is in them."""

from __future__ import annotations

import array
import bisect
import importlib.util
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.record.watch_spec import is_fixed

if TYPE_CHECKING:
    import pyarrow as pa

LIBRARY = "libstallscope_pages.so"
FOLDER, ACTIVE = b"STALLSCOPE_PAGE_LOG", b"STALLSCOPE_PAGE_ACTIVE"
# As runtime/pages/layout.h has it.
MAGIC = 0x31474F4C45474150
PAGE = 4096
WINDOW = 16 << 20
ENTRY = 24
PER_WINDOW = WINDOW // ENTRY
REGION = 2  # an entry that tells of one; below it are uses of pages: 0 read, 1 written
KINDS = ("mapping", "heap", "static")
NOT_HOT, LOGGED = 2, 4  # flags of table page_log


class Header(msgspec.Struct, frozen=True, array_like=True):
    magic: int
    version: int
    entries: int
    lost: int
    faults: int
    soft_faults: int
    calls: int
    active: int
    begin_ticks: int
    begin_ns: int
    end_ticks: int
    end_ns: int
    dispatch: int


def library() -> Path:
    """The preload library, which lies beside the compiled extension."""
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is not None and extension.origin is not None:
        found = Path(extension.origin).parent / "runtime" / LIBRARY
        if found.exists():
            return found
    raise StallscopeError(
        f"{LIBRARY} is missing", "it lies beside the compiled extension", "reinstall stallscope"
    )


def environment(before: Mapping[bytes, bytes], logs: Path, active: int) -> dict[bytes, bytes]:
    """What a program is started with. What else is preloaded stays, behind the tracker."""
    preloaded = [os.fsencode(library()), before.get(b"LD_PRELOAD", b"")]
    return {
        **before,
        b"LD_PRELOAD": b":".join(word for word in preloaded if word),
        FOLDER: os.fsencode(logs.resolve()),
        ACTIVE: str(active).encode(),
    }


def choose(logs: Path, pid: int, maps: str = "") -> PageLog | None:
    """Of the images that the process had, the one of which most was logged. `maps`: as the kernel
    showed them while it ran."""
    found = [PageLog(path, maps) for path in logs.glob(f"{pid}.*")]
    used = [log for log in found if log.header.magic == MAGIC and log.header.entries]
    return max(used, key=lambda log: log.header.entries, default=None)


class PageLog:
    """One log, whose process has ended."""

    def __init__(self, path: Path, maps: str = "") -> None:
        self._path = path
        self._variables = large_variables(maps)
        with path.open("rb") as file:
            head = file.read(PAGE).ljust(PAGE, b"\0")
        size = len(Header.__struct_fields__)
        self.header = Header(*struct.unpack_from(f"<{size}Q", head))
        self._regions: list[tuple[int, int, str]] = []  # first page, pages, kind; in their order
        self.threads: dict[int, list[int]] = {}  # the kernel's number: first and last time
        for part in self._parts() if self.header.magic == MAGIC else ():
            self._regions += _regions_of(part)
            _note_threads(part, self.threads)
        self._numbers = {lwp: i for i, lwp in enumerate(self.threads, 1)}

    def _parts(self) -> Iterator[pa.Table]:
        """Entries of one window after the other."""
        import pyarrow as pa

        left = self.header.entries
        with self._path.open("rb") as file:
            file.seek(PAGE)
            while left > 0:
                data = file.read(WINDOW)
                count = min(left, PER_WINDOW, len(data) // ENTRY)
                if count == 0:
                    return
                data = data[: count * ENTRY]
                wide, narrow = array.array("Q"), array.array("I")
                wide.frombytes(data)
                narrow.frombytes(data)
                yield pa.table(
                    {
                        "ticks": pa.array(wide[0::3], pa.uint64()),
                        "page": pa.array(wide[1::3], pa.uint64()),
                        "thread": pa.array(narrow[4::6], pa.uint32()),
                        "kind": pa.array(narrow[5::6], pa.uint32()),
                    }
                )
                left -= count

    def thread_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "thread": self._numbers[lwp],
                "lwp": lwp,
                "name": "",
                "parent": None if self._numbers[lwp] == 1 else 1,
                "started": first - self.header.begin_ticks,
                "ended": last - self.header.begin_ticks,
                "instructions": 0,
                "turns": 0,
            }
            for lwp, (first, last) in self.threads.items()
        ]

    def fill(self, append: Callable[[Any], None]) -> dict[str, Any]:
        """The tables of a page tracking; times are ticks of the processor's clock, which stand for
        instructions."""
        from stallscope import tables

        stack = _engine.LruStack()
        names = self._names()
        last = 0
        for part in self._parts():
            rows = self._rows(part, names)
            if not rows.num_rows:
                continue
            last = rows.column("time")[-1].as_py()
            for chunk in rows.column("page").chunks:
                stack.append(tables.memory_of(chunk))
            append(rows)
        end = self.header.end_ticks
        took = end - self.header.begin_ticks if end else last
        return {
            "tables": self._tables(stack),
            "instructions": max(took, last),
            "accesses": 0,
            "references": stack.references,
            "footprint": stack.distinct,
        }

    def _rows(self, part: pa.Table, names: _Names) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        from stallscope import tables

        uses = part.filter(pc.less(part.column("kind"), pa.scalar(REGION, pa.uint32())))
        count = uses.num_rows
        flags = pc.add(
            uses.column("kind").cast(pa.uint8()), pa.scalar(NOT_HOT | LOGGED, pa.uint8())
        )
        lwps = pa.array(self._numbers.keys(), pa.uint32())
        numbers = pa.array(self._numbers.values(), pa.uint32())
        columns = [
            pc.subtract(uses.column("ticks"), pa.scalar(self.header.begin_ticks, pa.uint64())),
            uses.column("page"),
            pc.take(numbers, pc.index_in(uses.column("thread"), lwps)),
            names.buckets(uses.column("page")),
            pa.repeat(pa.scalar(0, pa.uint32()), count),
            flags,
            pa.repeat(pa.scalar(0, pa.uint64()), count),
        ]
        return pa.table(columns, schema=tables.arrow_schema("page_log"))

    def _names(self) -> _Names:
        static = [region for region in self._regions if region[2] == "static"]
        inside = [
            one
            for one in self._variables
            if any(first <= one[0] < first + pages for first, pages, _ in static)
        ]
        return _Names([*self._regions, *inside])

    def _tables(self, stack: _engine.LruStack) -> dict[str, pa.Table]:
        import pyarrow as pa

        from stallscope import tables

        curve, before = [], None
        misses = list(stack.curve())
        for pages in range(1, len(misses)):
            if misses[pages] != before or pages == len(misses) - 1:
                curve.append({"thread": None, "pages": pages, "misses": misses[pages]})
            before = misses[pages]
        region = {"region": 0, "around": None, "name": "", "entered": 1}
        rows: dict[str, list[dict[str, Any]]] = {
            "page_curve": curve,
            "page_unit": [],
            "page_buffer": [],
            "bucket": self._names().rows(),
            "region": [region | {"instructions": 0, "accesses": 0}],
        }
        return {
            name: pa.Table.from_pylist(found, tables.arrow_schema(name))
            for name, found in rows.items()
        }


class _Names:
    """What lies where: a later region hides an earlier one."""

    def __init__(self, regions: list[tuple[int, int, str]]) -> None:
        self._regions = regions
        edges = sorted({edge for first, pages, _ in regions for edge in (first, first + pages)})
        owners = [0] * len(edges)
        for number, (first, pages, _) in enumerate(regions, 1):
            begin, end = bisect.bisect_left(edges, first), bisect.bisect_left(edges, first + pages)
            owners[begin:end] = [number] * (end - begin)
        self._edges, self._owners = edges, owners

    def buckets(self, pages: pa.ChunkedArray) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pc.unique(pages)
        found = [self._owner(page) for page in known.to_pylist()]
        return pc.take(pa.array(found, pa.uint32()), pc.index_in(pages, known))

    def _owner(self, page: int) -> int:
        at = bisect.bisect_right(self._edges, page) - 1
        return self._owners[at] if at >= 0 else 0

    def rows(self) -> list[dict[str, Any]]:
        def row(number: int, kind: str, name: str, size: int) -> dict[str, Any]:
            facts = {"bucket": number, "kind": kind, "name": name, "type": "", "site": None}
            return facts | {"blocks": 1, "bytes": size, "operation": None}

        found = [row(0, "unknown", "", 0)]
        for number, (first, pages, kind) in enumerate(self._regions, 1):
            if kind not in KINDS:
                found.append(row(number, "global", kind, pages * PAGE))
                continue
            called = {"heap": "[heap]", "static": "<static data>"}.get(kind)
            name = called or f"<memory at {first * PAGE:#x}, {pages * PAGE >> 10:,} KiB>"
            found.append(row(number, "mapping", name, pages * PAGE))
        return found


def large_variables(maps: str) -> list[tuple[int, int, str]]:
    """(first page, pages, name) of variables that have pages of their own, of the files mapped."""
    bases: dict[str, int] = {}
    for line in maps.splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[5].startswith("/") and int(words[2], 16) == 0:
            bases.setdefault(words[5], int(words[0].split("-")[0], 16))
    found = []
    for path, base in bases.items():
        try:
            bias = 0 if is_fixed(Path(path)) else base
            variables = _engine.Symbols(path).variables()
        except (OSError, IndexError, _engine.EngineError):
            continue
        for name, address, size, *_ in variables:
            first = (address + bias + PAGE - 1) // PAGE
            last = (address + bias + size) // PAGE
            if last > first:
                found.append((first, last - first, str(name)))
    return found


def _regions_of(part: pa.Table) -> list[tuple[int, int, str]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    low = pc.bit_wise_and(part.column("kind"), pa.scalar(0xFF, pa.uint32()))
    rows = part.filter(pc.equal(low, pa.scalar(REGION, pa.uint32()))).to_pylist()
    return [(row["page"], row["thread"], KINDS[(row["kind"] >> 8) % len(KINDS)]) for row in rows]


def _note_threads(part: pa.Table, threads: dict[int, list[int]]) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    uses = part.filter(pc.less(part.column("kind"), pa.scalar(REGION, pa.uint32())))
    times = uses.group_by("thread").aggregate([("ticks", "min"), ("ticks", "max")])
    for row in times.sort_by("ticks_min").to_pylist():
        known = threads.setdefault(row["thread"], [row["ticks_min"], 0])
        known[1] = row["ticks_max"]
