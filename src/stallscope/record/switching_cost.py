# SPDX-License-Identifier: Apache-2.0
"""What switching groups of the kernel's events costs the program that they count."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from stallscope.errors import StallscopeError
from stallscope.record import multiplexing
from stallscope.record.multiplexing import Event, Multiplexer

SLICES = 2  # that a window has at least


@dataclass(frozen=True)
class Window:
    """Some time with switches, between as much time without before and after it."""

    frequency: float  # asked for
    switches: float  # for each second of the program's processor time
    overhead: float  # processor time for the same progress, over that without switches


def windows(
    command: Sequence[str],
    groups: Sequence[Sequence[str]],
    frequencies: Sequence[float],
    progress: str,
    shortest: float,
    rounds: int,
    seed: int = 1,
) -> list[Window]:
    """Every round has a window for each frequency, in random order, so that what else the machine
    does meets all of them alike. The program's progress is counted by an event; it is ended."""
    pid, go = multiplexing.start(command)
    opened: list[Event] = []
    try:
        made = Multiplexer(pid, groups, "both", opened, False)
        opened.append(Event(progress, pid, "both", True))
        os.write(go, b"!")
        os.close(go)
        time.sleep(shortest)
        measured = _Measured(made, opened[-1])
        draw, found = random.Random(seed), []
        for _ in range(rounds):
            for frequency in draw.sample(list(frequencies), len(frequencies)):
                seconds = max(shortest, SLICES / frequency)
                before, _ = measured.over(seconds, 0.0)
                during, switches = measured.over(seconds, frequency)
                after, _ = measured.over(seconds, 0.0)
                found.append(Window(frequency, switches, 2 * during / (before + after) - 1))
        return found
    finally:
        multiplexing.end(pid)
        for event in opened:
            event.close()


class _Measured:
    def __init__(self, made: Multiplexer, work: Event) -> None:
        self._made, self._work = made, work
        work.step(), made.clock.step()

    def over(self, seconds: float, frequency: float) -> tuple[float, float]:
        """Processor time for one step of progress, and switches for a second of it."""
        switches = self._made.switch_for(seconds, frequency)
        done, clock = self._work.step(), self._made.clock.step()
        if not done or not clock:
            raise StallscopeError(
                "the program made no progress while it was measured",
                "it ended, or has none of the events that were to tell",
            )
        return clock / done, 1e9 * switches / clock
