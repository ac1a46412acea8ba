# SPDX-License-Identifier: Apache-2.0
"""What each cache and TLB of a machine did with a recording."""

from __future__ import annotations

from dataclasses import dataclass

from stallscope.analyses.objects import LevelRow, MissView, Process
from stallscope.showing import Shown


@dataclass(frozen=True)
class Levels(Shown):
    recording: str
    machine: str
    instructions: int
    accesses: int
    processes: list[Process]
    rows: list[LevelRow]


def levels(view: MissView) -> Levels:
    result = view.replay.result
    return Levels(
        str(view.replay.recording.path),
        result.machine_name,
        view.instructions,
        view.accesses,
        view.processes(),
        view.level_rows(),
    )
