# SPDX-License-Identifier: Apache-2.0
"""Steps out of the tables of a recording: its blocks with their machine code."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from iced_x86 import Decoder, FlowControl

from stallscope.slicing.step import Step, is_direct, step_of

Row = Mapping[str, Any]


def steps_of(blocks: Iterable[Row], operations: Iterable[Row]) -> dict[int, Step]:
    """Every instruction that ran, with how often. Blocks may share instructions."""
    reached: dict[int, dict[int, int]] = collections.defaultdict(dict)
    for row in operations:
        counts = reached[row["block"]]
        counts[row["address"]] = max(counts.get(row["address"], 0), row["executions"])
    found: dict[int, Step] = {}
    counted: dict[int, int] = collections.defaultdict(int)
    for block in blocks:
        if not block["executions"]:
            continue
        steps = _decode(block["bytes"], block["address"], found)
        for step, count in zip(
            steps, _counts(steps, reached[block["block"]], block["executions"]), strict=True
        ):
            found.setdefault(step.address, step)
            counted[step.address] += count
    return {at: replace(step, count=counted[at]) for at, step in found.items() if counted[at]}


def _decode(code: bytes, address: int, known: Mapping[int, Step]) -> list[Step]:
    """The instructions of a block. Jumps and calls to known places were followed into it."""
    steps: list[Step] = []
    at = 0
    while at < len(code):
        instruction = Decoder(64, code[at : at + 15], ip=address).decode()
        if instruction.is_invalid:
            break
        step = known.get(address)
        if step is None or step.instruction != instruction:
            step = step_of(instruction)
        steps.append(step)
        at += instruction.len
        address += instruction.len
        followed = (FlowControl.UNCONDITIONAL_BRANCH, FlowControl.CALL)
        if instruction.flow_control in followed and is_direct(instruction):
            address = instruction.near_branch_target
    return steps


def _counts(steps: list[Step], reached: Mapping[int, int], entered: int) -> list[int]:
    """An instruction ran as often as the next operation behind it in its block, if there is one;
    what comes last ran as often as the last operation, at most."""
    counts: list[int] = []
    last = min(
        (reached[step.address] for step in reversed(steps) if step.address in reached),
        default=entered,
    )
    for step in reversed(steps):
        last = reached.get(step.address, last)
        counts.append(last)
    return counts[::-1]
