# SPDX-License-Identifier: Apache-2.0
"""The `perf` source: loads as the processor samples them, with address, latency and data source,
where the machine shows such a unit (Intel's PEBS, AMD's IBS, Arm's SPE)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.record import Recorded
from stallscope.record.clock import sample
from stallscope.record.life import Progress
from stallscope.record.sampled import Wanted

RATE = 1000
LONGEST = 0xFFFF


def record(
    command: Sequence[str] = (),
    *,
    pid: int | None = None,
    duration: float | None = None,
    rate: int = RATE,
    min_latency: int = 0,
    children: bool = True,
    heap: bool = True,
    output: str | Path | None = None,
    force: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Recorded:
    """Run `command` to its end, or watch process `pid`, and sample about `rate` loads a second that
    take at least `min_latency` cycles. The other words are those of stallscope.record.clock."""
    if not 0 <= min_latency <= LONGEST:
        raise StallscopeError(
            f"--min-latency {min_latency}: it lies between 0 and {LONGEST:,} cycles"
        )
    wanted = Wanted("perf", rate, children, min_latency)
    return sample(command, wanted, pid, duration, heap, output, force, on_progress)
