# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.fleet_bench [--recordings N] [--trials N] [--power N] [--without N]

A simulated fleet from real recordings: how fast it is taken in, how long questions take, and how
often a planted regression is found, and nothing where nothing is planted. Trials draw the sums that
`fleet diff` reads; --power tries every object N times, --without N fleets without a plant."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fleet_sim import MOST_DOUBLED, Base, Simulated
from benchmarks.fleet_trials import (
    Shape,
    plant_of,
    planted_in,
    regression_found,
    reported,
    shares,
)
from stallscope import workloads
from stallscope.scale import fleet

STALLSCOPE = str(Path(sys.executable).with_name("stallscope"))
PROGRAMS = (("quake", "24", "250"), ("shallow_water", "256", "150"), ("multigrid", "64", "6"))
LEAST_TRIED = 0.01  # share of the time


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


def trials(bases: list[Base], count: int, shape: Shape) -> None:
    found, false = 0, 0
    for seed in range(1, count + 1):
        found += regression_found(bases, plant_of(bases, shape.hosts, seed), shape, seed)
        false += bool(reported(bases, shape, 1000 + seed))
    print(f"planted regression found: {found} of {count}")
    print(f"something reported without one: {false} of {count}", flush=True)


def power(bases: list[Base], rounds: int, shape: Shape) -> None:
    """Of every object, by its share of the time."""
    objects = [(share, name, base) for base in bases for name, share in shares(base).items()]
    for share, name, base in sorted(objects, key=lambda one: one[:2]):
        if not LEAST_TRIED <= share <= MOST_DOUBLED:
            continue
        seeds = range(2001, 2001 + rounds)
        plants = [(planted_in(base, name, shape.hosts, seed), seed) for seed in seeds]
        found = sum(regression_found(bases, plant, shape, seed) for plant, seed in plants)
        print(f"doubled from {share:.1%}: found {found} of {rounds}  {name}", flush=True)


def false_rate(bases: list[Base], fleets: int, shape: Shape) -> None:
    from scipy.stats import binomtest

    diffs = [reported(bases, shape, 10_000 + seed) for seed in range(fleets)]
    for what, count, of in (
        ("fleets", sum(map(bool, diffs)), fleets),
        ("pairs of builds", sum(diffs), fleets * len(bases)),
    ):
        interval = binomtest(count, of).proportion_ci()
        print(
            f"without a plant, {what} with something reported: {count} of {of}, "
            f"95% interval {interval.low:.3%} to {interval.high:.3%}",
            flush=True,
        )


def timed_verb(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run([STALLSCOPE, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--power", type=int, default=20)
    parser.add_argument("--without", type=int, default=400)
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
        shape = Shape(hosts, days, each)
        for count, done in (
            (options.trials, trials),
            (options.power, power),
            (options.without, false_rate),
        ):
            if count:
                done(bases, count, shape)


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
