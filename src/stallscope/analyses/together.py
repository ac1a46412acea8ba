# SPDX-License-Identifier: Apache-2.0
"""What two programs that share a machine's caches do to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FAR = ("memory", "remote memory")


@dataclass(frozen=True)
class ProgramRow:
    program: str
    instructions: int
    cycles_alone: int
    cycles_together: int
    slowdown: float  # 1: none
    memory_alone: int  # lines that came from memory
    memory_together: int
    sources_alone: dict[str, int]
    sources_together: dict[str, int]


@dataclass(frozen=True)
class Together:
    machine: str
    slice: int  # instructions of each in turn
    rows: list[ProgramRow]


def program_row(name: str, alone: Mapping[str, int], both: Mapping[str, int]) -> ProgramRow:
    """From cycles, instructions and fills by source."""

    def sources(facts: Mapping[str, int]) -> dict[str, int]:
        return {k: n for k, n in facts.items() if k not in ("cycles", "instructions") and n}

    return ProgramRow(
        program=name,
        instructions=alone["instructions"],
        cycles_alone=alone["cycles"],
        cycles_together=both["cycles"],
        slowdown=both["cycles"] / max(1, alone["cycles"]),
        memory_alone=sum(alone[source] for source in FAR),
        memory_together=sum(both[source] for source in FAR),
        sources_alone=sources(alone),
        sources_together=sources(both),
    )
