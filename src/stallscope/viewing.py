# SPDX-License-Identifier: Apache-2.0
"""What the questions about misses are asked of: `objects(view("prog.stallscope"))`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stallscope import machines, processes, results
from stallscope.analyses.objects import MissView
from stallscope.analyses.sites import DEPTH
from stallscope.recording import Recording, open_recording


def view(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    event: str | None = None,
    period: int = 0,
    seed: int = 1,
    depth: int = DEPTH,
    wrapper: Sequence[str] = (),
    region: str | None = None,
    stack_by_function: bool = False,
    evictions: bool = False,
    classify: bool = False,
) -> MissView:
    """A recording (the newest here when not told) on a machine (as recorded), all of its processes
    or one: what was kept of that, or a replay of the trace, which then is kept. `evictions` and
    `classify` are what the analyses of these names, and misses(classify=True), look at."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    name = machine or (opened.meta.machine if opened.meta.machine != "none" else "default")
    probe = results.Probe(
        evictions=evictions, classify=classify, event=event, period=period, seed=seed
    )
    replay = processes.replay(opened, machines.load(name), name, probe, process)
    return MissView(replay, depth, wrapper, region=region, stack_by_function=stack_by_function)
