# SPDX-License-Identifier: Apache-2.0
"""What prefetch slices would do, from replays with and without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iced_x86 import Register

from stallscope.showing import Shown
from stallscope.slicing.inline import Inline, inline
from stallscope.slicing.slice import Slice
from stallscope.slicing.trace import Trace

DISTANCES = (4, 16, 64)  # that are tried for inline prefetches
ASSIST, INLINE, BOTH = "assist", "inline", "both"


@dataclass(frozen=True)
class Delivery:
    """A way to bring the lines of one slice, as the engine takes it."""

    how: str
    distance: int
    words: dict[str, Any]


@dataclass(frozen=True)
class PredictionRow:
    """One replay: the program alone, with slices, or with slices that bring nothing."""

    run: str  # without, slices, control
    misses: int
    in_flight: int
    cycles: int
    prefetches: int
    used: int
    restarts: int
    pauses: int
    removed: float  # of the misses without slices; lines in flight are removed ones that came late
    late: float  # of the misses without slices, in flight
    speedup: float


@dataclass(frozen=True)
class ChoiceRow:
    pc: int
    function: str
    line: int | None
    kind: str
    delivery: str
    distance: int
    removed: float
    speedup: float


@dataclass(frozen=True)
class Prediction(Shown):
    recording: str
    machine: str
    threads: str  # smt or cores
    hardware: bool
    chunk: int
    slack: int
    pause: int
    choices: list[ChoiceRow]
    declined: list[str]
    rows: list[PredictionRow]

    @property
    def removed(self) -> float:
        return self.rows[1].removed


def deliveries(made: Slice, trace: Trace) -> list[Delivery]:
    """Ways to bring a slice's lines: its own thread, and inline where addresses can be told."""
    found = [Delivery(ASSIST, 0, _words(made, trace))]
    for ahead in inlines(trace, sorted(made.loads)):
        for distance in DISTANCES:
            found.append(Delivery(INLINE, distance, _inline_words(ahead, distance)))
    return found


def inlines(trace: Trace, loads: Sequence[int]) -> list[Inline]:
    """Of each load the innermost loop in which its address can be told ahead; loads of one loop
    together."""
    found: list[Inline] = []
    left = list(loads)
    loops = sorted(
        {loop.head: loop for load in loads for loop in trace.graph.loops_around(load)}.values(),
        key=lambda loop: len(loop.steps),
    )
    for loop in loops:
        ahead = inline(trace.graph, loop, left)
        if isinstance(ahead, Inline):
            found.append(ahead)
            left = [load for load in left if load not in ahead.loads]
    return found


def _words(made: Slice, trace: Trace) -> dict[str, Any]:
    runs = max(1, trace.step(trace.load).count)
    kept = sum(trace.step(at).count for at in made.kept)
    feeding = [at for at in made.data if at not in made.places and trace.step(at).loads]
    return {
        "load": trace.load,
        "steps": sorted(trace.steps),
        "loads": sorted(made.loads),
        "feeding": sorted(feeding),
        "times": [],
        "cost": kept / runs + 2,  # the count of runs and its check
        "distance": 0,
        "step": 0,
    }


def _inline_words(ahead: Inline, distance: int) -> dict[str, Any]:
    by_register = any(one.by != Register.NONE for one in ahead.stepping)
    stages = {load: stage.times for stage in ahead.stages for load in stage.loads}
    return {
        "load": ahead.leading,
        "steps": sorted(ahead.loop.steps),
        "loads": list(stages),
        "feeding": [],
        "times": list(stages.values()),
        "cost": float(sum(len(one.steps) + len(one.loads) for one in ahead.stages) + 4),
        "distance": distance,
        "step": 0 if by_register else ahead.amount,
    }


def row_of(run: str, counts: Mapping[str, int], base: Mapping[str, int]) -> PredictionRow:
    misses = max(1, base["misses"])
    return PredictionRow(
        run,
        counts["misses"],
        counts["in_flight"],
        counts["cycles"],
        counts["prefetches"],
        counts["used"],
        counts["restarts"],
        counts["pauses"],
        1 - counts["misses"] / misses,
        counts["in_flight"] / misses,
        base["cycles"] / max(1, counts["cycles"]),
    )
