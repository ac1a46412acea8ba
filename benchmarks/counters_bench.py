# SPDX-License-Identifier: Apache-2.0
"""False sharing at native speed: two threads that add to two counters in one line, and to two in
lines of their own, alternating. It shows only while both threads run: they run before all others
where that is allowed, and the time is given beside how many processors were used on average."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Iterator

from benchmarks.measure import Run, timed
from benchmarks.report import Row
from stallscope import workloads

THREADS, ADDITIONS = 2, 50_000_000
LAYOUTS = ("packed", "padded")
FIRST = ("chrt", "--fifo", "1")  # less than a second at a time


def before_all_others() -> tuple[str, ...]:
    try:
        allowed = subprocess.run([*FIRST, "true"], capture_output=True).returncode == 0
    except OSError:
        allowed = False
    return FIRST if allowed else ()


def rows(runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    program = str(workloads.build("counters"))
    before = before_all_others()
    taken: dict[str, list[Run]] = {layout: [] for layout in LAYOUTS}
    for turn in range(runs):
        say(f"counters: {turn + 1} of {runs}")
        for layout, found in taken.items():
            found.append(timed([*before, program, str(THREADS), str(ADDITIONS), layout]))
    for layout, found in taken.items():
        yield Row("counters", layout, statistics.median(one.seconds for one in found), "s")
        used = statistics.median(one.processor / one.seconds for one in found)
        yield Row("counters", f"{layout}, processors used", used, "")
    packed, padded = (statistics.median(one.seconds for one in taken[way]) for way in LAYOUTS)
    yield Row("counters", "packed / padded", packed / padded, "x", at_least=1.0)
