# SPDX-License-Identifier: Apache-2.0
"""Which detectors lead to code that looks at data: a task finds it in a register, so this is a
question of whether the register is read before it is written, on any way through the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stallscope import _engine

DATA = 2  # the register
INSTRUCTION = 4
Code = Mapping[int, tuple[str, str, int, int, int, int]]  # address: name, format, operands


def code_of(scratch: bytes | bytearray, first: int) -> Code:
    forms = {name: form for name, form, *_ in _engine.monitor_instructions()}
    found = {}
    for at in range(first, len(scratch), INSTRUCTION):
        decoded = _engine.monitor_decode(int.from_bytes(scratch[at : at + INSTRUCTION], "little"))
        if decoded is not None:
            found[at] = (decoded[0], forms[decoded[0]], *decoded[1:])
    return found


def looking(code: Code) -> set[int]:
    """Addresses from which the data that a task began with is read."""
    found: set[int] = set()
    back = [at + INSTRUCTION for at, (name, _, rd, *_) in code.items() if name == "jal" and rd]
    while True:
        more = {
            at
            for at in code
            if _reads(code, at)
            or (not _writes(code, at) and any(to in found for to in _next(code, at, back)))
        }
        if more == found:
            return found
        found = more


def handlers(code: Code, declared: int | None, labels: Sequence[int], boot: int) -> list[int]:
    """Where a signal may lead: to its handler, or anywhere when code in front of `boot`, where the
    boot program that the assembler made begins, sets handlers itself."""
    if any(name == "wepm" and ra and at < boot for at, (name, _, _, ra, *_) in code.items()):
        return list(labels)
    return [] if declared is None else [declared]


def _reads(code: Code, at: int) -> bool:
    name, form, rd, ra, rb, _ = code[at]
    read = {
        "three": (ra, rb),
        "literal": (ra,),
        "memory": (ra, rd) if name == "st" else (ra,),
        "branch": (ra, rb),
        "reg": (ra,),
        "signal": (ra,),
        "act": (ra, rb),
    }.get(form, ())
    return DATA in read


def _writes(code: Code, at: int) -> bool:
    name, form, rd, *_ = code[at]
    return rd == DATA and form in ("three", "literal", "memory", "jump", "check") and name != "st"


def _next(code: Code, at: int, back: Sequence[int]) -> Sequence[int]:
    name, form, _, _, _, literal = code[at]
    behind, there = at + INSTRUCTION, at + INSTRUCTION * (literal + 1)
    if name == "pmhalt":
        return ()
    if name == "jr":
        return back
    if form == "jump":
        return (there,)
    return (behind, there) if form == "branch" else (behind,)
