# SPDX-License-Identifier: Apache-2.0
"""Every key that a machine file may have: the only list. Reading, errors, --toml, docs use it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

POLICIES = ("lru", "plru", "fifo", "random", "srrip")
HOLDS = ("data", "instructions", "both")
INCLUSIONS = ("neither", "inclusive", "exclusive")
PREFETCHERS = ("none", "next_line", "stride", "stream", "region")
MAPPINGS = ("identity", "random")
FIRST_TOUCHES = ("memory", "cleared")
PROTOCOLS = ("mesi", "moesi", "dragon", "dragon_owned")

REQUIRED = object()
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([KMG]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}", re.ASCII)


class Wrong(Exception):
    """A value that its key cannot have. The text says what was expected."""


def size(text: str) -> int:
    """Bytes of "512", "32K", "1.5 MiB". K, M and G are powers of 1,024, whatever follows them."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise Wrong('a size was expected: 32768, "32K", "1.5M"')
    number = Fraction(match[1]) * _UNITS[match[2].upper()]
    if number.denominator != 1:
        raise Wrong(f"a whole number of bytes was expected; this is {float(number):g}")
    return int(number)


def size_text(number: int) -> str:
    """The shortest text that `size` reads as this number: 32768 -> 32K."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if number >= factor and number % factor == 0:
            return f"{number // factor}{unit}"
    return str(number)


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: str  # text, name, size, count, flag or choice
    meaning: str
    default: Any = REQUIRED
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 1_000_000

    def read(self, value: Any, *, from_text: bool = False) -> Any:
        """The checked value. From a command line, numbers and flags come as text too."""
        if from_text and isinstance(value, str):
            value = self._from_text(value)
        return getattr(self, f"_{self.kind}")(value)

    def _from_text(self, value: str) -> Any:
        if self.kind == "count" and re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII):
            return int(value)
        if self.kind == "flag":
            return {"true": True, "false": False}.get(value.lower(), value)
        return value

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Wrong(f"text in quotes was expected, not {_kind_of(value)}")
        return value

    def _name(self, value: Any) -> str:
        if not _NAME.fullmatch(self._text(value)):
            raise Wrong("a short name of letters, digits, - and _ was expected")
        return str(value)

    def _flag(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Wrong(f"true or false was expected, not {_kind_of(value)}")
        return value

    def _choice(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise Wrong(f"one of these was expected: {', '.join(self.choices)}")
        return value

    def _count(self, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Wrong(f"a whole number was expected, not {_kind_of(value)}")
        if not self.least <= value <= self.most:
            raise Wrong(f"a number from {self.least:,} to {self.most:,} was expected")
        return value

    def _size(self, value: Any) -> int:
        number = size(value) if isinstance(value, str) else value
        if not isinstance(number, int) or isinstance(number, bool):
            raise Wrong(f'a size was expected (32768, "32K", "1.5M"), not {_kind_of(value)}')
        if not self.least <= number <= self.most:
            limits = f"{size_text(self.least)} to {size_text(self.most)}"
            raise Wrong(f"a size from {limits} was expected")
        return number

    def default_text(self) -> str:
        if self.default is REQUIRED:
            return "required"
        if self.default is None:
            return "see meaning"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return size_text(self.default) if self.kind == "size" else str(self.default)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "text", int: "a number", float: "a fraction", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or time")


@dataclass(frozen=True, slots=True)
class Section:
    name: str  # in the file; empty for what stands before the first header
    field: str  # of Machine
    repeated: bool
    keys: tuple[Key, ...]

    @property
    def title(self) -> str:
        if not self.name:
            return "a machine"
        return f"[[{self.name}]]" if self.repeated else f"[{self.name}]"

    def key(self, name: str) -> Key:
        return next(key for key in self.keys if key.name == name)


_SEED = Key("seed", "count", "of the random choices", 1, most=2**63 - 1)
_HOLDS = Key("holds", "choice", "what goes through it", "both", HOLDS)

SECTIONS: tuple[Section, ...] = (
    Section(
        "",
        "",
        False,
        (
            Key("description", "text", "one sentence for the list of machines", ""),
            Key("memory_latency", "count", "cycles when memory serves an access", 200),
            Key("page_walk", "count", "cycles that a miss in every TLB adds", 40),
            Key("seed", "count", "of caches that replace at random", 1, most=2**63 - 1),
        ),
    ),
    Section(
        "cache",
        "caches",
        True,
        (
            Key("name", "name", "as tables show it: L1D"),
            _HOLDS,
            Key("size", "size", "bytes", least=1, most=16 << 30),
            Key("ways", "count", "lines in a set", least=1, most=65536),
            Key("line", "size", "bytes in a line, a power of two", 64, least=8, most=4096),
            Key("latency", "count", "cycles when it serves an access, from the access on"),
            Key("policy", "choice", "which line of a full set goes", "lru", POLICIES),
            Key("write_allocate", "flag", "whether a store that misses brings the line in", True),
            Key("write_back", "flag", "false: every store goes on to the next level too", True),
            Key("inclusion", "choice", "of the caches inside it", "neither", INCLUSIONS),
        ),
    ),
    Section(
        "tlb",
        "tlbs",
        True,
        (
            Key("name", "name", "as tables show it: DTLB"),
            _HOLDS,
            Key("entries", "count", "pages that it knows", least=1, most=1 << 20),
            Key("ways", "count", "entries in a set; all of them when left out", None, (), 1, 65536),
            Key("page", "size", "bytes in a page, a power of two", 4096, least=512, most=1 << 30),
            Key("latency", "count", "cycles that a hit here adds", 0),
        ),
    ),
    Section(
        "prefetch",
        "prefetcher",
        False,
        (
            Key("kind", "choice", "how it guesses", "none", PREFETCHERS),
            Key("cache", "name", "which it watches and fills; the innermost for data", None),
            Key("degree", "count", "lines fetched ahead", 1, least=1, most=64),
            Key("crosses_pages", "flag", "whether it goes on into the next page", False),
        ),
    ),
    Section(
        "mapping",
        "mapping",
        False,
        (
            Key("kind", "choice", "of virtual pages to physical ones", "identity", MAPPINGS),
            _SEED,
            Key(
                "first_touch",
                "choice",
                "where an anonymous page is when it is first accessed: in memory, or in the "
                "caches, because the kernel cleared it",
                "memory",
                FIRST_TOUCHES,
            ),
        ),
    ),
)

_CYCLES: dict[str, Any] = {"least": 1, "most": 200}


def _entries(name: str, meaning: str, default: int, most: int = 1000) -> Key:
    return Key(name, "count", meaning, default, least=1, most=most)


SECTIONS += (
    Section(
        "core",
        "core",
        False,
        (
            _entries("fetch", "instructions fetched a cycle", 8, 64),
            _entries("bundle", "micro-operations dispatched and retired together", 5, 16),
            _entries("front_end", "cycles from fetch to dispatch", 18, 100),
            _entries("fetch_buffer", "bundles between fetch and dispatch", 8, 64),
            Key("taken_bubble", "count", "cycles without fetch after a taken branch", 1, most=20),
            _entries("rob", "bundles in the reorder buffer", 20),
            Key(
                "loose_rob",
                "flag",
                "true: it has room for the operations of so many full bundles, however full",
                False,
            ),
            _entries("rename", "rename registers", 80, 10_000),
            _entries("loads", "entries of the load buffer", 32),
            _entries("stores", "entries of the store buffer until retirement", 32),
            _entries("store_buffer", "retired stores that wait for the data cache", 16),
            _entries("iu", "integer units", 2, 16),
            _entries("fpu", "units for floating point and vectors", 2, 16),
            _entries("lsu", "load/store units", 2, 16),
            _entries("bu", "branch units", 1, 16),
            _entries("iu_queue", "entries of their issue queue", 36, 250),
            _entries("fpu_queue", "the same of the fpu", 20, 250),
            _entries("lsu_queue", "the same of the lsu", 36, 250),
            _entries("bu_queue", "the same of the bu", 12, 250),
            _entries("misses", "outstanding misses of the data cache", 8, 64),
            Key(
                "reject",
                "count",
                "cycles until a rejected load is issued again; 0: it waits",
                7,
                most=100,
            ),
            Key(
                "translation_rejects", "flag", "a miss of the first TLB does; else it delays", False
            ),
            Key("bus", "count", "cycles that a line takes on the memory bus", 8, most=1000),
            Key("integer", "count", "latency of integer operations", 1, **_CYCLES),
            Key("multiply", "count", "latency of a product", 4, **_CYCLES),
            Key("divide", "count", "latency of a division of 32 bits", 20, **_CYCLES),
            Key("divide_wide", "count", "latency of a division of 64 bits", 36, **_CYCLES),
            Key("vector", "count", "latency of vector moves, logic and integers", 2, **_CYCLES),
            Key("float_add", "count", "latency of a floating-point sum", 4, **_CYCLES),
            Key("float_multiply", "count", "latency of a floating-point product", 4, **_CYCLES),
            Key("float_divide", "count", "latency of a quotient or root", 20, **_CYCLES),
            Key("slow", "count", "latency of serialising instructions", 40, **_CYCLES),
            Key("predictor", "choice", "of branches", "tage", ("tage", "tournament")),
            _entries("return_stack", "return addresses that are predicted", 16, 1024),
            Key(
                "follow_chain", "flag", "within a bundle, charge what the last one waited for", True
            ),
            Key(
                "wrong_paths",
                "flag",
                "behind a mispredicted branch, loads that both ways lead to are executed early",
                False,
            ),
            _entries("counters", "physical performance counters", 8, 64),
        ),
    ),
)

SECTIONS += (
    Section(
        "path",
        "path",
        False,
        (
            _entries("tlb_entries", "pages that the TLB before it knows", 128, 1 << 20),
            _entries("tlb_ways", "entries in a set of it", 16, 65536),
            _entries("buffer_entries", "pages of the page access buffer", 2048, 1 << 24),
            _entries("buffer_ways", "entries in a set of it", 4, 65536),
            _entries("filter_entries", "pages of the filter behind it", 64, 65536),
            _entries(
                "log_entries", "entries of the log, which is read when it is full", 128, 1 << 20
            ),
            Key(
                "refresh",
                "count",
                "entries after which hot pages are read from the tables; 0: never",
                0,
                most=2**31,
            ),
            Key(
                "departures",
                "count",
                "1: it also logs what leaves its tables, and when that was used last",
                1,
                most=1,
            ),
        ),
    ),
)

_LATENCY: dict[str, Any] = {"default": 0, "most": 100_000}

SECTIONS += (
    Section(
        "chips",
        "chips",
        False,
        (
            _entries("chips", "chips with memory of their own; for `sharing` and `place`", 1, 64),
            _entries("cores", "cores of a chip; at most 64 in all", 1, 64),
            _entries("threads", "hardware threads of a core; at most 256 in all", 1, 256),
            Key("protocol", "choice", "that keeps caches coherent", "mesi", PROTOCOLS),
            Key("coherent", "text", "cache that keeps the states; the second one for data", ""),
            Key("shared", "text", "first one that a chip's cores share; behind the coherent", ""),
            Key("peer_latency", "count", "cycles: another core's cache, same chip", **_LATENCY),
            Key("remote_latency", "count", "cycles: coherent cache of another chip", **_LATENCY),
            Key("remote_outer_latency", "count", "cycles: its outermost cache", **_LATENCY),
            Key("remote_memory_latency", "count", "cycles: memory of another chip", **_LATENCY),
            Key("page", "size", "goes to the chip that touches it first", 4096, (), 512, 1 << 30),
        ),
    ),
)

# Names that a sweep could not tell from a section, those of coming sections among them.
RESERVED = frozenset(
    {name for section in SECTIONS if not section.repeated for name in (section.name, section.field)}
    | {"core", "pmu", "path", "chips", "coherence", "monitor", "memory"}
)


def section(name: str) -> Section:
    return next(s for s in SECTIONS if s.name == name)


def tables() -> str:
    """The keys as Markdown: the tables of docs/machines.md, which a test compares."""
    parts = []
    for part in SECTIONS:
        parts += [f"### {part.title if part.name else 'Before the first header'}", ""]
        parts += ["| key | value | default | meaning |", "|---|---|---|---|"]
        for key in part.keys:
            value = " ".join(f"`{c}`" for c in key.choices) or key.kind.replace(
                "flag", "true/false"
            )
            parts.append(f"| `{key.name}` | {value} | {key.default_text()} | {key.meaning} |")
        parts.append("")
    return "\n".join(parts)
