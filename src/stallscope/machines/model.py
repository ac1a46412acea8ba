# SPDX-License-Identifier: Apache-2.0
"""A machine as the engine takes it: plain numbers, checked before they are made.

Latencies are whole times: an access that L2 serves takes L2's latency, not L1's plus L2's. What a
TLB or a page walk costs comes on top.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping as Map
from typing import Any

import msgspec


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    holds: str
    size: int
    ways: int
    line: int
    latency: int
    policy: str = "lru"
    write_allocate: bool = True
    write_back: bool = True
    inclusion: str = "neither"

    @property
    def sets(self) -> int:
        return self.size // self.line // self.ways


class Tlb(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    holds: str
    entries: int
    ways: int
    page: int = 4096
    latency: int = 0


class Prefetcher(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = "none"
    cache: str = ""  # empty when kind is none
    degree: int = 1


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = "identity"
    seed: int = 1


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Caches and TLBs stand in order from the core outwards."""

    name: str  # of the preset or the file
    description: str = ""
    caches: tuple[Cache, ...] = ()
    tlbs: tuple[Tlb, ...] = ()
    prefetcher: Prefetcher = Prefetcher()
    mapping: Mapping = Mapping()
    memory_latency: int = 200
    page_walk: int = 40
    seed: int = 1

    @property
    def simulates(self) -> bool:
        """False for `none`."""
        return bool(self.caches)

    def to_engine(self) -> dict[str, Any]:
        """Lists, dictionaries, text and numbers: all that decides what a replay counts."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        del plain["name"], plain["description"]
        return {**plain, "caches": list(plain["caches"]), "tlbs": list(plain["tlbs"])}

    def document(self) -> dict[str, Any]:
        """For programs: what the engine gets, with names and the digest."""
        named = {"name": self.name, "description": self.description, "digest": self.digest()}
        return {**named, **self.to_engine()}

    def digest(self) -> str:
        """Machines that behave alike have the same, whatever they are called."""
        encoded = msgspec.json.encode(self.to_engine(), order="sorted")
        return hashlib.sha256(encoded).hexdigest()

    def with_values(self, values: Map[str, Any]) -> Machine:
        """This machine with keys changed: {"l2.size": "512K", "memory_latency": 300}.

        Raises StallscopeError as a machine file with these values would.
        """
        from stallscope.machines.changes import changed

        return changed(self, values)

    def to_toml(self) -> str:
        """A machine file that gives this machine again."""
        from stallscope.machines.writing import to_toml

        return to_toml(self)


def from_engine(document: Map[str, Any], name: str) -> Machine:
    """The machine that `to_engine` gave: recordings keep it, so that they can be replayed on it."""
    from stallscope.errors import StallscopeError
    from stallscope.machines.fault import Fault
    from stallscope.machines.geometry import check

    try:
        machine = msgspec.convert({**document, "name": name}, Machine)
        check(machine)
    except (msgspec.ValidationError, Fault) as error:
        raise StallscopeError(f"the machine {name} is damaged", str(error)) from None
    return machine
