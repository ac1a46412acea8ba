# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.forms [NAME...] [--runs N] [--size SIZE] [--json FILE]

Native running times of the workloads' cured forms over their slow ones. Forms take turns, so that
what else the machine does falls on all of them, and a ratio is the median over pairs of neighbours.
Times are of the processor, which a busy machine changes less than those of the clock."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from stallscope import workloads
from stallscope.errors import StallscopeError


@dataclass(frozen=True)
class FormRow:
    """One form of a workload: seconds, and its time over the slow form's with the quartiles."""

    workload: str
    form: str
    runs: int
    seconds: float
    ratio: float
    low: float
    high: float


def processor_seconds(command: list[str]) -> tuple[float, str]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise StallscopeError(f"{command[0]} ended with status {process.returncode}")
    return used.ru_utime + used.ru_stime, output


def measure(name: str, runs: int, size: workloads.Size = "bench") -> list[FormRow]:
    """Every form of a workload, slow one first."""
    known, program = workloads.truth(name), str(workloads.build(name))
    seconds: dict[str, list[float]] = {form.name: [] for form in known.forms}
    outputs = set()
    for _ in range(runs):
        for form, taken in seconds.items():
            one, output = processor_seconds([program, *known.command_arguments(size, form)])
            taken.append(one)
            outputs.add(output)
    if len(outputs) != 1:
        raise StallscopeError(f"the forms of {name} do not compute the same", str(outputs))
    slow = seconds[known.forms[0].name]
    rows = []
    for form, taken in seconds.items():
        ratios = sorted(mine / base for mine, base in zip(taken, slow, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        middle = statistics.median(ratios)
        rows.append(FormRow(name, form, runs, statistics.median(taken), middle, low, high))
    return rows


def table(rows: list[FormRow]) -> str:
    lines = ["| workload | form | seconds | over slow | quartiles |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.workload}` | {row.form} | {row.seconds:.3f} | {row.ratio:.2f} |"
        f" {row.low:.2f} to {row.high:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> int:
    names = [name for name in workloads.names() if workloads.truth(name).forms]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forms", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=9, help="of each form")
    parser.add_argument("--size", choices=get_args(workloads.Size), default="bench")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"{', '.join(sorted(unknown))} has no forms; of: {', '.join(names)}")
    if options.runs < 1:
        parser.error("--runs must be 1 or more")
    rows = [
        row for name in options.names or names for row in measure(name, options.runs, options.size)
    ]
    print(table(rows))
    if options.json is not None:
        document = {"schema": "stallscope.forms/1", "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
