# SPDX-License-Identifier: Apache-2.0
"""Making recordings: `record(["./prog", "arg"])`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.machines import Machine
    from stallscope.record import valgrind
    from stallscope.record.valgrind import Progress
    from stallscope.recording import Recording
    from stallscope.results import Probe

SOURCES = ("valgrind",)
# Misses are counted whenever there is a machine.
PROBES = ("misses", "evictions", "classify", "offsets", "frames")


@dataclass(frozen=True)
class Recorded:
    """What `record` gives back."""

    recording: Recording
    exit_status: int  # as a shell would show it: 128+n for a signal
    warnings: tuple[str, ...]
    failures: tuple[StallscopeError, ...]  # what could not be kept; the target was not harmed


def record(
    command: Sequence[str],
    *,
    output: str | Path | None = None,
    force: bool = False,
    source: str = "valgrind",
    machine: str = "default",
    probes: Sequence[str] = (),
    trace: bool = False,
    children: bool = True,
    heap: bool = True,
    from_function: str | None = None,
    to_function: str | None = None,
    skip: int = 0,
    max_instructions: int = 0,
    max_size: int = 0,
    turn: int = 2000,
    on_progress: Callable[[Progress], None] | None = None,
    **sampling: Any,
) -> Recorded:
    """Run `command` to its end and record it.

    `sampling` says how the machine beside it samples, in the words of stallscope.sampling: event,
    period, seed, sampling, min_latency, handler_cost, perturb, budget."""
    from stallscope import machines
    from stallscope.record import valgrind
    from stallscope.record.preflight import preflight
    from stallscope.record.tool import CaptureOptions

    _check(source, probes, turn, (skip, max_instructions, max_size))
    model = machines.load(machine)
    probe = _probe(model, probes, sampling)
    target = preflight(command)
    options = CaptureOptions(
        stream=trace or model.simulates,
        children=children,
        heap=heap,
        from_function=from_function,
        to_function=to_function,
        skip=skip,
        max_instructions=max_instructions,
        turn=turn,
    )
    run = valgrind.Run(
        target=target,
        folder=new_folder(output, target.program, force),
        options=options,
        trace=trace,
        machine=model,
        machine_name=machine,
        probe=probe,
        max_bytes=max_size,
        on_progress=on_progress or _silent,
        described={
            "trace": trace,
            "probes": list(probes),
            "sampling": sampling,
            "max_size": max_size,
            **options.described(),
        },
    )
    return _carry_out(run)


def _check(source: str, probes: Sequence[str], turn: int, limits: Sequence[int]) -> None:
    _choose("source", source, SOURCES)
    for name in probes:
        _choose("probe", name, PROBES)
    if turn < 1 or min(limits) < 0:
        raise StallscopeError("--turn must be at least 1, and limits cannot be negative")


def _probe(machine: Machine, probes: Sequence[str], sampling: dict[str, Any]) -> Probe:
    from stallscope.results import Probe
    from stallscope.sampling import make_probe

    if machine.simulates:
        asked: dict[str, Any] = {name: name in probes for name in PROBES[1:]}
        return make_probe(machine, **asked, **sampling)
    if sampling:
        words = ", ".join(f"--{word.replace('_', '-')}" for word in sampling)
        raise StallscopeError(
            f"{words}: there is no machine that could sample", now="--machine default"
        )
    return Probe()


def _carry_out(run: valgrind.Run) -> Recorded:
    """Runs the target; a folder in which nothing came to lie goes again."""
    import os

    from stallscope.record.valgrind import run_target
    from stallscope.recording import Recording

    try:
        status = run_target(run)
    except StallscopeError:
        if not run.metas:
            shutil.rmtree(run.folder, ignore_errors=True)
        raise
    exit_status = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    failures = [*run.messages, *([run.writer.failure] if run.writer.failure else [])]
    warnings = (*run.target.warnings, *map(_why_unrecorded, run.unrecorded))
    return Recorded(Recording(run.folder), exit_status, warnings, _one_a_reason(failures))


def _why_unrecorded(program: str) -> str:
    return f"{program} ran unrecorded: it changes the user, or is for another kind of processor"


def _one_a_reason(failures: Sequence[StallscopeError]) -> tuple[StallscopeError, ...]:
    """A full disk refuses the streams and tables of every process; once is enough to know."""
    first: dict[str, StallscopeError] = {}
    for failure in failures:
        first.setdefault(failure.why or failure.what, failure)
    return tuple(first.values())


def _silent(progress: Progress) -> None:
    pass


def _choose(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise StallscopeError(
            f"--{what} {given}: there is no such {what}", f"there is: {', '.join(known)}"
        )


def new_folder(given: str | Path | None, program: str, force: bool) -> Path:
    """The folder of a new recording, which is made: as given, or named after the program."""
    from stallscope.record.writer import make_folder
    from stallscope.recording import SUFFIX

    if given is None:
        stem = Path(program).name
        folder, number = Path(f"{stem}{SUFFIX}"), 2
        while folder.exists() and not force:
            folder, number = Path(f"{stem}-{number}{SUFFIX}"), number + 1
    else:
        folder = Path(given)
    if folder.exists() or folder.is_symlink():
        _make_way(folder, force)
    make_folder(folder)
    return folder.absolute()


def _make_way(folder: Path, force: bool) -> None:
    """Only a recording is ever deleted, never some other folder that -f happened to name."""
    if not force:
        raise StallscopeError(
            f"{folder} exists already", now="give another name with -o, or overwrite it with -f"
        )
    is_folder = folder.is_dir() and not folder.is_symlink()
    if not is_folder or (any(folder.iterdir()) and not _is_recording(folder)):
        raise StallscopeError(f"{folder} is no recording, so -f does not overwrite it")
    shutil.rmtree(folder)


def _is_recording(folder: Path) -> bool:
    """Of any version: it says so in its meta.json."""
    import json

    from stallscope import meta

    try:
        facts = json.loads((folder / meta.NAME).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"format_version", "stallscope", "command"} <= facts.keys()


class _Callable(ModuleType):
    """`stallscope.record` is this room and, as people expect, the function."""

    def __call__(self, *arguments: Any, **options: Any) -> Recorded:
        return record(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
