# SPDX-License-Identifier: Apache-2.0
"""What is watched, as the preloaded library and the capture tool are told: a line each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.watch_targets import Range, element_ranges, parse_address

FIXED = 2  # e_type of a program that lies where it says
BLOCKS = ("heap:", "past:")
_NAME = re.compile(r"([A-Za-z_$][\w$:]*)((?:\[(?:\*|\d+)\]|\.[A-Za-z_$][\w$]*)*)")
_CONDITION = re.compile(r"\s*value\s*(==|!=|<|>)\s*(0x[0-9a-fA-F]+|\d+)\s*")


def range_lines(program: Path, targets: Sequence[str], kind: int) -> list[str]:
    """Of addresses and variables of the program, before it runs; `kind`: 1 reads, 2 writes."""
    return [line for i, text in enumerate(targets) for line in _lines(program, text, i, kind)]


def _lines(program: Path, text: str, number: int, kind: int) -> list[str]:
    relative, found = program_ranges(program, text)
    word = "exe" if relative else "range"
    return [f"{word} {start:x} {end - start} {number} {kind}" for start, end in found]


def program_ranges(program: Path, text: str) -> tuple[bool, list[Range]]:
    """Whether they are relative to where the program is mapped, and the ranges."""
    if (given := parse_address(text)) is not None:
        return False, [given]
    match = None if text.startswith(BLOCKS) else _NAME.fullmatch(text)
    if match is None:
        raise StallscopeError(
            f"{text!r} cannot be watched while it runs",
            now="an address, a variable, table[*].count, or past:*",
        )
    known = _engine.Symbols(str(program)).variables()
    found = [row for row in known if row[0] == match[1]]
    if not found:
        raise StallscopeError(
            f"{program.name} has no variable {match[1]}",
            now=nearest(match[1], [row[0] for row in known]),
        )
    types = _engine.Types([(str(program), b"", 0, 0, 1 << 47)]) if match[2] else None
    ranges = [one for row in found for one in element_ranges(text, types, row[1], row[2], match[2])]
    return not is_fixed(program), ranges


def is_fixed(program: Path) -> bool:
    with program.open("rb") as file:
        return file.read(18)[16] == FIXED


def condition_of(text: str) -> tuple[str, int]:
    """Comparison (= ! < >) and number."""
    match = _CONDITION.fullmatch(text)
    number = int(match[2], 0) if match else 0
    if match is None or number >= 1 << 64:
        raise StallscopeError(f"--if {text}: not understood", now="--if 'value == 5'; also != < >")
    return match[1][0], number


def condition_line(text: str) -> str:
    return "if {} {}".format(*condition_of(text))
