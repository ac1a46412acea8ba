# SPDX-License-Identifier: Apache-2.0
"""Do the clusters of threads equal the true groups? Four workloads, several numbers of threads,
groups of one size and not, sampling rates and seeds; also what detection costs, how long it takes,
and what placing threads by their clusters removes.

python -m benchmarks.sharing [--threads 8,16] [--rates 1,3,10] [--recordings 2] [--seeds 10]
                             [-o FILE]

Each of `--recordings` is of a run with its own order of starting threads; each is looked at with
`--seeds` seeds of sampling and rotation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stallscope
from stallscope import clustering, cores, workloads
from stallscope.cores import CoresProbe

TURN = 200  # blocks
GROUPS = {8: 2, 16: 2, 64: 4}
# The third argument of each workload, by the number of threads.
WORK = {
    "scoreboards": {8: 1500, 16: 900, 64: 400},
    "warehouses": {8: 6000, 16: 6000, 64: 4000},
    "auction": {8: 8000, 16: 8000, 64: 5000},
    "chat": {8: 2500, 16: 1500, 64: 300},
}


def record(name: str, threads: int, sizes: str, seed: int, folder: Path) -> Path:
    path = folder / f"{name}-{threads}-{sizes}-{seed}"
    words = [threads, GROUPS[threads], WORK[name][threads], seed, sizes]
    command = [workloads.build(name), *words]
    stallscope.record([str(w) for w in command], trace=True, turn=TURN, output=path, force=True)
    return path


def true_groups(name: str, threads: int, sizes: str) -> list[list[str]]:
    known = workloads.truth(name)
    values = {"threads": threads, "equal": int(sizes == "equal"), "unequal": int(sizes != "equal")}
    second = known.arguments[1].name
    return sorted(sorted(g) for g in known.thread_groups({**values, second: GROUPS[threads]}))


def named(clusters: list[list[str]], truth: list[list[str]]) -> list[list[str]]:
    """Truth files name the threads that count."""
    count = {name for group in truth for name in group}
    kept = [[name for name in group if name in count] for group in clusters]
    return sorted(group for group in kept if group)


def looks(path: Path, rates: list[int], seeds: int) -> Iterator[dict[str, Any]]:
    for seed in range(1, seeds + 1):
        for rate in rates:
            threads = clustering.open_threads(str(path), probe=CoresProbe(seed=seed))
            found = clustering.Detection(threads, rate, True, True)
            fields = found.fields()
            yield {
                "seed": seed,
                "rate": rate,
                "clusters": sorted(sorted(group) for group in fields["clusters"]),
                "samples": fields["samples"],
                "stable": fields["stable"],
                "instructions": fields["verdict_instruction"],
                "overhead": fields["overhead"],
                "scipy": fields["hierarchical"] == fields["clusters"],
            }
            # Only the numbers are wanted: hundreds of runs would fill the disk.
            subprocess.run(["rm", "-rf", str(found.run.folder)], check=True)


def placed(path: Path) -> dict[str, Any]:
    threads = clustering.open_threads(str(path))
    found = clustering.Detection(threads, 10, True, True)
    after = threads.run(placement=found.placement)
    return {
        "remote": threads.base.remote_misses,
        "remote_placed": after.remote_misses,
        "cycles": threads.base.cycles,
        "cycles_placed": after.cycles,
        "remote_share": threads.base.waited(*cores.REMOTE) / threads.base.cycles,
    }


def case(
    name: str, threads: int, sizes: str, options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    truth, found = true_groups(name, threads, sizes), []
    moved = []
    for number in range(1, options.recordings + 1):
        path = record(name, threads, sizes, number, folder)
        found += list(looks(path, options.rates, options.seeds))
        moved.append(placed(path))
        subprocess.run(["rm", "-rf", str(path)], check=True)
    row: dict[str, Any] = {"workload": name, "threads": threads, "sizes": sizes}
    for rate in options.rates:
        at = [one for one in found if one["rate"] == rate]
        right = [one for one in at if named(one["clusters"], truth) == truth]
        row[f"right 1/{rate}"] = f"{len(right)}/{len(at)}"
        row[f"samples 1/{rate}"] = sum(one["samples"] for one in at) // len(at)
        row[f"instructions 1/{rate}"] = sum(one["instructions"] for one in at) // len(at)
        row[f"overhead 1/{rate}"] = round(sum(one["overhead"] for one in at) / len(at), 4)
    row["wrong"] = [one for one in found if named(one["clusters"], truth) != truth]
    strangers = [one for one in found if one["clusters"] != named(one["clusters"], truth)]
    row["strangers"] = len(strangers)  # threads that the truth file does not name, in a cluster
    row["scipy agrees"] = f"{sum(one['scipy'] for one in found)}/{len(found)}"
    before = sum(one["remote"] for one in moved)
    row["removed"] = round(1 - sum(one["remote_placed"] for one in moved) / before, 3)
    cycles = sum(one["cycles"] for one in moved)
    row["cycles a remote miss"] = round(cycles / before)
    row["cycles saved"] = round(1 - sum(one["cycles_placed"] for one in moved) / cycles, 4)
    return row


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=numbers, default=[8, 16, 64])
    parser.add_argument("--rates", type=numbers, default=[1, 3, 10])
    parser.add_argument("--recordings", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workloads", default=",".join(WORK))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for threads in options.threads:
            for name in options.workloads.split(","):
                for sizes in ("equal", "unequal"):
                    rows.append(case(name, threads, sizes, options, Path(folder)))
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    text = json.dumps(rows, indent=1)
    if options.output:
        options.output.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
