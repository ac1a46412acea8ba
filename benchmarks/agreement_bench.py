# SPDX-License-Identifier: Apache-2.0
"""What bundled workloads wait for at native speed, beside what a simulated server core says of the
same run: the latency of misses, and the cycles in which nothing retires because of data. Latency
counts every miss for itself; a core waits for what is not overlapped or prefetched. The simulated
machine has as much of an L3 as this host turns out to have: see host_machine.py."""

from __future__ import annotations

import collections
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.host_machine import measured
from benchmarks.measure import STALLSCOPE, BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import core_view, objects, stalls, view, workloads
from stallscope.machines.writing import to_toml

# All of one thread. Data is larger than the second cache, so that there is something to wait for,
# and small enough for many rounds: the first touch of a page is the kernel's work on a real machine
# (which leaves what it cleared in the caches) and a miss in a simulated one.
PROGRAMS = {
    "array": ("524288", "40", "16"),
    "bst": ("200000", "400000"),
    "cg": ("100000", "5", "10"),
    "churn": ("300000", "4096"),
    "fft": ("512", "2"),
    "graph": ("200000", "8", "4"),
    "hashjoin": ("400000", "1000000", "100000"),
    "health": ("200", "20000", "20"),
    "list": ("200000", "20", "shuffled"),
    "lu": ("512", "16", "scattered"),
    "lzw": ("4000000", "1"),
    "matmul": ("300",),
    "mesh": ("500", "12"),
    "multigrid": ("32", "6"),
    "ocean": ("386", "12", "4"),
    "placement": ("60000", "60000"),
    "quake": ("30", "8"),
    "shallow_water": ("64", "40"),
    "spmv": ("200000", "12", "6"),
    "sweep": ("2000", "20", "64"),
}
# What the clock calls waiting too: misses, translations, and misses that find no room among those
# under way. What the first cache has at once is computing to both.
DATA = ("data_cache", "translation", "rejection")
OUR_OWN = "[allocation log]"  # is in the sampled program only
RUNS = 5  # at native speed, which are short
RATE = "10000"
LEAST = 0.20  # share of an object that is compared
WITHIN = 10.0  # points


def _record(command: Sequence[str], folder: Path, *options: str) -> Path:
    words = [STALLSCOPE, "record", "-q", "-f", "-o", str(folder), *options, "--", *command]
    ran = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if ran.returncode != 0:
        raise BenchmarkError(f"{command[0]}: {ran.stderr.decode()[-400:]}")
    return folder


def _shares(amounts: dict[str, float]) -> dict[str, float]:
    whole = sum(amounts.values()) or 1.0
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return {name: amount / whole for name, amount in ordered}


def _waits(command: Sequence[str]) -> dict[str, float]:
    samples: dict[str, float] = collections.Counter()
    for _ in range(RUNS):
        made = _record(command, FOLDER / "waits", "--source", "clock", "--rate", RATE)
        for row in objects(view(made)).rows:
            if row.object != OUR_OWN:
                samples[row.object] += row.sampled
    return _shares(samples)


def _simulated(command: Sequence[str], machine: str) -> tuple[dict[str, float], dict[str, float]]:
    """By latency and by stall cycles."""
    made = _record(command, FOLDER / "simulated", "--machine", machine, "--trace")
    latency = _shares({row.object: float(row.latency or 0) for row in objects(view(made)).rows})
    found = stalls(core_view(made, machine=machine), by="object")
    cycles = {
        row.name: float(sum(row.causes.get(cause, 0) for cause in DATA)) for row in found.rows
    }
    return latency, _shares(cycles)


def _machine(say: Callable[[str], None]) -> str:
    found = measured()
    say(f"agreement: {found.name}")
    path = FOLDER / "host.toml"
    path.write_text(to_toml(found))
    return str(path)


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    machine = _machine(say)
    near: dict[str, list[bool]] = {"latency": [], "stalls": []}
    first: dict[str, list[bool]] = {"latency": [], "stalls": []}
    for name, arguments in PROGRAMS.items():
        say(f"agreement: {name}")
        command = [str(workloads.build(name, FOLDER / "workloads")), *arguments]
        waited = _waits(command)
        latency, stalled = _simulated(command, machine)
        for what, shares in (("latency", latency), ("stalls", stalled)):
            first[what].append(next(iter(shares)) == next(iter(waited)))
            for item, share in shares.items():
                if max(share, waited.get(item, 0.0)) >= LEAST:
                    near[what].append(100 * abs(share - waited.get(item, 0.0)) <= WITHIN)
        for item, share in stalled.items():
            if max(share, waited.get(item, 0.0)) >= LEAST:
                figure = (
                    f"{name}: {item.split(' < ')[0]}: waited {waited.get(item, 0.0):.0%}, "
                    f"stalls {share:.0%}, latency {latency.get(item, 0.0):.0%}"
                )
                off = 100 * abs(share - waited.get(item, 0.0))
                yield Row("agreement", figure, off, "points", WITHIN)
    for what in first:
        unit = f"of {len(PROGRAMS)}"
        figure = f"first object is the first by {what}"
        yield Row("agreement", figure, sum(first[what]), unit, at_least=len(PROGRAMS))
        share = 100 * sum(near[what]) / max(1, len(near[what]))
        yield Row("agreement", f"shares within 10 points of {what}", share, "%")
