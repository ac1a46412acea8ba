# SPDX-License-Identifier: Apache-2.0
"""The simulated server as far as this host is one: a virtual machine says it has the whole L3 of
its processor, and shares it with strangers. How much of it there is, how far away memory is and
what a page walk costs are measured by dependent loads, and how far ahead the prefetchers are by
loads in order, before and without the programs compared."""

from __future__ import annotations

import math
import statistics
import subprocess
from pathlib import Path

from benchmarks.programs import FOLDER
from stallscope.machines import load
from stallscope.machines.changes import changed
from stallscope.machines.model import Machine

LIKE = "server"
TIMES = 5
SIZES = (2, 4, 8, 16, 32)  # MiB
FAR = 64  # MiB, which no cache has
MOST_AHEAD = 64  # lines, in one page


def _chase() -> Path:
    made = FOLDER / "chase"
    FOLDER.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parent / "engine" / "chase.c"
    subprocess.run(["cc", "-O2", "-o", str(made), str(source)], check=True)
    return made


def _nanoseconds(program: Path, mebibytes: int, *words: str) -> float:
    command = [str(program.resolve()), str(1024 * mebibytes), *words]
    ran = [
        float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(TIMES)
    ]
    return statistics.median(ran)


def last_level(times: dict[int, float], memory: float) -> int:
    """The largest size whose lines are nearer than half way to memory, or the least."""
    near = [size for size, time in times.items() if time < memory / 2]
    return max(near, default=min(times))


def lines_ahead(memory: float, line: float) -> int:
    """As many as must be under way for a line every so often, each of which takes that long."""
    return max(1, min(MOST_AHEAD, math.ceil(memory / line)))


def measured() -> Machine:
    program = _chase()
    cycle = _nanoseconds(program, 0)
    memory = _nanoseconds(program, FAR, "huge")
    walk = max(_nanoseconds(program, FAR) - memory, 0.0)
    size = last_level({size: _nanoseconds(program, size) for size in SIZES}, memory)
    line = _nanoseconds(program, FAR, "stream")
    values = {
        "L3.size": f"{size}M",
        "memory_latency": str(round(memory / cycle)),
        "page_walk": str(max(1, round(walk / cycle))),
        "prefetch.degree": str(lines_ahead(memory, line)),
        "prefetch.kind": "region",
        "prefetch.crosses_pages": "true",
        "core.bus": str(max(1, round(line / cycle))),
        "core.loose_rob": "true",
        "core.wrong_paths": "true",
        "mapping.first_touch": "cleared",
    }
    return changed(load(LIKE), values)
