# SPDX-License-Identifier: Apache-2.0
"""Nests of loops that could run in tiles, and what stands against it.

The trace shows what memory carries from turn to turn; what registers carry is read here in the
code. All but the innermost loop must carry nothing in registers but what follows from the number of
the turn. The innermost may: its turns stay in order for each turn of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iced_x86 import Mnemonic, Register

from stallscope.slicing.step import FLAGS, Step

SIZES = (8, 32)  # turns of a tile that are tried
DEEPEST = 3  # loops of a nest
_COUNTING = frozenset(
    getattr(Mnemonic, name)
    for name in ("ADD", "SUB", "INC", "DEC", "LEA", "MOV", "MOVSXD", "CDQE", "SHL", "NEG", "XOR")
)
Loop = Mapping[str, Any]  # a row of the table `loop`
Range = tuple[int, int]  # first and last instruction


def nests(loops: Sequence[Loop], inner: Loop) -> list[list[Loop]]:
    """Those that an innermost loop is in, outermost loop first; none that calls anything."""
    by_number = {loop["loop"]: loop for loop in loops}
    found: list[list[Loop]] = []
    nest = [inner]
    while len(nest) < DEEPEST and nest[0]["around"] in by_number:
        nest = [by_number[nest[0]["around"]], *nest]
        if nest[0]["calls"]:
            break
        found.append(nest)
    return found


def innermost(loops: Sequence[Loop]) -> list[Loop]:
    around = {loop["around"] for loop in loops}
    return [loop for loop in loops if loop["loop"] not in around and not loop["calls"]]


def sizes(nest: Sequence[Loop]) -> list[int]:
    """Tiles that cut at least one loop."""
    return [size for size in SIZES if any(loop["longest"] > size for loop in nest[1:])]


def range_of(loop: Loop) -> Range:
    return loop["header"], loop["end"]


def carried(steps: Mapping[int, Step], nest: Sequence[Loop]) -> str:
    """What a loop around the innermost carries from turn to turn in registers, in words; nothing
    when its turns may change places."""
    for loop in nest[:-1]:
        header, end = range_of(loop)
        body = {at: step for at, step in steps.items() if header <= at <= end}
        written = {register for step in body.values() for register in step.writes}
        kept = _wanted(body, header) & written - _counting(body, written) - {FLAGS}
        if kept:
            return f"{_name(min(kept))} goes from turn to turn of a loop around it"
    return ""


def _wanted(body: Mapping[int, Step], header: int) -> set[int]:
    """Registers that a turn reads as the turn before left them."""
    live: dict[int, set[int]] = {at: set() for at in body}
    changed = True
    while changed:
        changed = False
        for at in sorted(body, reverse=True):
            step = body[at]
            after: set[int] = set()
            for follower in (step.next, step.target):
                if follower != header:
                    after |= live.get(follower or 0, set())
            now = set(step.reads) | (after - step.kills)
            if now != live[at]:
                live[at] = now
                changed = True
    return live.get(header, set())


def _counting(body: Mapping[int, Step], written: set[int]) -> set[int]:
    """Registers that say nothing but which turn it is: made of such registers and constants alone,
    and of what the loop does not change."""
    counting = set(written)
    while True:
        data = {
            register
            for step in body.values()
            for register in step.writes & counting
            if not _moves(step) or (step.reads - {FLAGS}) & written - counting
        }
        if not data:
            return counting
        counting -= data


def _moves(step: Step) -> bool:
    """Whether it adds or moves, registers and constants alone."""
    return step.instruction.mnemonic in _COUNTING and not any(
        part.reads or part.writes for part in step.memory
    )


def _name(register: int) -> str:
    values = vars(Register).items()
    return next((n.lower() for n, value in values if n.isupper() and value == register), "?")
