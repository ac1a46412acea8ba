# SPDX-License-Identifier: Apache-2.0
"""Events of a core and logs of logical counters: what the analyses do not touch themselves."""

from __future__ import annotations

import json
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


def write_log(path: Path, found: Counters) -> None:
    """A line for each round, written whole, so that others can follow it."""
    try:
        with path.open("a", buffering=1) as file:
            for number, vector in enumerate(found.vectors):
                rounded = {name: round(value, 1) for name, value in vector.items()}
                file.write(json.dumps({"round": number, "counts": rounded}) + "\n")
    except OSError as error:
        raise StallscopeError(f"the log {path} cannot be written", error.strerror or "") from error
