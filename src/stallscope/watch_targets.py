# SPDX-License-Identifier: Apache-2.0
"""What to watch, in the words of a person, and the bytes that these words mean in a recording.

0x4c2040          8 bytes there          0x4c2040+16, 0x4c2040-0x4c2050
total             a variable             table[*].count, table[3], state.lock
heap:make_tree    blocks of that site    heap:make_tree+16:8   these bytes of each
past:read_line    one past each block    past:*                of every site
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stallscope import _engine, types
from stallscope.analyses.sites import site_names
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest

if TYPE_CHECKING:
    from stallscope.recording import Recording

WORD = 8
LOAD = 0  # of op_kind
MOST_ELEMENTS = 1_000_000
Range = tuple[int, int]
_ADDRESS = re.compile(r"(0x[0-9a-fA-F]+|\d+)(?:([+-])(0x[0-9a-fA-F]+|\d+))?")
_NAME = re.compile(r"([A-Za-z_$][\w$:]*)((?:\[(?:\*|\d+)\]|\.[A-Za-z_$][\w$]*)*)")
_STEP = re.compile(r"\[(\*|\d+)\]|\.([A-Za-z_$][\w$]*)")
_HEAP = re.compile(r"(heap|past):(.+?)(?:\+(\d+)(?::(\d+))?)?")
# Functions of the C library's allocator, which writes beside blocks as it must.
_ALLOCATOR = re.compile(
    r"_*(libc_)?(malloc|free|calloc|realloc|memalign|posix_memalign|aligned_alloc|valloc|pvalloc|"
    r"malloc_consolidate|unlink_chunk|sysmalloc|systrim|int_malloc|int_free|int_realloc|"
    r"int_memalign|malloc_trim|malloc_usable_size|tcache_\w+|alloc_perturb)(\.\w+)*"
)
# Functions that read whole vectors around a string, as they may: never over the end of a page.
_STRINGS = re.compile(r"_*(str|wcs|wmem|mem|rawmem)\w*_(sse|avx|evex)\w*")
_BEFORE, _BEHIND = 0x3000, 0x1000  # bytes of the allocator's own that have no names


@dataclass(frozen=True)
class Heap:
    """Bytes of heap blocks: of these sites, or of all."""

    sites: tuple[int, ...]
    past: bool
    start: int
    end: int  # 0: the whole block


@dataclass(frozen=True)
class Target:
    text: str
    ranges: tuple[Range, ...] = ()
    heap: Heap | None = None


def find(recording: Recording, text: str) -> Target:
    """An error when nothing has that name."""
    word = text.strip()
    if match := _ADDRESS.fullmatch(word):
        return Target(text, (_address(text, match),))
    if match := _HEAP.fullmatch(word):
        return _heap(recording, text, match)
    if match := _NAME.fullmatch(word):
        return _variable(recording, text, match[1], match[2])
    raise StallscopeError(
        f"{text!r} names nothing that could be watched",
        now="0x4c2040+16, total, table[*].count, heap:FUNCTION or past:FUNCTION",
    )


def _address(text: str, match: re.Match[str]) -> Range:
    start = int(match[1], 0)
    end = start + WORD
    if match[2]:
        end = int(match[3], 0) + (start if match[2] == "+" else 0)
    if not start < end <= 1 << 64:
        raise StallscopeError(f"{text}: the range is empty", now="FIRST-BEHIND or FIRST+BYTES")
    return start, end


def _heap(recording: Recording, text: str, match: re.Match[str]) -> Target:
    past = match[1] == "past"
    start = int(match[3] or 0)
    length = int(match[4] or 0)
    if match[4] == "0":
        raise StallscopeError(f"{text}: the range is empty")
    end = start + (length or 1) if past or match[3] else 0
    if match[2] == "*":
        return Target(text, heap=Heap((), past, start, end))
    names = site_names(recording.table("site"), depth=16)
    sites = sorted(site for site, name in names.items() if match[2] in name)
    if not sites:
        functions = {name.split(" ")[0] for name in names.values()}
        raise StallscopeError(
            f"{text}: no heap block was made by {match[2]}",
            f"there are {len(names):,} allocation paths" if names else "there are no heap blocks",
            nearest(match[2], sorted(functions)) or "stallscope objects lists them",
        )
    return Target(text, heap=Heap(tuple(sites), past, start, end))


def _variable(recording: Recording, text: str, name: str, steps: str) -> Target:
    objects = recording.table("object").select(["kind", "name", "address", "size"]).to_pylist()
    known = [row for row in objects if row["kind"] in ("global", "named") and row["name"]]
    found = [row for row in known if row["name"] == name]
    if not found:
        raise StallscopeError(
            f"there is no variable {name}",
            f"{len(known):,} are known",
            nearest(name, sorted({row["name"] for row in known})),
        )
    engine = _engine.Types(list(types.modules(recording))) if steps else None
    ranges: list[Range] = []
    for row in found:
        ranges += element_ranges(text, engine, row["address"], row["size"], steps)
    return Target(text, tuple(ranges))


def element_ranges(
    text: str, engine: _engine.Types | None, address: int, size: int, steps: str
) -> Sequence[Range]:
    """What `steps` ([3], [*], .count) lead to, in a variable; all of it without `engine`."""
    if engine is None:
        return [(address, address + size)]
    guess = engine.variable(address)
    if guess is None:
        raise StallscopeError(
            f"{text}: the type of the variable is not known", now="build with -g, and record again"
        )
    element = guess.element_size or size
    elements = list(range(0, max(size // element, 1)))
    field, offset, length = "", 0, element
    for index, name in _STEP.findall(steps):
        if index and not field and len(elements) > 1:
            elements = elements if index == "*" else [int(index)]
        elif index:
            field += f"[{index}]"
        else:
            field += f".{name}" if field else name
    if elements[0] * element >= size or len(elements) > MOST_ELEMENTS:
        raise StallscopeError(f"{text}: there are {size // element:,} elements")
    if field:
        offset, length = _field(text, engine, guess, element, field)
    first = [address + number * element + offset for number in elements]
    return [(start, start + length) for start in first]


def _field(
    text: str, engine: _engine.Types, guess: _engine.Guess, size: int, field: str
) -> tuple[int, int]:
    """Where it begins in an element, and its bytes; of a part of a field the whole of it."""
    names: dict[str, tuple[int, int]] = {}
    for name, start, length, _ in engine.fields(guess, range(size)):
        if not name:
            continue
        names.setdefault(name, (start, length))
        for end in [i for i, letter in enumerate(name) if letter in ".["]:
            low, high = names.get(name[:end], (start, 0))
            low, high = min(low, start), max(low + high, start + length)
            names[name[:end]] = (low, high - low)
    if field not in names:
        raise StallscopeError(
            f"{text}: there is no field {field}",
            f"there is: {', '.join(list(names)[:20])}" if names else "it has no fields",
            nearest(field, list(names)),
        )
    return names[field]


def quiet_code(recording: Recording) -> list[Range]:
    """Code that goes past blocks and may: the allocator's, as far as names tell, and loads of
    string functions."""
    rows: Sequence[Mapping[str, int | str]] = (
        recording.table("operation").select(["address", "function", "kind"]).to_pylist()
    )
    modules = recording.table("module").select(["start", "end"]).to_pylist()
    found: dict[int, list[int]] = {}
    strings = []
    for row in rows:
        at, function = int(row["address"]), str(row["function"])
        if row["kind"] == LOAD and _STRINGS.fullmatch(function):
            strings.append((at, at + 1))
        if _ALLOCATOR.fullmatch(function):
            for number, module in enumerate(modules):
                if module["start"] <= at < module["end"]:
                    found.setdefault(number, []).append(at)
    return [*((min(at) - _BEFORE, max(at) + _BEHIND) for at in found.values()), *strings]
