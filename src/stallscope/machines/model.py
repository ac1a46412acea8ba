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
    crosses_pages: bool = False


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = "identity"
    seed: int = 1
    first_touch: str = "memory"


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline; what the keys mean is in machines.keys. Latencies in cycles."""

    fetch: int = 8
    bundle: int = 5
    front_end: int = 18
    fetch_buffer: int = 8
    taken_bubble: int = 1
    rob: int = 20
    loose_rob: bool = False
    rename: int = 80
    loads: int = 32
    stores: int = 32
    store_buffer: int = 16
    iu: int = 2
    fpu: int = 2
    lsu: int = 2
    bu: int = 1
    iu_queue: int = 36
    fpu_queue: int = 20
    lsu_queue: int = 36
    bu_queue: int = 12
    misses: int = 8
    reject: int = 7
    translation_rejects: bool = False
    bus: int = 8
    integer: int = 1
    multiply: int = 4
    divide: int = 20
    divide_wide: int = 36
    vector: int = 2
    float_add: int = 4
    float_multiply: int = 4
    float_divide: int = 20
    slow: int = 40
    predictor: str = "tage"
    return_stack: int = 16
    follow_chain: bool = True
    wrong_paths: bool = False
    counters: int = 8

    def to_engine(self) -> dict[str, Any]:
        """All that decides what a core does; how many counters it has does not."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        del plain["counters"]
        return plain


class PathUnit(msgspec.Struct, frozen=True, kw_only=True):
    """Page access tracking hardware of each core. It changes nothing that a replay counts."""

    tlb_entries: int = 128
    tlb_ways: int = 16
    buffer_entries: int = 2048
    buffer_ways: int = 4
    filter_entries: int = 64
    log_entries: int = 128
    refresh: int = 0
    departures: int = 1


class Chips(msgspec.Struct, frozen=True, kw_only=True):
    """How many cores there are and how they keep their caches coherent. Only what replays threads
    on several cores looks at it: everything else runs on one core with all of the caches."""

    chips: int = 1
    cores: int = 1
    threads: int = 1
    protocol: str = "mesi"
    coherent: str = ""
    shared: str = ""
    peer_latency: int = 0
    remote_latency: int = 0
    remote_outer_latency: int = 0
    remote_memory_latency: int = 0
    page: int = 4096

    @property
    def contexts(self) -> int:
        """Hardware threads in all."""
        return self.chips * self.cores * self.threads

    def chip_of(self, context: int) -> int:
        return context // (self.cores * self.threads)

    def to_engine(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Caches and TLBs stand in order from the core outwards."""

    name: str  # of the preset or the file
    description: str = ""
    caches: tuple[Cache, ...] = ()
    tlbs: tuple[Tlb, ...] = ()
    prefetcher: Prefetcher = Prefetcher()
    mapping: Mapping = Mapping()
    core: Core = Core()
    path: PathUnit = PathUnit()
    chips: Chips = Chips()
    memory_latency: int = 200
    page_walk: int = 40
    seed: int = 1

    @property
    def simulates(self) -> bool:
        """False for `none`."""
        return bool(self.caches)

    def to_engine(self) -> dict[str, Any]:
        """Lists, dictionaries, text and numbers: all that decides what a replay counts; without the
        core, the PATH unit and the other cores, which a replay through the caches alone does not
        have."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        del plain["name"], plain["description"], plain["core"], plain["path"], plain["chips"]
        return {**plain, "caches": list(plain["caches"]), "tlbs": list(plain["tlbs"])}

    def document(self) -> dict[str, Any]:
        """For programs: what the engine gets, with names and the digest."""
        named = {"name": self.name, "description": self.description, "digest": self.digest()}
        beside = {
            part: msgspec.to_builtins(getattr(self, part)) for part in ("core", "path", "chips")
        }
        return {**named, **self.to_engine(), **beside}

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
