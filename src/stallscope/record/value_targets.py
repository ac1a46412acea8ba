# SPDX-License-Identifier: Apache-2.0
"""Memory whose values are kept beside a trace, in the words of stallscope watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope.record.watch_spec import program_ranges
from stallscope.watch_targets import Range, parse_blocks

ALL = "all"


@dataclass(frozen=True)
class ValueTargets:
    asked: tuple[str, ...]
    program: str
    ranges: tuple[tuple[int, int, int], ...] = ()  # first, behind, number of the target
    variables: tuple[tuple[int, int, int], ...] = ()  # by addresses of the program's file
    blocks: tuple[tuple[str, bool, int, int, int], ...] = ()  # text of the path, past, from, to

    def to_engine(self) -> dict[str, Any]:
        return {
            "count": len(self.asked),
            "program": self.program,
            "ranges": list(self.ranges),
            "variables": list(self.variables),
            "blocks": list(self.blocks),
        }


def value_targets(asked: Sequence[str], executable: Path) -> ValueTargets | None:
    """None for all of memory. An error for a word that can mean nothing before the program runs;
    whether heap blocks are made by such a function shows then."""
    if ALL in asked:
        return None
    ranges: list[tuple[int, int, int]] = []
    variables: list[tuple[int, int, int]] = []
    blocks = []
    for number, text in enumerate(asked):
        if (heap := parse_blocks(text)) is not None:
            path = "" if heap.function == "*" else heap.function
            blocks.append((path, heap.past, heap.start, heap.end, number))
            continue
        relative, found = program_ranges(executable, text)
        into = variables if relative else ranges
        into += [(start, end, number) for start, end in joined(found)]
    return ValueTargets(
        tuple(asked), str(executable), tuple(ranges), tuple(variables), tuple(blocks)
    )


def joined(ranges: Sequence[Range]) -> list[Range]:
    """In order, and those that touch as one: the elements of an array are its bytes."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def said_of(asked: Sequence[str]) -> str:
    """What `quality` notes."""
    where = "" if ALL in asked else f" in {', '.join(asked)}"
    return (
        f"values.ss holds what the program read and wrote{where}, secrets included: --values asked "
        "for it"
    )
