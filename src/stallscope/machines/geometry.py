# SPDX-License-Identifier: Apache-2.0
"""What no single key can tell: whether the parts of a machine fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from stallscope.machines.fault import Fault, nearest
from stallscope.machines.keys import RESERVED, size_text
from stallscope.machines.model import Cache, Machine, Tlb

MOST_LEVELS = 6  # on the way of one kind of access
MOST_WAYS = 65536
POLICY_WAYS = {"plru": 64, "srrip": 32}  # where a policy keeps all of a set's state in one word
MOST_CORES = 64
MOST_CONTEXTS = 256  # hardware threads
MOST_LINES = 1 << 26  # in a cache: what the simulator keeps in memory at most


def check(machine: Machine) -> None:
    """Raises Fault for the first thing that cannot be."""
    _names(machine)
    for index, cache in enumerate(machine.caches):
        _cache(index, cache)
    for inner, index, outer in _neighbours(machine.caches):
        _lines(inner, index, outer)
    _levels(machine)
    _inclusion(machine)
    if machine.caches and not any(cache.holds != "instructions" for cache in machine.caches):
        raise Fault(
            ("cache",),
            "there is no cache for data",
            "every machine needs a [[cache]] that holds data or both",
            'holds = "both"',
        )
    for index, tlb in enumerate(machine.tlbs):
        _tlb(index, tlb, machine)
    _prefetcher(machine)
    _core(machine)
    _path(machine)
    _chips(machine)


def _chips(machine: Machine) -> None:
    chips = machine.chips
    for key, number, most in (
        ("cores", chips.chips * chips.cores, MOST_CORES),
        ("threads", chips.contexts, MOST_CONTEXTS),
    ):
        if number > most:
            raise Fault(("chips", key), f"{number:,} {key} in all", f"there can be {most}")
    if not _power_of_two(chips.page):
        raise Fault(("chips", "page"), f"chips.page = {chips.page}: not a power of two")
    names = [cache.name for cache in machine.caches if cache.holds != "instructions"]
    for key in ("coherent", "shared"):
        given = getattr(chips, key)
        if given and given not in names:
            raise Fault(
                ("chips", key),
                f'chips.{key} = "{given}": there is no such cache for data',
                f"there is: {', '.join(names)}",
                nearest(given, names),
            )


def _path(machine: Machine) -> None:
    path = machine.path
    tables = (("tlb", path.tlb_entries, path.tlb_ways),)
    for name, entries, ways in (*tables, ("buffer", path.buffer_entries, path.buffer_ways)):
        sets = entries // ways
        if entries % ways or sets & (sets - 1) or not sets:
            raise Fault(
                ("path", f"{name}_ways"),
                f"path.{name}_ways = {ways} does not fit {entries} entries",
                "entries over ways, the number of sets, must be a power of two",
            )


def _core(machine: Machine) -> None:
    """A whole bundle must find room, or it could never be dispatched."""
    core = machine.core
    each = ("loads", "stores", "store_buffer", "iu_queue", "fpu_queue", "lsu_queue", "bu_queue")
    least = dict.fromkeys(each, core.bundle) | {"rename": 4 * core.bundle}
    for key, needed in least.items():
        if getattr(core, key) < needed:
            raise Fault(
                ("core", key),
                f"core.{key} = {getattr(core, key)} is too small",
                f"a bundle of {core.bundle} may need {needed}",
                f"{key} = {needed}",
            )


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _share(a: Cache | Tlb, b: Cache | Tlb) -> bool:
    return "both" in (a.holds, b.holds) or a.holds == b.holds


def _both(machine: Machine) -> list[tuple[str, Sequence[Cache | Tlb]]]:
    return [("cache", machine.caches), ("tlb", machine.tlbs)]


def _names(machine: Machine) -> None:
    seen: dict[str, str] = {}
    parts = [(name, *part) for name, found in _both(machine) for part in enumerate(found)]
    for section, index, part in parts:
        name, path = part.name.lower(), (section, index, "name")
        if name in seen:
            raise Fault(path, f"{part.name} is the name of {seen[name]} already")
        if name in RESERVED:
            raise Fault(path, f"{part.name} is no name for a {section}", "it is reserved")
        seen[name] = f"[[{section}]] number {index + 1}"


def _cache(index: int, cache: Cache) -> None:
    name = cache.name
    if not _power_of_two(cache.line):
        raise Fault(
            ("cache", index, "line"),
            f"{name}.line = {cache.line}: not a power of two",
            "lines have 16, 32, 64, 128 … bytes",
            f"line = {1 << cache.line.bit_length() - 1}",
        )
    lines, rest = divmod(cache.size, cache.line)
    if rest or not lines:
        raise Fault(
            ("cache", index, "size"),
            f"{name}.size = {size_text(cache.size)}: "
            f"not a whole number of lines of {cache.line} bytes",
            now=f'size = "{size_text(max(1, lines) * cache.line)}"',
        )
    if lines > MOST_LINES:
        raise Fault(
            ("cache", index, "size"),
            f"{name}.size = {size_text(cache.size)}: {lines:,} lines",
            f"a simulated cache has at most {MOST_LINES:,}",
        )
    _ways(index, cache, lines)


def _ways(index: int, cache: Cache, lines: int) -> None:
    path, given = ("cache", index, "ways"), f"{cache.name}.ways = {cache.ways}"
    if cache.ways > lines:
        raise Fault(
            path,
            f"{given}: the cache has only {lines:,} lines",
            now=f"ways = {min(lines, MOST_WAYS)}",
        )
    if lines % cache.ways:
        fitting = min(
            (ways for ways in range(1, min(lines, MOST_WAYS) + 1) if lines % ways == 0),
            key=lambda ways: abs(ways - cache.ways),
        )
        raise Fault(
            path,
            f"{given}: {size_text(cache.size)} / {cache.line} B / {cache.ways} ways "
            "is not a whole number of sets",
            now=f"ways = {fitting}, or "
            f'size = "{size_text(lines // cache.ways * cache.ways * cache.line)}"',
        )
    if cache.ways > POLICY_WAYS.get(cache.policy, MOST_WAYS):
        raise Fault(
            path,
            f"{given}: too many for {cache.policy}",
            f"it takes at most {POLICY_WAYS[cache.policy]}",
            'policy = "lru"',
        )
    if cache.policy == "plru" and not _power_of_two(cache.ways):
        raise Fault(
            ("cache", index, "policy"),
            f'{cache.name}.policy = "plru": {cache.ways} ways are not a power of two',
            "the tree of pseudo-LRU has a leaf for each way and is complete",
            'policy = "lru"',
        )


def _neighbours(caches: Sequence[Cache]) -> Iterator[tuple[Cache, int, Cache]]:
    """Each cache with the one next to it on the way to the core, of data and of instructions."""
    for kind in ("data", "instructions"):
        way = [(i, cache) for i, cache in enumerate(caches) if cache.holds in (kind, "both")]
        for (_, inner), (index, outer) in pairwise(way):
            yield inner, index, outer


def _lines(inner: Cache, index: int, outer: Cache) -> None:
    if outer.line < inner.line:
        raise Fault(
            ("cache", index, "line"),
            f"{outer.name}.line = {outer.line}: "
            f"smaller than the line of {inner.name} inside it, {inner.line}",
            "caches stand in order from the core outwards, and lines never shrink",
            f"line = {inner.line}",
        )
    if outer.inclusion == "exclusive" and outer.line != inner.line:
        raise Fault(
            ("cache", index, "line"),
            f"{outer.name}.line = {outer.line}: {inner.name} inside it has {inner.line}",
            "an exclusive cache is filled with the lines that leave the cache inside it",
            f"line = {inner.line}",
        )
    if outer.inclusion == "exclusive" and not inner.write_back:
        raise Fault(
            ("cache", index, "inclusion"),
            f'{outer.name}.inclusion = "exclusive": {inner.name} inside it does not write back',
            "a line that was written to moves inwards and would be lost there",
            'inclusion = "neither"',
        )


def _levels(machine: Machine) -> None:
    for section, parts in _both(machine):
        for kind in ("data", "instructions"):
            way = [i for i, part in enumerate(parts) if part.holds in (kind, "both")]
            if len(way) > MOST_LEVELS:
                raise Fault(
                    (section, way[MOST_LEVELS]),
                    f"{kind}: {len(way)} levels of [[{section}]]",
                    f"there can be {MOST_LEVELS}",
                )


def _inclusion(machine: Machine) -> None:
    for index, cache in enumerate(machine.caches):
        if cache.inclusion == "neither":
            continue
        if not any(_share(inner, cache) for inner in machine.caches[:index]):
            raise Fault(
                ("cache", index, "inclusion"),
                f'{cache.name}.inclusion = "{cache.inclusion}": there is no cache inside it',
                "caches stand in order from the core outwards",
                'inclusion = "neither"',
            )


def _tlb(index: int, tlb: Tlb, machine: Machine) -> None:
    if not _power_of_two(tlb.page):
        raise Fault(
            ("tlb", index, "page"),
            f"{tlb.name}.page = {size_text(tlb.page)}: not a power of two",
            now=f'page = "{size_text(1 << tlb.page.bit_length() - 1)}"',
        )
    largest = max((cache.line for cache in machine.caches), default=0)
    if tlb.page < largest:
        raise Fault(
            ("tlb", index, "page"),
            f"{tlb.name}.page = {tlb.page}: smaller than a cache line of {largest} bytes",
        )
    if tlb.ways > tlb.entries:
        raise Fault(
            ("tlb", index, "ways"),
            f"{tlb.name}.ways = {tlb.ways}: the TLB has only {tlb.entries} entries",
            now=f"ways = {tlb.entries}",
        )
    if tlb.entries % tlb.ways:
        raise Fault(
            ("tlb", index, "ways"),
            f"{tlb.name}.ways = {tlb.ways}: "
            f"{tlb.entries} entries / {tlb.ways} ways is not a whole number of sets",
        )
    for inner in machine.tlbs[:index]:
        if _share(inner, tlb) and tlb.page < inner.page:
            raise Fault(
                ("tlb", index, "page"),
                f"{tlb.name}.page = {size_text(tlb.page)}: "
                f"smaller than the page of {inner.name} inside it, {size_text(inner.page)}",
                "TLBs stand in order from the core outwards",
            )


def _prefetcher(machine: Machine) -> None:
    prefetcher = machine.prefetcher
    if prefetcher.kind == "none":
        return
    names = [cache.name for cache in machine.caches if cache.holds != "instructions"]
    if prefetcher.cache not in names:
        raise Fault(
            ("prefetch", "cache"),
            f'prefetch.cache = "{prefetcher.cache}": there is no such cache for data',
            f"there is: {', '.join(names)}",
            nearest(prefetcher.cache, names),
        )
    if any(c.name == prefetcher.cache and c.inclusion == "exclusive" for c in machine.caches):
        raise Fault(
            ("prefetch", "cache"),
            f'prefetch.cache = "{prefetcher.cache}": it is exclusive',
            "an exclusive cache takes only what leaves the cache inside it",
        )
