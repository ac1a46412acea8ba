# SPDX-License-Identifier: Apache-2.0
"""Recorded workloads on the machines of the original study. A recording is made once and kept
until the end, so pages may ask for any form on any machine."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stallscope
from stallscope import workloads
from stallscope.analyses.objects import MissView, Objects

FOLDER = Path("build/reproduce")
STALLSCOPE = str(Path(sys.executable).with_name("stallscope"))
# Arguments before the form: data that is larger than every cache of the machines here, and a
# hundred million accesses or so.
ARGUMENTS = {
    "multigrid": ("64", "1"),
    "shallow_water": ("256", "10"),
    "mesh": ("700", "8"),
    "lzw": ("4000000", "1"),
    "quake": ("20", "25"),
    "placement": ("60000", "100000"),
}
WORKLOADS = tuple(ARGUMENTS)


def say(text: str) -> None:
    print(f"reproduce: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def timed(text: str) -> Iterator[None]:
    began = time.monotonic()
    say(text)
    yield
    seconds = time.monotonic() - began
    if seconds >= 1:
        say(f"  {seconds:.0f} s")


@dataclass
class Lab:
    """`runs` is how often natively timed programs run."""

    runs: int = 9
    keep: bool = False  # recordings stay, and those that are newer than their program are used
    folder: Path = FOLDER
    _made: dict[tuple[str, str], Path] = field(default_factory=dict)

    def command(self, workload: str, form: str = "slow") -> list[str]:
        return [self.program(workload), *ARGUMENTS[workload], form]

    def program(self, workload: str) -> str:
        """Built here: nobody else changes it between its recording and a later run."""
        return str(workloads.build(workload, self.folder / "workloads").resolve())

    def recording(self, workload: str, form: str = "slow") -> Path:
        """A trace of one form."""
        if (workload, form) not in self._made:
            path = self.folder / f"{workload}-{form}.stallscope"
            command = self.command(workload, form)
            if not self.kept(path, command):
                self.record(path, command)
            self._made[workload, form] = path
        return self._made[workload, form]

    def kept(self, path: Path, command: list[str]) -> bool:
        """Whether the recording is there from an earlier time."""
        return self.keep and _newer(path / "meta.json", Path(command[0]))

    def record(self, path: Path, command: list[str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        words = [STALLSCOPE, "record", "-q", "-f", "--trace", "--machine", "none", "-o", str(path)]
        with timed(f"records {path.stem}: {Path(command[0]).name} {' '.join(command[1:])}"):
            subprocess.run([*words, "--", *command], check=True, stdout=subprocess.DEVNULL)

    def view(self, workload: str, form: str = "slow", **options: Any) -> MissView:
        """One form on one machine; sites are named by their innermost function."""
        path = self.recording(workload, form)
        told = ", ".join(f"{key} {value}" for key, value in options.items())
        with timed(f"replays {workload} {form}: {told}"):
            return stallscope.view(path, depth=1, **options)

    def objects(self, workload: str, form: str = "slow", **options: Any) -> Objects:
        return stallscope.objects(self.view(workload, form, **options))

    def close(self) -> None:
        if self.keep:
            return
        for path in self._made.values():
            shutil.rmtree(path, ignore_errors=True)
        self._made.clear()


def _newer(file: Path, than: Path) -> bool:
    return file.exists() and file.stat().st_mtime > than.stat().st_mtime


def namer(workload: str) -> Callable[[str], str]:
    """From an object's name, as tables have it, to what the workload's truth calls it."""
    truth = workloads.truth(workload)
    known = {
        f"{thing.function} ({truth.source}:{truth.line_of(thing.text)})": thing.name
        for thing in truth.objects
        if thing.kind == "heap"
    }
    return lambda name: known.get(name, name)
