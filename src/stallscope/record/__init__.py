# SPDX-License-Identifier: Apache-2.0
"""Making recordings: `record(["./prog", "arg"])`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.recording import Recording

# Each is a module here with a function `record`, whose parameters are the source's options.
SOURCES = ("valgrind", "clock", "perf", "pages")
# Misses are counted whenever there is a machine.
PROBES = ("misses", "evictions", "classify", "offsets", "frames")
# Page references are followed with or without one.
PAGES = "pages"


@dataclass(frozen=True)
class Recorded:
    """What `record` gives back."""

    recording: Recording
    exit_status: int  # as a shell would show it: 128+n for a signal
    warnings: tuple[str, ...]
    failures: tuple[StallscopeError, ...]  # what could not be kept; the target was not harmed
    pages: int | None = None  # that were used, where nothing else is known


def record(command: Sequence[str] = (), *, source: str = "valgrind", **options: Any) -> Recorded:
    """Run `command` to its end and record it, in the way that `source` names.

    The options are the parameters of stallscope.record.valgrind.record (every access, through a
    simulated machine), of stallscope.record.clock.record (samples at native speed), of
    stallscope.record.perf.record (loads as the processor samples them) and of
    stallscope.record.pages.record (pages by protection)."""
    choose("source", source, SOURCES)
    way = importlib.import_module(f"stallscope.record.{source}").record
    _check_options(way, source, options)
    recorded: Recorded = way(command, **options)
    return recorded


def _check_options(way: Any, source: str, options: dict[str, Any]) -> None:
    parameters = inspect.signature(way).parameters
    known = set(parameters)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        from stallscope.sampling import make_probe

        known |= set(inspect.signature(make_probe).parameters)
    for name in options:
        if name not in known:
            option = _OPTION_NAMES.get(name, f"--{name.replace('_', '-')}")
            raise StallscopeError(f"{option} is not for --source {source}")


_OPTION_NAMES = {
    "from_function": "--from",
    "to_function": "--to",
    "probes": "--probe",
    "pid": "-p",
}


def choose(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise StallscopeError(
            f"--{what} {given}: there is no such {what}", f"there is: {', '.join(known)}"
        )


class _Callable(ModuleType):
    """`stallscope.record` is this room and, as people expect, the function."""

    def __call__(self, *arguments: Any, **options: Any) -> Recorded:
        return record(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
