# SPDX-License-Identifier: Apache-2.0
"""What to watch, in the words of a person, and the bytes that these words mean in a recording.

0x4c2040          8 bytes there          0x4c2040+16, 0x4c2040-0x4c2050
total             a variable             table[*].count, table[3], state.lock
heap:make_tree    blocks of that site    heap:make_tree+16:8   these bytes of each
past:read_line    one past each block    past:*                of every site
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
class Blocks:
    """The same before sites are known: `function` is `*` for all."""

    function: str
    past: bool
    start: int
    end: int


@dataclass(frozen=True)
class Target:
    text: str
    ranges: tuple[Range, ...] = ()
    heap: Heap | None = None


def find(recording: Recording, text: str) -> Target:
    """An error when nothing has that name."""
    if (range_ := parse_address(text)) is not None:
        return Target(text, (range_,))
    if (blocks := parse_blocks(text)) is not None:
        return _heap(recording, text, blocks)
    if match := _NAME.fullmatch(text.strip()):
        return _variable(recording, text, match[1], match[2])
    raise StallscopeError(
        f"{text!r} names nothing that could be watched",
        now="0x4c2040+16, total, table[*].count, heap:FUNCTION or past:FUNCTION",
    )


def parse_address(text: str) -> Range | None:
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    start = int(match[1], 0)
    end = start + WORD
    if match[2]:
        end = int(match[3], 0) + (start if match[2] == "+" else 0)
    if not start < end <= 1 << 64:
        raise StallscopeError(f"{text}: the range is empty", now="FIRST-BEHIND or FIRST+BYTES")
    return start, end


def parse_blocks(text: str) -> Blocks | None:
    match = _HEAP.fullmatch(text.strip())
    if match is None:
        return None
    past = match[1] == "past"
    start = int(match[3] or 0)
    length = int(match[4] or 0)
    if match[4] == "0":
        raise StallscopeError(f"{text}: the range is empty")
    return Blocks(match[2], past, start, start + (length or 1) if past or match[3] else 0)


def _heap(recording: Recording, text: str, blocks: Blocks) -> Target:
    bytes_ = (blocks.past, blocks.start, blocks.end)
    if blocks.function == "*":
        return Target(text, heap=Heap((), *bytes_))
    names = site_names(recording.table("site"), depth=16)
    sites = sorted(site for site, name in names.items() if blocks.function in name)
    if not sites:
        functions = {name.split(" ")[0] for name in names.values()}
        raise StallscopeError(
            f"{text}: no heap block was made by {blocks.function}",
            f"there are {len(names):,} allocation paths" if names else "there are no heap blocks",
            nearest(blocks.function, sorted(functions)) or "stallscope objects lists them",
        )
    return Target(text, heap=Heap(tuple(sites), *bytes_))


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
    field = ""
    for index, name in _STEP.findall(steps):
        if index and not field and len(elements) > 1:
            elements = elements if index == "*" else [int(index)]
        elif index:
            field += f"[{index}]"
        else:
            field += f".{name}" if field else name
    if elements[0] * element >= size or len(elements) > MOST_ELEMENTS:
        raise StallscopeError(f"{text}: there are {size // element:,} elements")
    parts = _fields(text, engine, guess, element, field) if field else [(0, element)]
    if len(elements) * len(parts) > MOST_ELEMENTS:
        raise StallscopeError(f"{text}: there are {len(elements) * len(parts):,} of them")
    first = [address + number * element for number in elements]
    return [(at + offset, at + offset + length) for at in first for offset, length in parts]


def _fields(
    text: str, engine: _engine.Types, guess: _engine.Guess, size: int, field: str
) -> list[tuple[int, int]]:
    """Where they begin in an element, and their bytes; of a part of a field the whole of it. One,
    or with [*] one for each element of arrays in it."""
    names: dict[str, tuple[int, int]] = {}
    for name, start, length in _steps(engine, guess, size):
        names.setdefault(name, (start, length))
        for end in [i for i, letter in enumerate(name) if letter in ".[" and i]:
            low, high = names.get(name[:end], (start, 0))
            low, high = min(low, start), max(low + high, start + length)
            names[name[:end]] = (low, high - low)
    pattern = re.compile(re.escape(field).replace(r"\[\*\]", r"\[\d+\]"))
    found = [place for name, place in names.items() if pattern.fullmatch(name)]
    if not found:
        raise StallscopeError(
            f"{text}: there is no field {field}",
            f"there is: {', '.join(list(names)[:20])}" if names else "it has no fields",
            nearest(field, list(names)),
        )
    return found


def _steps(
    engine: _engine.Types, guess: _engine.Guess, size: int
) -> Iterator[tuple[str, int, int]]:
    """Name, place and bytes of what lies one behind the other; what has no name is left out."""
    at = 0
    for _ in range(4 * MOST_ELEMENTS):  # of more parts nobody can watch each
        if at >= size:
            return
        [(name, start, length, _)] = engine.fields(guess, [at])
        if name:
            yield name, start, length
        at = max(at + 1, start + length if name else 0)


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
