# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.fleet_bench [--recordings N] [--trials N] [--keep FOLDER]

A simulated fleet from real recordings: how fast it is taken in, how long questions take, and how
often a planted regression is found, and nothing where nothing is planted."""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.fleet_sim import Base, Plant, Simulated
from stallscope import workloads
from stallscope.analyses.fleet import HostSum, ObjectSum, changes
from stallscope.scale import fleet

STALLSCOPE = str(Path(sys.executable).with_name("stallscope"))
PROGRAMS = (("quake", "24", "250"), ("shallow_water", "256", "150"), ("multigrid", "64", "6"))


def record(folder: Path) -> list[Base]:
    """Real recordings by the clock, one of each program."""
    bases = []
    for name, *arguments in PROGRAMS:
        program = workloads.build(name, folder)
        place = folder / f"{name}.stallscope"
        words = ["record", "-q", "--source", "clock", "--rate", "997", "-o", str(place), "--"]
        subprocess.run(
            [STALLSCOPE, *words, str(program), *arguments], check=True, stdout=subprocess.DEVNULL
        )
        bases.append(Base.read(place))
    return bases


def plant_of(bases: list[Base], hosts: int, seed: int) -> Plant:
    """An object that is waited for in a twentieth of the time or more, if there is one."""
    draw = random.Random(seed)
    base = draw.choice(bases)
    whole = sum(base.weights.values())
    by_name: dict[str, int] = {}
    for (state, bucket), count in base.weights.items():
        if state == "memory":
            by_name[base.names[bucket]] = by_name.get(base.names[bucket], 0) + count
    fitting = [name for name, count in by_name.items() if 0.03 <= count / whole <= 0.45]
    chosen = draw.choice(fitting or [max(by_name, key=lambda name: by_name[name])])
    return Plant(base.program, chosen, frozenset(draw.sample(range(hosts), hosts // 10)))


def compared(simulated: Simulated, program: str) -> set[str]:
    """What `fleet diff` reports as worse, from the same numbers without the files."""
    hosts: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    sums: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = {}
    for base, host, day, number in simulated.runs():
        if base.program != program:
            continue
        build, name = int(day >= simulated.days // 2), f"host-{host:04d}"
        counts = simulated.counts(base, host, day, number)
        every = sum(counts.values())
        had = hosts[build].get(name, HostSum(0, 0, f"day {day}"))
        hosts[build][name] = HostSum(had.recordings + 1, had.every + every, had.first_day)
        found: dict[str, int] = {}
        for (state, bucket), count in counts.items():
            if state == "memory":
                for key in (base.names[bucket], "<all memory>"):
                    found[key] = found.get(key, 0) + count
        for key, count in found.items():
            of = sums.setdefault((key, ""), ({}, {}))[build]
            one = of.get(name, ObjectSum(0, 0.0))
            of[name] = ObjectSum(one.samples + count, one.squares + count * count / every)
    rows, _, _ = changes(program, hosts, sums)
    return {row.object for row in rows if row.verdict == "worse"}


def trials(bases: list[Base], count: int, hosts: int, days: int, each: int) -> None:
    found, false = 0, 0
    for seed in range(1, count + 1):
        plant = plant_of(bases, hosts, seed)
        with_plant = Simulated(bases, hosts, days, each, seed, plant)
        found += plant.object in compared(with_plant, plant.program)
        without = Simulated(bases, hosts, days, each, 1000 + seed)
        false += any(compared(without, base.program) for base in bases)
        print(f"trial {seed}: found {found}, false {false}", file=sys.stderr, flush=True)
    print(f"planted regression found: {found} of {count}")
    print(f"something reported without one: {false} of {count}")


def timed_verb(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run([STALLSCOPE, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    days, hosts = 10, options.hosts
    each = max(1, options.recordings // days // hosts)
    with tempfile.TemporaryDirectory(prefix="stallscope-fleet-") as name:
        folder = Path(name)
        bases = record(folder)
        plant = plant_of(bases, hosts, 7)
        simulated = Simulated(bases, hosts, days, each, 7, plant)
        start = time.perf_counter()
        count = simulated.write(folder / "hosts")
        print(f"{count:,} recordings written in {time.perf_counter() - start:.1f} s")
        start, used = time.perf_counter(), children_seconds()
        done = fleet.ingest([folder / "hosts"], folder / "fleet", jobs=options.jobs)
        took, cpu = time.perf_counter() - start, children_seconds() - used
        print(
            f"ingest: {done.added:,} added, {done.skipped} skipped in {took:.1f} s: "
            f"{done.added / took:.0f} a second; {cpu:.1f} s of processor time by workers"
        )
        start = time.perf_counter()
        again = fleet.ingest([folder / "hosts"], folder / "fleet", jobs=options.jobs)
        took = time.perf_counter() - start
        print(f"again: {again.added} added, {again.known:,} known in {took:.1f} s")
        size = sum(path.stat().st_size for path in (folder / "fleet").rglob("*.parquet"))
        files = sum(1 for _ in (folder / "fleet").rglob("*.parquet"))
        print(f"fleet: {size / count:.0f} bytes a recording in {files} files")
        at = ("--fleet", str(folder / "fleet"))
        base = next(one for one in bases if one.program == plant.program)
        builds = (simulated.build(base, 0), simulated.build(base, days))
        for verb in (
            ("top",),
            ("top", "--by", "object"),
            ("objects", plant.program),
            ("diff", *builds),
        ):
            seconds = min(timed_verb("fleet", *verb, *at) for _ in range(3))
            print(f"fleet {' '.join(word[:12] for word in verb)}: {seconds:.2f} s")
        print(f"planted: {plant.object} of {plant.program} on {len(plant.hosts)} hosts", flush=True)
        subprocess.run([STALLSCOPE, "fleet", "diff", *builds, *at], check=True)
        if options.trials:
            trials(bases, options.trials, hosts, days, each)


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
