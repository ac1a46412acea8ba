# SPDX-License-Identifier: Apache-2.0
"""Connected traces: the hot steps around a load that form at least one loop, grown outwards until
the load runs often enough each time that they are entered."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from dataclasses import dataclass

from stallscope.slicing.graph import Graph, Loop, closure, is_call, reachable
from stallscope.slicing.step import Step

LEAST = 256  # runs of the load each time that a trace is entered
MOST_STEPS = 800
MOST_CALLERS = 4  # functions that a trace is grown out of


@dataclass(frozen=True)
class Trace:
    graph: Graph
    load: int
    loop: Loop
    inner: Loop  # the innermost loop around the load
    per_visit: float  # runs of the load each time that the trace is entered
    grown: tuple[str, ...]  # what was tried before, and why it was not enough
    short: bool = False  # it stays below what was asked for, and nothing larger is known

    @property
    def steps(self) -> frozenset[int]:
        return self.loop.steps

    def step(self, address: int) -> Step:
        return self.graph.steps[address]

    def after(self, address: int) -> tuple[int, ...]:
        return self.graph.after[address]

    def before(self, address: int) -> list[int]:
        return [at for at in self.graph.before[address] if at in self.loop.steps]


@dataclass(frozen=True)
class Declined:
    """No trace or no slice, and why."""

    reason: str


class Code:
    """All steps that ran, with their control flow inside of functions."""

    def __init__(self, steps: Mapping[int, Step]):
        self.steps = dict(steps)
        self._flat = Graph(self.steps)
        self._calls: dict[int, list[int]] = collections.defaultdict(list)
        for address, step in self.steps.items():
            if is_call(step) and step.target is not None:
                self._calls[step.target].append(address)

    def function(self, address: int) -> set[int]:
        """The steps connected with this one without calls and returns."""
        every = set(self.steps)
        back = closure([address], self._flat.before, every) | {address}
        return closure(back, self._flat.after, every) | back

    def entries(self, function: set[int]) -> list[int]:
        return [at for at in function if at in self._calls]

    def callers(self, function: set[int]) -> list[int]:
        return [call for entry in self.entries(function) for call in self._calls[entry]]

    def followable(self, inside: set[int]) -> dict[int, int]:
        """Calls whose function ran, is called once in here, and does not call itself."""
        found: dict[int, int] = {}
        left = list(inside)
        seen = set(inside)
        while left:
            step = self.steps[left.pop()]
            entry = step.target
            if not is_call(step) or entry not in self.steps:
                continue
            body = reachable(self.steps, entry)
            if entry in found.values() or body & seen or len(seen) + len(body) > MOST_STEPS:
                found = {call: to for call, to in found.items() if to != entry}
                continue
            found[step.address] = entry
            seen |= body
            left.extend(body)
        return found


def connect(code: Code, load: int, least: int = LEAST) -> Trace | Declined:
    """The smallest trace around a load in which it runs `least` times a visit; else the largest,
    when it has a loop at all."""
    if load not in code.steps:
        return Declined("its instruction never ran")
    grown: list[str] = []
    best: Trace | None = None
    inner: Loop | None = None
    region = code.function(load)
    for _ in range(MOST_CALLERS):
        if len(region) > MOST_STEPS:
            grown.append(f"too many steps: {len(region)}")
            break
        graph = _graph(code, region)
        if load not in graph.steps:
            grown.append("function return: it is called from several places")
            break
        for loop in graph.loops_around(load):
            inner = inner or loop
            per_visit = visits(graph, load, loop)
            best = Trace(graph, load, loop, inner, per_visit, tuple(grown))
            if per_visit >= least:
                return best
            grown.append(f"loop at {loop.head:#x}: {per_visit:.1f} runs a visit")
        outer = _outwards(code, region)
        if isinstance(outer, str):
            grown.append(outer)
            break
        region = outer
    if best is None:
        return Declined("; ".join(["it is in no loop", *grown]))
    return Trace(best.graph, load, best.loop, best.inner, best.per_visit, tuple(grown), short=True)


def visits(graph: Graph, load: int, loop: Loop) -> float:
    """Runs of the load over times that the loop is entered; 0 where nothing was counted."""
    entered = 0
    for at in loop.steps:
        for before in graph.before[at]:
            if before not in loop.steps:
                entered += min(graph.steps[before].count, graph.steps[at].count)
    return graph.steps[load].count / max(1, entered)


def _graph(code: Code, region: set[int]) -> Graph:
    wanted = code.followable(region)
    followed: dict[int, int] = {}
    steps = {at: code.steps[at] for at in region}
    while new := {
        call: to for call, to in wanted.items() if call in steps and call not in followed
    }:
        followed |= new
        for entry in new.values():
            steps |= {at: code.steps[at] for at in reachable(code.steps, entry)}
    return Graph(steps, followed)


def _outwards(code: Code, region: set[int]) -> set[int] | str:
    """The function that calls this one, or why it cannot be grown into."""
    calls = code.callers(region)
    inside = [call for call in calls if call in region]
    if inside:
        return "it calls itself"
    if not calls:
        return "function return: nothing that ran calls it"
    total = sum(code.steps[call].count for call in calls) or len(calls)
    hot = [call for call in calls if (code.steps[call].count or 1) >= 0.05 * total]
    if len(hot) != 1:
        return f"function return: called from {len(hot)} places"
    return code.function(hot[0])
