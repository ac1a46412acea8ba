# SPDX-License-Identifier: Apache-2.0
"""What bundled workloads wait for at native speed, beside the simulated latency of the same run on
this machine's caches: is the first object the same, and how far are shares apart?"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.measure import STALLSCOPE, BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import objects, view, workloads

# Those with one thread whose data does not fit the nearest caches.
NAMES = ("array", "bst", "hashjoin", "list", "lzw", "mesh", "multigrid", "quake", "shallow_water")
LEAST = 0.20  # share of an object that is compared
WITHIN = 10.0  # points
RATE = "4000"


def _record(command: Sequence[str], folder: Path, *options: str) -> Path:
    words = [STALLSCOPE, "record", "-q", "-f", "-o", str(folder), *options, "--", *command]
    ran = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if ran.returncode != 0:
        raise BenchmarkError(f"{command[0]}: {ran.stderr.decode()[-400:]}")
    return folder


def _shares(recording: Path) -> dict[str, float]:
    """Of the latency or the waiting, by object, the largest first."""
    return {row.object: row.latency_share for row in objects(view(recording)).rows}


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    same = compared = near = 0
    for name in NAMES:
        say(f"agreement: {name}")
        program = workloads.build(name, FOLDER / "workloads")
        command = [str(program), *workloads.truth(name).command_arguments("bench")]
        native = _shares(_record(command, FOLDER / "waits", "--source", "clock", "--rate", RATE))
        simulated = _shares(_record(command, FOLDER / "latency", "--machine", "host"))
        first = next(iter(simulated))
        same += first == next(iter(native))
        verdict = 1.0 if first == next(iter(native)) else 0.0
        yield Row("agreement", f"{name}: first object is the same", verdict, "", at_least=1.0)
        for what, share in simulated.items():
            waited = native.get(what, 0.0)
            if max(share, waited) < LEAST:
                continue
            compared += 1
            off = 100 * abs(waited - share)
            near += off <= WITHIN
            short = what.split(" < ")[0]
            figure = f"{name}: {short}: {waited:.0%} waited, {share:.0%} latency"
            yield Row("agreement", figure, off, "points", WITHIN)
    yield Row("agreement", "first objects that are the same", same, f"of {len(NAMES)}")
    yield Row("agreement", "shares within 10 points", near, f"of {compared}")
