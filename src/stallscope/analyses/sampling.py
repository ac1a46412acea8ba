# SPDX-License-Identifier: Apache-2.0
"""How samples were taken, what that cost, and what it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stallscope.results import Result

TAGGED = (
    "one load was followed at a time: stores and loads that issue while a slow load is followed "
    "are never seen, so what they miss on is underestimated (bias below 0)"
)


@dataclass(frozen=True)
class Sampling:
    mode: str  # counter or tagged
    events: int  # that the sampled counter counted
    samples: int
    period: int  # events a sample stands for; on average where a budget changed it
    shortest: int  # period that was in force
    longest: int
    seed: int
    min_latency: int  # cycles
    budget: float | None  # share of the run's cycles that the handler might take
    handler_cost: int  # cycles of an interrupt
    interrupts: int | None  # None unless the handler costs something
    program_cycles: int | None  # instructions, and cycles waited
    handler_cycles: int | None
    overhead: float | None  # handler's share of all cycles
    perturbation: float | None  # misses of the event's level that the program had besides, of those
    # without the handler; None unless it touched the caches
    loads: int | None  # None unless loads were tagged
    tags: int | None  # loads that were followed
    note: str


def sampling_of(result: Result, levels: list[dict[str, Any]], weights: list[int]) -> Sampling:
    probe = result.probe
    costs = bool(probe.handler_cost or probe.perturb or probe.budget)
    tagged = probe.sampling == "tagged"
    cycles = result.program_cycles + result.handler_cycles
    period = result.sample_period
    if probe.budget and weights:
        period = round(result.sample_events / len(weights))
    return Sampling(
        mode=probe.sampling,
        events=result.sample_events,
        samples=len(weights),
        period=period,
        shortest=min(weights, default=period),
        longest=max(weights, default=period),
        seed=probe.seed,
        min_latency=probe.min_latency,
        budget=probe.budget or None,
        handler_cost=probe.handler_cost,
        interrupts=result.interrupts if costs else None,
        program_cycles=result.program_cycles if costs else None,
        handler_cycles=result.handler_cycles if costs else None,
        overhead=result.handler_cycles / cycles if costs and cycles else None,
        perturbation=_perturbation(levels[result.sample_level]) if probe.perturb else None,
        loads=result.loads if tagged else None,
        tags=result.tags if tagged else None,
        note=TAGGED if tagged else "",
    )


def _perturbation(level: dict[str, Any]) -> float:
    without: int = level["undisturbed_misses"]
    return (level["misses"] - without) / without if without else 0.0
