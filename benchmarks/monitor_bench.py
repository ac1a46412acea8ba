# SPDX-License-Identifier: Apache-2.0
"""What detectors and a monitor cost the simulation: processor time over that of a run without."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import threaded
from stallscope.systems import System

MONITORS = ("adaptive-coherence", "miss-rate", "hot-sites", "replacement-switch")
AT_MOST = 2.0


def rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    for program in threaded.PROGRAMS:
        say(f"monitors: {program.name}")
        system = System([threaded.record(program.name, FOLDER / "threaded")])
        ratios: dict[str, list[float]] = {monitor: [] for monitor in MONITORS}
        for _ in range(runs):
            plain = _seconds(system, ())
            for monitor, taken in ratios.items():
                taken.append(_seconds(system, (monitor,)) / plain)
        for monitor, taken in ratios.items():
            figure = f"{program.name}: with {monitor} over without"
            yield Row("monitors", figure, statistics.median(taken), "times", AT_MOST)


def _seconds(system: System, monitors: tuple[str, ...]) -> float:
    """Begun with either protocol: a monitor that changes it changes what there is to simulate."""
    found = []
    for protocol in ("moesi", "dragon"):
        start = time.process_time()
        system.run(monitors, protocol=protocol)
        found.append(time.process_time() - start)
    return sum(found)
