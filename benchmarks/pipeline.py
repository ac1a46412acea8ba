# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.pipeline: instructions a second that the pipeline replays, on one core.

Processor time of a replay that computes everything and keeps nothing. It depends on the machine;
the gate is that it stays above LEAST."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stallscope import _engine, machines, workloads
from stallscope.recording import STREAM

LEAST = 5e6  # instructions a second
AIM = 20e6
PROGRAMS = {
    "list": ("200000", "20"),
    "matmul": ("160",),
    "quake": ("16", "10", "slow"),
    "lzw": ("400000", "1", "slow"),
}
MACHINES = ("default", "power5", "server")
OPTIONS = {
    "mode": "real",
    "ideal": 0,
    "objects": False,
    "slice": 0,
    "by_instructions": False,
    "switch_cycles": 0,
    "switch_lines": 0,
}


def record(name: str, folder: Path) -> Path:
    program = workloads.build(name, folder)
    path = folder / f"{name}.stallscope"
    stallscope = Path(sys.executable).with_name("stallscope")
    words = ["record", "-q", "--trace", "--machine", "none", "-o", path, "--", program]
    subprocess.run([stallscope, *words, *PROGRAMS[name]], check=True, stdout=subprocess.DEVNULL)
    return path / STREAM


def speed(stream: Path, name: str) -> tuple[float, float]:
    """Instructions a second, and CPI."""
    machine = machines.load(name)
    began = time.process_time()
    found = _engine.stalls(str(stream), machine.to_engine(), machine.core.to_engine(), OPTIONS, [])
    seconds = time.process_time() - began
    cycles, instructions = list(found["tables"]["core_count"]["count"])[:2]
    return instructions / seconds, cycles / instructions


def main() -> int:
    slowest = float("inf")
    print("| program | machine | CPI | million instructions a second |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            stream = record(name, Path(folder))
            for machine in MACHINES:
                rate, cpi = speed(stream, machine)
                slowest = min(slowest, rate)
                print(f"| `{name}` | `{machine}` | {cpi:.2f} | {rate / 1e6:.1f} |", flush=True)
    print(f"\nslowest {slowest / 1e6:.1f}; at least {LEAST / 1e6:.0f}, the aim is {AIM / 1e6:.0f}")
    return 0 if slowest >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
