# SPDX-License-Identifier: Apache-2.0
"""The running machine's own caches, as the kernel or the C library tells them.

Neither tells latencies, policies, inclusion or TLBs: those are typical values, the same on every
host, and docs/machines.md lists them.
"""

from __future__ import annotations

import os

from stallscope.errors import StallscopeError
from stallscope.machines.fault import Fault
from stallscope.machines.geometry import check
from stallscope.machines.model import Cache, Machine, Tlb
from stallscope.record import host as kernel

LATENCIES = {1: 4, 2: 14, 3: 50, 4: 100}  # cycles, by level
_HOLDS = {"Data": "data", "Instruction": "instructions", "Unified": "both"}
_LETTERS = {"data": "D", "instructions": "I", "both": ""}
# The C library's numbers for sysconf: size, ways and line follow each other.
_SYSCONF = (("L1I", 185), ("L1D", 188), ("L2", 191), ("L3", 194), ("L4", 197))
_INSTEAD = "--machine default, or a file of your own: stallscope machines default --toml > my.toml"


def host() -> Machine:
    caches = from_kernel(kernel.caches()) or _from_library()
    if not any(cache.holds != "instructions" for cache in caches):
        raise StallscopeError(
            "the caches of this machine are unknown",
            "/sys/devices/system/cpu/cpu0/cache shows none, as in some containers",
            _INSTEAD,
        )
    machine = Machine(
        name="host",
        description="this machine's caches; latencies, policies and TLBs are typical ones",
        caches=caches,
        tlbs=(
            Tlb(name="DTLB", holds="data", entries=64, ways=64),
            Tlb(name="ITLB", holds="instructions", entries=64, ways=64),
            Tlb(name="STLB", holds="both", entries=2048, ways=16, latency=7),
        ),
    )
    try:
        check(machine)
    except Fault as fault:
        error = fault.error("the caches of this machine cannot be simulated")
        raise StallscopeError(error.what, error.why, _INSTEAD) from None
    return machine


def from_kernel(found: tuple[kernel.Cache, ...]) -> tuple[Cache, ...]:
    """Those of the first CPU: a machine may have cores of several kinds."""
    first = [cache for cache in found if cache.kind in _HOLDS and _has_first(cache.cpus)]
    return tuple(
        _cache(cache.level, _HOLDS[cache.kind], cache.size, _ways(cache), cache.line)
        for cache in sorted(first, key=lambda cache: (cache.level, cache.kind != "Instruction"))
    )


def _has_first(cpus: str) -> bool:
    """Whether "0-3,8" begins at CPU 0; where the kernel says nothing, it does."""
    return cpus.replace("-", ",").split(",")[0] in ("", "0")


def _ways(cache: kernel.Cache) -> int:
    """0 stands for unknown or fully associative; the number of sets tells which."""
    if cache.ways or not (cache.sets and cache.line):
        return cache.ways
    return cache.size // cache.sets // cache.line


def _from_library() -> tuple[Cache, ...]:
    caches = []
    for name, number in _SYSCONF:
        try:
            size, ways, line = (max(0, os.sysconf(number + n)) for n in range(3))
        except (OSError, ValueError):
            continue
        if name == "L1I" and not ways:  # some C libraries leave it out; that of L1D is like it
            ways = max(0, os.sysconf(number + 4))
        if size:
            holds = {"I": "instructions", "D": "data"}.get(name[-1], "both")
            caches.append(_cache(int(name[1]), holds, size, ways, line))
    return tuple(caches)


def _cache(level: int, holds: str, size: int, ways: int, line: int) -> Cache:
    name = f"L{level}{_LETTERS[holds]}"
    if not (size and ways and line):
        raise StallscopeError(
            f"the {name} of this machine is known in part only",
            f"size {size}, ways {ways}, line {line}; 0 is unknown",
            _INSTEAD,
        )
    latency = LATENCIES.get(level, LATENCIES[4])
    return Cache(name=name, holds=holds, size=size, ways=ways, line=line, latency=latency)
