# SPDX-License-Identifier: Apache-2.0
"""Events of a core and logs of logical counters: what the analyses do not touch themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stallscope import _engine, machines
from stallscope.analyses.pmu import EventRow, event_rows
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.analyses.counters import Counters


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
    number = 0

    def on_round(order: list[int], counts: list[dict[str, float]], clock: list[float]) -> None:
        nonlocal number
        if log is not None:
            _append(log, number, _scaled(counts, clock))
        number += 1

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
    window: float = 0.1,
    pairs: int = 20,
) -> dict[float, float]:
    """What switching groups so often costs a steady program that runs long enough: how much more
    processor time it takes for the same progress, which an event tells. Windows in which groups are
    switched alternate with windows in which nothing is; medians over pairs of them, so that what
    others do on the machine meets both alike. The program is ended."""
    from stallscope.analyses.counters import split
    from stallscope.record import multiplexing

    groups, _ = split(list(events), counters, None)
    return {
        frequency: multiplexing.cost(command, groups, frequency, progress, window, pairs)
        for frequency in frequencies
    }


def _scaled(counts: list[dict[str, float]], clock: list[float]) -> dict[str, float]:
    """A round's vector at once, by linear scaling."""
    whole, seen, time = sum(clock), dict[str, float](), dict[str, float]()
    for one, length in zip(counts, clock, strict=True):
        for name, count in one.items():
            seen[name] = seen.get(name, 0.0) + count
            time[name] = time.get(name, 0.0) + length
    return {name: count * whole / time[name] if time[name] else 0.0 for name, count in seen.items()}


def _append(path: Path, number: int, counts: dict[str, float]) -> None:
    rounded = {name: round(value, 1) for name, value in counts.items()}
    try:
        with path.open("a") as file:
            file.write(json.dumps({"round": number, "counts": rounded}) + "\n")
    except OSError as error:
        raise StallscopeError(f"the log {path} cannot be written", error.strerror or "") from error


def write_log(path: Path, found: Counters) -> None:
    """A line for each round, written whole, so that others can follow it."""
    for number, vector in enumerate(found.vectors):
        _append(path, number, vector)
