# SPDX-License-Identifier: Apache-2.0
"""The control flow of code that ran: a graph of steps, and the loops around one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from iced_x86 import FlowControl, Mnemonic

from stallscope.slicing.step import Step

Fetch = Callable[[int], Step | None]
Links = Mapping[int, tuple[int, ...]]
MOST_STEPS = 2000  # of one function; more is no code that a slice could be cut from


@dataclass(frozen=True)
class Loop:
    """Steps that can reach each other. Entered at the head; `entries` come from outside."""

    head: int
    steps: frozenset[int]


class Graph:
    """Steps by address, with edges between those that are known. Calls of other functions are
    passed over, unless they are `followed`: then control goes through them."""

    def __init__(self, steps: Mapping[int, Step], followed: Mapping[int, int] | None = None):
        self.steps = dict(steps)
        self.followed = dict(followed or {})  # call -> entry of the function that it calls
        returns = self._returns()
        self.after: dict[int, tuple[int, ...]] = {}
        for address, step in self.steps.items():
            ends = returns.get(address)
            self.after[address] = tuple(ends if ends is not None else self._after(step))
        self.before: dict[int, list[int]] = {address: [] for address in self.steps}
        for address, targets in self.after.items():
            for target in targets:
                if target in self.before:
                    self.before[target].append(address)

    def exits(self, address: int) -> list[int]:
        """Where control goes that is not known."""
        return [target for target in self.after[address] if target not in self.steps]

    def _after(self, step: Step) -> list[int]:
        flow = step.flow
        if flow in (FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.EXCEPTION):
            return [0]
        if flow == FlowControl.UNCONDITIONAL_BRANCH:
            return [step.target or 0]
        if flow == FlowControl.CONDITIONAL_BRANCH:
            return [step.next, step.target or 0]
        if step.address in self.followed:
            return [self.followed[step.address]]
        return [step.next]

    def _returns(self) -> dict[int, list[int]]:
        """Returns of followed functions go back behind the call."""
        found: dict[int, list[int]] = {}
        for call, entry in self.followed.items():
            for address in reachable(self.steps, entry):
                if self.steps[address].flow == FlowControl.RETURN:
                    found[address] = [self.steps[call].next]
        return found

    def loops_around(self, address: int) -> list[Loop]:
        """From the innermost outwards."""
        found: list[Loop] = []
        inside = set(self.steps)
        while True:
            part = self._component(address, inside)
            if part is None:
                return found[::-1]
            heads = [
                at for at in part if any(b not in part and b in inside for b in self.before[at])
            ]
            head = min(heads or part, key=lambda at: (-self.steps[at].count, at))
            if heads:
                head = max(heads, key=lambda at: sum(b not in part for b in self.before[at]))
            found.append(Loop(head, frozenset(part)))
            inside = part - {head}
            if head == address:
                # Inner loops without the head cannot contain it.
                return found[::-1]

    def _component(self, address: int, inside: set[int]) -> set[int] | None:
        """The steps in a cycle with this one."""
        forward = closure([address], self.after, inside)
        backward = closure([address], self.before, inside)
        part = forward & backward
        return part or None


def closure(
    starts: Iterable[int], links: Mapping[int, Iterable[int]], inside: set[int]
) -> set[int]:
    """What can be reached in one step or more."""
    found: set[int] = set()
    left = list(starts)
    while left:
        for target in links.get(left.pop(), ()):
            if target in inside and target not in found:
                found.add(target)
                left.append(target)
    return found


def reachable(steps: Mapping[int, Step], entry: int) -> set[int]:
    """Steps of a function from its entry, without those that it calls."""
    found: set[int] = set()
    left = [entry]
    while left:
        address = left.pop()
        step = steps.get(address)
        if step is None or address in found:
            continue
        found.add(address)
        if step.flow in (FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.EXCEPTION):
            continue
        if step.flow == FlowControl.UNCONDITIONAL_BRANCH:
            left.append(step.target or 0)
            continue
        left.append(step.next)
        if step.flow == FlowControl.CONDITIONAL_BRANCH:
            left.append(step.target or 0)
    return found


def is_call(step: Step) -> bool:
    return step.flow in (FlowControl.CALL, FlowControl.INDIRECT_CALL) and (
        step.instruction.mnemonic == Mnemonic.CALL
    )


def function_of(fetch: Fetch, address: int, known: Iterable[int] = ()) -> dict[int, Step]:
    """The steps of the function around an address: forwards from it and from `known`, which are
    other places of the same function."""
    found: dict[int, Step] = {}
    left = [address, *known]
    while left and len(found) < MOST_STEPS:
        at = left.pop()
        if at in found:
            continue
        step = fetch(at)
        if step is None:
            continue
        found[at] = step
        if step.flow in (FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.EXCEPTION):
            continue
        if step.flow == FlowControl.UNCONDITIONAL_BRANCH:
            left.append(step.target or 0)
            continue
        left.append(step.next)
        if step.flow == FlowControl.CONDITIONAL_BRANCH:
            left.append(step.target or 0)
    return found
