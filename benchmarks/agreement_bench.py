# SPDX-License-Identifier: Apache-2.0
"""What bundled workloads wait for at native speed, beside what a simulated server core says of the
same run: the latency of misses, and the cycles in which nothing retires because of data. Latency
counts every miss for itself; a core waits for what is not overlapped or prefetched."""

from __future__ import annotations

import collections
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.measure import STALLSCOPE, BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import core_view, objects, stalls, view, workloads

# Of one thread, with data of the size that benchmarks have and fewer rounds: a pipeline is slow.
PROGRAMS = {
    "array": ("524288", "40", "16"),
    "bst": ("200000", "400000"),
    "hashjoin": ("400000", "1000000", "100000"),
    "list": ("200000", "20", "shuffled"),
    "lzw": ("4000000", "1"),
    "mesh": ("700", "20"),
    "multigrid": ("64", "1"),
    "quake": ("30", "4"),
    "shallow_water": ("256", "10"),
}
DATA = ("data_cache", "translation", "load_store")  # causes that an object can have
MACHINE = "server"
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
            samples[row.object] += row.sampled
    return _shares(samples)


def _simulated(command: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """By latency and by stall cycles."""
    made = _record(command, FOLDER / "simulated", "--machine", MACHINE, "--trace")
    latency = _shares({row.object: float(row.latency or 0) for row in objects(view(made)).rows})
    found = stalls(core_view(made, machine=MACHINE), by="object")
    cycles = {
        row.name: float(sum(row.causes.get(cause, 0) for cause in DATA)) for row in found.rows
    }
    return latency, _shares(cycles)


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    near: dict[str, list[bool]] = {"latency": [], "stalls": []}
    first: dict[str, list[bool]] = {"latency": [], "stalls": []}
    for name, arguments in PROGRAMS.items():
        say(f"agreement: {name}")
        command = [str(workloads.build(name, FOLDER / "workloads")), *arguments]
        waited = _waits(command)
        latency, stalled = _simulated(command)
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
