# SPDX-License-Identifier: Apache-2.0
"""How a simulated PMU is to sample, from the words of options to a Probe."""

from __future__ import annotations

import re

from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.machines.events import find_event
from stallscope.results import HANDLER_COST, Probe

MODES = ("counter", "tagged")
_LARGEST = 2**32 - 1


def share(text: str | float) -> float:
    """1% or 0.01, as a number between 0 and 1."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", str(text))
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < 1:
        raise StallscopeError(
            f"--budget {text}: a budget is a share of the run's cycles",
            "it lies above 0% and below 100%",
            "--budget 1%",
        )
    return value


def make_probe(
    machine: Machine,
    *,
    evictions: bool = False,
    classify: bool = False,
    offsets: bool = False,
    frames: bool = False,
    event: str | None = None,
    period: int = 0,
    seed: int = 1,
    sampling: str = "counter",
    min_latency: int = 0,
    handler_cost: int | None = None,
    perturb: bool = False,
    budget: str | float | None = None,
) -> Probe:
    """Options that mean the same give the same probe, so that a kept result is found again."""
    if sampling not in MODES:
        raise StallscopeError(
            f"--sampling {sampling}: there is no such mode", f"there is: {', '.join(MODES)}"
        )
    for name, value in (("period", period), ("seed", seed), ("min-latency", min_latency)):
        _check(name, value)
    if budget is not None and period:
        raise StallscopeError(
            "--budget chooses the period by itself", now="--budget or --period, not both"
        )
    allowed = 0.0 if budget is None else share(budget)
    if handler_cost is None:
        handler_cost = HANDLER_COST if perturb or allowed else 0
    _check("handler-cost", handler_cost)
    if allowed and not handler_cost and not perturb:
        raise StallscopeError(
            "--budget with --handler-cost 0: a handler that costs nothing has no budget",
            now=f"--handler-cost {HANDLER_COST}",
        )
    if classify and min_latency:
        raise StallscopeError(
            "--classify looks at all misses, whatever they cost", now="without --min-latency"
        )
    found = find_event(machine, event)
    if found.code and sampling == "tagged":
        raise StallscopeError(
            f"--sampling tagged follows loads, and {found.name} is missed by instructions",
            now="--sampling counter",
        )
    return Probe(
        evictions=evictions,
        classify=classify,
        offsets=offsets,
        frames=frames,
        event=None if found == find_event(machine, None) else found.name,
        period=period,
        seed=seed,
        sampling=sampling,
        min_latency=min_latency,
        handler_cost=handler_cost,
        perturb=perturb,
        budget=allowed,
    )


def _check(name: str, value: int) -> None:
    if not 0 <= value <= _LARGEST:
        raise StallscopeError(f"--{name} {value}: the number lies between 0 and {_LARGEST}")
