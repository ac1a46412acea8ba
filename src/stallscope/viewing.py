# SPDX-License-Identifier: Apache-2.0
"""What the questions about misses are asked of: `objects(view("prog.stallscope"))`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from stallscope import machines, processes, tracking
from stallscope.analyses.live import LiveView
from stallscope.analyses.objects import MissView
from stallscope.analyses.page_view import PageView
from stallscope.analyses.sites import DEPTH
from stallscope.errors import StallscopeError
from stallscope.recording import Recording, is_sampled, open_recording
from stallscope.results import NoTrace
from stallscope.sampling import make_probe
from stallscope.tracking import PageOptions


def view(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    depth: int = DEPTH,
    wrapper: Sequence[str] = (),
    region: str | None = None,
    stack_by_function: bool = False,
    **probe: Any,
) -> MissView | LiveView:
    """A recording (the newest here when not told) on a machine (as recorded), all of its processes
    or one: what was kept of that, or a replay of the trace, which then is kept.

    `probe` takes what `stallscope.sampling.make_probe` does: evictions, classify and offsets
    (what the analyses of these names, and misses(classify=True), look at), event, period, seed,
    sampling, min_latency, handler_cost, perturb, budget."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    if is_sampled(opened.meta):
        given = {"machine": machine, "region": region, "stack_by_function": stack_by_function}
        _check_live(opened, given | probe)
        return LiveView(opened, processes.choose(opened, process), depth, wrapper)
    name = machine or (opened.meta.machine if opened.meta.machine != "none" else "default")
    model = machines.load(name)
    replay = processes.replay(
        opened, model, name, make_probe(model, frames=stack_by_function, **probe), process
    )
    return MissView(replay, depth, wrapper, region=region, stack_by_function=stack_by_function)


def page_view(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    depth: int = DEPTH,
    wrapper: Sequence[str] = (),
    **options: int,
) -> PageView:
    """The page references of a recording (the newest here when not told), all of its processes or
    one: what was kept of them, or found in the trace and kept then.

    `options` takes what `stallscope.tracking.PageOptions` does: page_size, hot, cores, and the
    sizes of a PATH unit, which otherwise are those of the machine (as recorded)."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    if is_sampled(opened.meta):
        raise StallscopeError(
            f"{opened.path.name} has no page references",
            f"it was recorded by --source {opened.meta.source}",
            "stallscope record --probe pages -- PROGRAM",
        )
    wanted, parts, refused = page_options(opened, options, machine), [], []
    for image in processes.choose(opened, process):
        try:
            parts.append(tracking.track(image, wanted))
        except NoTrace as error:
            refused.append(error)
    if not parts:
        raise refused[0]
    return PageView(parts, depth, wrapper)


def page_options(
    recording: Recording, given: dict[str, int], machine: str | None = None
) -> PageOptions:
    """As they were when it was recorded, where nothing else is asked for."""
    kept = recording.meta.options.get("pages") or {}
    if machine is not None:
        kept = {**kept, **msgspec.to_builtins(machines.load(machine).path)}
    elif not kept and recording.meta.machine != "none":
        with contextlib.suppress(StallscopeError):  # a machine file that is gone by now
            kept = msgspec.to_builtins(machines.load(recording.meta.machine).path)
    return msgspec.convert({**kept, **given}, PageOptions)


def _check_live(recording: Recording, options: dict[str, Any]) -> None:
    """Samples of a real machine cannot be taken again in another way."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise StallscopeError(
                f"--{name.replace('_', '-')} is not for samples",
                f"{recording.path.name} was recorded by --source {recording.meta.source}",
                "stallscope record --source valgrind -- PROGRAM",
            )
