# SPDX-License-Identifier: Apache-2.0
"""What bundled workloads wait for at native speed, beside what a simulated server core says of the
same run: the latency of misses, and the cycles in which nothing retires because of data. Latency
counts every miss for itself; a core waits for what is not overlapped or prefetched. The simulated
machine has as much of an L3 as this host turns out to have: see host_machine.py.

Compared are programs that wait: where less than a fifth of the samples do, all shares are of a
small rest, and one place in the code that is judged wrongly changes them by more than what is
allowed. Others are shown."""

from __future__ import annotations

import collections
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.host_machine import measured
from benchmarks.measure import STALLSCOPE, BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import core_view, objects, stalls, view, workloads
from stallscope.machines.writing import to_toml

# Most data is several times as large as what there is of an L3: what is about as large misses as
# strangers on the same processor please. Where rows of 4096 bytes are the point of a program, it
# has others here: loads that look like earlier stores by their last twelve bits wait on a real
# core. Threads take turns on the simulated core, which has nobody to share lines with, and so they
# do on the real one, of which they get one processor.
PROGRAMS = {
    "array": ("524288", "40", "16"),
    "bst": ("300000", "500000"),
    "cg": ("1500000", "1", "6"),
    "churn": ("300000", "4096"),
    "fft": ("1024", "1"),
    "graph": ("1500000", "8", "1"),
    "hashjoin": ("1000000", "2000000", "300000"),
    "health": ("200", "100000", "20"),
    "list": ("500000", "20", "shuffled"),
    "lu": ("512", "16", "scattered"),
    "lzw": ("4000000", "1"),
    "matmul": ("300",),
    "mesh": ("1000", "8"),
    "multigrid": ("64", "1", "padded"),
    "ocean": ("386", "12", "4"),
    "placement": ("60000", "60000"),
    "quake": ("30", "8"),
    "shallow_water": ("512", "6", "cured"),
    "spmv": ("2000000", "4", "3"),
    "sweep": ("10000", "6", "4000"),
    "flow": ("100000", "600000", "1000"),
    "shop": ("100000", "200000", "300000"),
    "auction": ("8", "2", "20000"),
    "chat": ("8", "2", "3000"),
    "counters": ("4", "1000000", "packed"),
    "scoreboards": ("12", "3", "5000"),
    "warehouses": ("8", "2", "20000"),
}
# What the clock calls waiting too: misses, translations, and misses that find no room among those
# under way. What the first cache has at once is computing to both.
DATA = ("data_cache", "translation", "rejection")
OUR_OWN = "[allocation log]"  # is in the sampled program only
# Under Valgrind there is little room behind the program, so that malloc's heap is mapped.
SAME = {"<anonymous memory>": "[heap]"}
RUNS = 5  # at native speed, which are short
RATE = "10000"
ALONE = ("taskset", "-c", "0")
LEAST = 0.20  # share of an object that is compared
WAITS = 0.20  # share of the samples, for a program to be compared
WITHIN = 10.0  # points

Shares = dict[str, float]  # by object, largest first


@dataclass(frozen=True)
class Compared:
    waiting: float  # share of the samples in the program
    waited: Shares
    stalls: Shares
    latency: Shares

    @property
    def waits(self) -> bool:
        return self.waiting >= WAITS

    def first_is(self, what: str) -> bool:
        return next(iter(getattr(self, what)), None) == next(iter(self.waited), None)

    def points_off(self, what: str) -> Iterator[tuple[str, float]]:
        """Of objects that have a fifth or more by either."""
        simulated: Shares = getattr(self, what)
        for item in {**simulated, **self.waited}:
            ours, theirs = self.waited.get(item, 0.0), simulated.get(item, 0.0)
            if max(ours, theirs) >= LEAST:
                yield item, 100 * abs(ours - theirs)


def _record(command: Sequence[str], folder: Path, *options: str, alone: Sequence[str] = ()) -> Path:
    words = [STALLSCOPE, "record", "-q", "-f", "-o", str(folder), *options, "--", *command]
    words = [*alone, *words]
    ran = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if ran.returncode != 0:
        raise BenchmarkError(f"{command[0]}: {ran.stderr.decode()[-400:]}")
    return folder


def _shares(found: dict[str, float]) -> Shares:
    amounts: dict[str, float] = collections.Counter()
    for name, amount in found.items():
        amounts[SAME.get(name, name)] += amount
    whole = sum(amounts.values()) or 1.0
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return {name: amount / whole for name, amount in ordered}


def _waits(command: Sequence[str]) -> tuple[float, Shares]:
    """The share of samples that wait, and theirs by object."""
    samples: dict[str, float] = collections.Counter()
    states: dict[str, int] = collections.Counter()
    for _ in range(RUNS):
        made = _record(command, FOLDER / "waits", "--source", "clock", "--rate", RATE, alone=ALONE)
        found = objects(view(made))
        for state in found.states:
            states[state.state] += state.samples
        states["memory"] -= sum(row.sampled for row in found.rows if row.object == OUR_OWN)
        for row in found.rows:
            if row.object != OUR_OWN:
                samples[row.object] += row.sampled
    running = states["memory"] + states["compute"]
    return states["memory"] / max(1, running), _shares(samples)


def _simulated(command: Sequence[str], machine: str) -> tuple[Shares, Shares]:
    """By latency and by stall cycles."""
    made = _record(command, FOLDER / "simulated", "--machine", machine, "--trace")
    latency = _shares({row.object: float(row.latency or 0) for row in objects(view(made)).rows})
    found = stalls(core_view(made, machine=machine), by="object")
    cycles = {
        row.name: float(sum(row.causes.get(cause, 0) for cause in DATA)) for row in found.rows
    }
    return latency, _shares(cycles)


def compared(name: str, machine: str) -> Compared:
    command = [str(workloads.build(name, FOLDER / "workloads")), *PROGRAMS[name]]
    waiting, waited = _waits(command)
    latency, stalled = _simulated(command, machine)
    return Compared(waiting, waited, stalled, latency)


def machine_file(say: Callable[[str], None]) -> str:
    found = measured()
    say(f"agreement: {found.name}")
    path = FOLDER / "host.toml"
    path.write_text(to_toml(found))
    return str(path)


def _objects(name: str, one: Compared) -> Iterator[Row]:
    for item, off in one.points_off("stalls"):
        waited, stalled, latency = (
            part.get(item, 0.0) for part in (one.waited, one.stalls, one.latency)
        )
        figure = (
            f"{name}: {item.split(' < ')[0]}: waited {waited:.0%}, "
            f"stalls {stalled:.0%}, latency {latency:.0%}"
        )
        yield Row("agreement", figure, off, "points", WITHIN if one.waits else None)


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    machine = machine_file(say)
    found: list[Compared] = []
    for name in PROGRAMS:
        say(f"agreement: {name}")
        one = compared(name, machine)
        yield Row("agreement", f"{name}: samples that wait", 100 * one.waiting, "%")
        yield from _objects(name, one)
        found.append(one)
    waiting = [one for one in found if one.waits]
    for what in ("latency", "stalls"):
        same = sum(one.first_is(what) for one in waiting)
        figure = f"first object is the first by {what}"
        yield Row("agreement", figure, same, f"of {len(waiting)}", at_least=len(waiting))
        points = [off for one in waiting for _, off in one.points_off(what)]
        near = 100 * sum(off <= WITHIN for off in points) / max(1, len(points))
        yield Row("agreement", f"shares within 10 points of {what}", near, "%")
