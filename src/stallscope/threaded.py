# SPDX-License-Identifier: Apache-2.0
"""The threaded workloads: four threads each, in steps with barriers that a recording knows of."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stallscope import workloads
from stallscope.errors import StallscopeError

FOLDER = "threaded"
FLAGS = ("-O2", "-g", "-fno-tree-vectorize")


@dataclass(frozen=True)
class Program:
    name: str
    what: str
    arguments: tuple[int, ...]  # of the quick size


PROGRAMS = (
    Program("barnes", "bodies in a tree (Barnes and Hut)", (256, 40)),
    Program("lu", "LU factorisation in blocks", (12,)),
    Program("cholesky", "Cholesky factorisation by columns", (176,)),
    Program("ocean", "relaxation on a grid", (514, 2)),
    Program("water", "molecules that all pull at each other", (160, 60)),
    Program("producer", "one produces, three consume", (2500, 128)),
    Program("ring", "a block of data goes around", (3000,)),
    Program("particles", "particles that share lines", (1024, 900)),
)


def program(name: str) -> Program:
    for one in PROGRAMS:
        if one.name == name:
            return one
    raise StallscopeError(
        f"there is no threaded workload {name}",
        f"there is: {', '.join(one.name for one in PROGRAMS)}",
    )


def sources() -> Path:
    return workloads._folder() / FOLDER


def build(name: str, folder: Path) -> Path:
    """Compiles it where it is used."""
    program(name)
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / name
    command = ["cc", *FLAGS, f"-I{workloads.header()}", str(sources() / f"{name}.c")]
    ran = subprocess.run(
        [*command, "-o", str(output), "-pthread", "-lm"], capture_output=True, text=True
    )
    if ran.returncode != 0:
        raise StallscopeError(f"{name}.c could not be compiled", ran.stderr.strip()[-200:])
    return output


def record(name: str, folder: Path, arguments: tuple[int, ...] | None = None) -> Path:
    """A recording with a trace, of the quick size unless told otherwise."""
    from stallscope.record import record as make

    words = program(name).arguments if arguments is None else arguments
    binary = build(name, folder)
    output = folder / f"{name}-{'-'.join(map(str, words))}.stallscope"
    if not (output / "meta.json").exists():
        with tempfile.TemporaryFile() as nowhere:
            _quietly(
                lambda: make(
                    [str(binary), *map(str, words)],
                    output=output,
                    machine="none",
                    trace=True,
                    turn=200,
                ),
                nowhere.fileno(),
            )
    return output


def _quietly(work: object, descriptor: int) -> None:
    """The program's own output is nobody's result."""
    import os
    import sys

    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(descriptor, 1)
    try:
        work()  # type: ignore[operator]
    finally:
        os.dup2(kept, 1)
        os.close(kept)
