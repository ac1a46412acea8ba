# SPDX-License-Identifier: Apache-2.0
"""Events of a core and logs of logical counters: what the analyses do not touch themselves."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stallscope import _engine, machines
from stallscope.analyses.pmu import EventRow, event_rows
from stallscope.analyses.rounds import OnRound, scaled
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.analyses.counters import Counters
    from stallscope.analyses.switching_cost import SwitchingCost


@dataclass(frozen=True)
class Events:
    machine: str
    counters: int
    rows: list[EventRow]


def known_events() -> list[tuple[str, str, str]]:
    """(name, area, meaning) of all that a core counts."""
    return _engine.core_events()


def events(machine: str = "default", counters: int | None = None) -> Events:
    """Every event, what it means, and on which counters it may sit."""
    number = machines.load(machine).core.counters if counters is None else counters
    return Events(machine, number, event_rows(known_events(), number))


def count_here(
    command: Sequence[str],
    events: Sequence[str] = (),
    *,
    counters: int = 4,
    ratio: int | None = None,
    frequency: float = 500.0,
    privilege: str = "both",
    estimator: str = "invariants",
    seed: int = 1,
    full: bool = True,
    log: Path | None = None,
) -> tuple[Counters, int]:
    """Runs a program and counts the kernel's events in groups that take turns, beside full counts;
    also its exit status. Without `full` nothing is counted beside them, which costs less. `log`
    gets a line for each round while the program runs."""
    from stallscope.analyses.counters import live, split
    from stallscope.record import multiplexing

    names = [part for text in events for part in text.split(",") if part and part != "all"]
    chosen = list(dict.fromkeys(names)) or list(multiplexing.SOFTWARE_EVENTS)
    for name in chosen:
        multiplexing.kind_of(name)  # unknown ones are told before anything runs
    groups, slices = split(chosen, counters, ratio)
    with round_log(log) as write:

        def on_round(order: list[int], counts: list[dict[str, float]], clock: list[float]) -> None:
            if write is not None:
                write(scaled(counts, clock))

        found = multiplexing.run(
            command,
            groups,
            ratio=slices,
            frequency=frequency,
            privilege=privilege,
            seed=seed,
            full=full,
            on_round=on_round,
        )
    result = live(
        command,
        groups,
        found,
        counters=counters,
        ratio=slices,
        estimator=estimator,
        seed=seed,
    )
    return result, found.status


def overhead_here(
    command: Sequence[str],
    frequencies: Sequence[float],
    events: Sequence[str] = ("minor-faults", "context-switches", "cpu-migrations", "major-faults"),
    *,
    counters: int = 2,
    progress: str = "page-faults",
    window: float = 0.02,
    rounds: int = 200,
) -> SwitchingCost:
    """What switching groups so often costs a steady program that runs long enough: how much more
    processor time it takes for the same progress, which an event tells. Windows in which groups are
    switched lie between windows in which nothing is. The program is ended."""
    from stallscope.analyses.counters import split
    from stallscope.analyses.switching_cost import switching_cost
    from stallscope.record import switching_cost as measuring

    groups, _ = split(list(events), counters, None)
    found = measuring.windows(command, groups, frequencies, progress, window, rounds)
    return switching_cost([(one.frequency, one.switches, one.overhead) for one in found])


@contextlib.contextmanager
def round_log(path: Path | None) -> Iterator[OnRound | None]:
    """Writes a line for each round when it ends, whole, so that others can follow the file."""
    if path is None:
        yield None
        return
    numbers = itertools.count()
    try:
        file = path.open("w", buffering=1)
    except OSError as error:
        raise _unwritable(path, error) from error

    def write(counts: dict[str, float]) -> None:
        rounded = {name: round(value, 1) for name, value in counts.items()}
        try:
            file.write(json.dumps({"round": next(numbers), "counts": rounded}) + "\n")
        except OSError as error:
            raise _unwritable(path, error) from error

    try:
        yield write
    finally:
        with contextlib.suppress(OSError):  # write() has said it
            file.close()


def _unwritable(path: Path, error: OSError) -> StallscopeError:
    return StallscopeError(f"the log {path} cannot be written", error.strerror or "")
