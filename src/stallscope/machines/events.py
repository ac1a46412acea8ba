# SPDX-License-Identifier: Apache-2.0
"""Events that a machine's PMU can count: the misses of each level, of data or of instructions.

Levels go by their own names, whatever the machine calls them, or by short names that every machine
understands: l1 (l1d), l1i, l2, llc, dtlb, itlb, stlb.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stallscope.errors import StallscopeError
from stallscope.machines.model import Cache, Machine, Tlb

CODE = ":code"
DATA = ":data"


@dataclass(frozen=True)
class Event:
    """Misses of one level by data accesses, or by instruction fetches."""

    name: str  # the level's; with ":code" where both go there and instructions are meant
    level: int  # the engine's number: caches in order, then TLBs
    code: bool


def events(machine: Machine) -> dict[str, Event]:
    """Every name in small letters, and its event; a level's own name comes before short ones."""
    found: dict[str, Event] = {}
    for name, event in (*_own(machine), *_short(machine)):
        found.setdefault(name.lower(), event)
    return found


def find_event(machine: Machine, name: str | None) -> Event:
    """None: the misses of the first data cache."""
    if name is None:
        first = next(cache for cache in machine.caches if cache.holds != "instructions")
        return _event(machine, first, False)
    known = events(machine)
    event = known.get(name.lower())
    if event is None:
        raise StallscopeError(
            f"machine {machine.name} has no event {name}", f"it has: {_listed(known)}"
        )
    return event


def _listed(known: dict[str, Event]) -> str:
    names: dict[str, list[str]] = {}
    for name, event in known.items():
        others = names.setdefault(event.name, [])
        if name != event.name.lower() and ":" not in name:
            others.append(name)
    return ", ".join(
        f"{name} ({', '.join(others)})" if others else name for name, others in names.items()
    )


def _levels(machine: Machine) -> list[Cache | Tlb]:
    return [*machine.caches, *machine.tlbs]


def _event(machine: Machine, level: Cache | Tlb, code: bool) -> Event:
    suffix = CODE if code and level.holds == "both" else ""
    return Event(level.name + suffix, _levels(machine).index(level), code)


def _own(machine: Machine) -> Iterator[tuple[str, Event]]:
    for level in _levels(machine):
        yield level.name, _event(machine, level, level.holds == "instructions")
    for level in _levels(machine):
        if level.holds != "instructions":
            yield level.name + DATA, _event(machine, level, False)
        if level.holds != "data":
            yield level.name + CODE, _event(machine, level, True)


def _short(machine: Machine) -> Iterator[tuple[str, Event]]:
    for code, other, suffix in ((False, "instructions", ""), (True, "data", "i")):
        caches = [cache for cache in machine.caches if cache.holds != other]
        tlbs = [tlb for tlb in machine.tlbs if tlb.holds != other]
        for depth, cache in enumerate(caches, 1):
            yield f"l{depth}{suffix or 'd'}", _event(machine, cache, code)
            if not code:
                yield f"l{depth}", _event(machine, cache, code)
        if caches:
            yield f"llc{suffix}", _event(machine, caches[-1], code)
        if tlbs:
            yield f"{suffix or 'd'}tlb", _event(machine, tlbs[0], code)
        if len(tlbs) > 1:
            yield f"stlb{suffix}", _event(machine, tlbs[-1], code)
