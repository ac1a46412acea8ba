# SPDX-License-Identifier: Apache-2.0
"""How fast accesses go through a machine: a kept trace, and a list beside pycachesim."""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from benchmarks.measure import PREFIXES, RECORDING, timed
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import _engine, machines, results, workloads
from stallscope.recording import open_recording

REPLAY_MILLION = 60.0
ZIPF_OF_PYCACHESIM = 3.0
LINES = 1_000_000
ACCESSES = 4_000_000
LEVELS = (("L1", 64, 8), ("L2", 1024, 16), ("L3", 8192, 16))  # name, sets, ways; lines of 64 bytes


def zipf() -> list[int]:
    """Zipf's law over a million lines: the line of rank r with a chance of 1/r, in no order."""
    draw = random.Random(1)
    ranks = draw.choices(
        range(LINES), cum_weights=list(accumulate(1 / r for r in range(1, LINES + 1))), k=ACCESSES
    )
    lines = list(range(LINES))
    draw.shuffle(lines)
    return [0x10000000 + lines[rank] * 64 for rank in ranks]


def pycachesim_machine() -> Any:
    from cachesim import Cache, CacheSimulator, MainMemory

    memory = MainMemory()
    outer = None
    for name, sets, ways in reversed(LEVELS):
        cache = Cache(name, sets, ways, 64, "LRU")
        if outer is None:
            memory.load_to(cache)
            memory.store_from(cache)
        else:
            cache.set_load_from(outer)
            cache.set_store_to(outer)
        outer = cache
    return CacheSimulator(outer, memory)


def our_machine() -> _engine.Machine:
    caches = [
        {
            "name": name,
            "holds": "both",
            "size": sets * ways * 64,
            "ways": ways,
            "line": 64,
            "policy": "lru",
            "write_allocate": True,
            "write_back": True,
            "inclusion": "neither",
            "latency": 1,
        }
        for name, sets, ways in LEVELS
    ]
    return _engine.Machine(
        {
            "caches": caches,
            "tlbs": [],
            "prefetcher": {"kind": "none"},
            "mapping": {"kind": "identity", "seed": 1, "first_touch": "memory"},
            "memory_latency": 100,
            "page_walk": 0,
            "seed": 1,
        }
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def zipf_rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    say("zipf: drawing addresses")
    addresses = zipf()
    column = np.array(addresses, dtype=np.uint64)
    sizes, kinds = np.full(ACCESSES, 8, np.uint32), np.zeros(ACCESSES, np.uint8)
    theirs, ours = pycachesim_machine(), our_machine()
    ratios, rates = [], []
    for turn in range(runs):
        say(f"zipf: {turn + 1} of {runs}")
        slow = _seconds(lambda: theirs.load(addresses, length=8))
        quick = _seconds(lambda: ours.run(column, sizes, kinds))
        ratios.append(slow / quick)
        rates.append(ACCESSES / quick / 1e6)
    yield Row("zipf", "machine", statistics.median(rates), "million accesses/s")
    yield Row("zipf", "over pycachesim", statistics.median(ratios), "", at_least=ZIPF_OF_PYCACHESIM)


def replay_rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    say("replay: recording matmul")
    program = str(workloads.build("matmul", FOLDER / "workloads"))
    timed([*PREFIXES["trace"], program, "300"])
    recording, machine = open_recording(RECORDING), machines.load("default")
    probe = results.Probe()
    accesses = recording.meta.loads + recording.meta.stores
    rates = []
    for turn in range(runs):
        say(f"replay: {turn + 1} of {runs}")
        shutil.rmtree(RECORDING / "results", ignore_errors=True)
        taken = _seconds(lambda: results.replay(recording, machine, "default", probe))
        rates.append(accesses / taken / 1e6)
    yield Row(
        "replay",
        "matmul, default machine",
        statistics.median(rates),
        "million accesses/s",
        at_least=REPLAY_MILLION,
    )


def rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    yield from replay_rows(runs, say)
    yield from zipf_rows(runs, say)
