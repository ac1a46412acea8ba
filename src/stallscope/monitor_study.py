# SPDX-License-Identifier: Apache-2.0
"""What the first study of monitor cores measured, here: which protocol suits which program, what a
monitor that chooses gains, and what keeping memory-bound programs apart gains."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from stallscope import threaded
from stallscope.systems import System

COMBINED = ("ring", "particles", "lu")  # unlike programs, one after the other
ADAPTIVE, VERDICTS = "adaptive-coherence", "memory-bound"
SLICE = 50_000  # cycles
RECORDINGS = 7  # of which the middle one counts: how threads meet differs from one to the next
# Sized so that each takes as long alone.
OCEAN, WATER = (514, 1), (320, 48)
CALM = ("water", "lu")  # programs of which none is memory-bound


@dataclass(frozen=True)
class ProtocolRow:
    """Cycles of one program, or of several one after the other."""

    program: str
    moesi: int
    dragon: int
    oracle: int  # the better one for each program
    adaptive: int  # begun with the worse one
    began: str
    switches: int
    signals: int
    dropped: int
    monitor_busy: float
    illegal: int
    idle_same: bool  # as many cycles with a monitor that watches nothing

    @property
    def best(self) -> int:
        return min(self.moesi, self.dragon)


@dataclass(frozen=True)
class Schedule:
    ocean_alone: int
    water_alone: int
    plain: int
    memory_bound: int
    gain: float
    gains: tuple[float, ...]  # of all recordings, least first
    together_plain: int  # cycles that two or more memory-bound threads ran
    together: int
    calm_plain: int
    calm_memory_bound: int
    overhead: float


@dataclass(frozen=True)
class Study:
    rows: tuple[ProtocolRow, ...]
    oracle_gain: float  # over the better fixed protocol, of the combined run
    adaptive_gain: float
    schedule: Schedule


def protocols(name: str, system: System, oracle: int | None = None) -> ProtocolRow:
    """Both protocols, then the monitor from the worse one."""
    fixed = {p: system.run(protocol=p, sequential=True).cycles for p in ("moesi", "dragon")}
    worse = max(fixed, key=lambda p: fixed[p])
    idle = system.run(["idle"], protocol=worse, sequential=True)
    ran = system.run([ADAPTIVE], protocol=worse, sequential=True, check=True)
    return ProtocolRow(
        program=name,
        moesi=fixed["moesi"],
        dragon=fixed["dragon"],
        oracle=min(fixed.values()) if oracle is None else oracle,
        adaptive=ran.cycles,
        began=worse,
        switches=ran.switches,
        signals=ran.signals,
        dropped=ran.dropped,
        monitor_busy=ran.monitor_busy,
        illegal=ran.counts["illegal"],
        idle_same=idle.cycles == fixed[worse],
    )


def combined(folder: Path, best: dict[str, int]) -> ProtocolRow:
    """`best`: by program, 0 for MOESI and 1 for Dragon."""
    system = System([threaded.record(name, folder) for name in COMBINED])
    oracle = system.run(sequential=True, protocols=[best[name] for name in COMBINED]).cycles
    return protocols("combined", system, oracle)


def schedule(folder: Path) -> Schedule:
    """Of several recordings, the one with the middle gain."""
    made = [_scheduled(folder / f"schedule-{number}") for number in range(RECORDINGS)]
    made.sort(key=lambda one: one.gain)
    return replace(made[len(made) // 2], gains=tuple(one.gain for one in made))


def _scheduled(folder: Path) -> Schedule:
    folder.mkdir(exist_ok=True)
    ocean, water = threaded.record("ocean", folder, OCEAN), threaded.record("water", folder, WATER)
    alone = [System([one]).run().cycles for one in (ocean, water)]
    both = System([ocean, water])
    plain = both.run([VERDICTS], slice=SLICE)
    kept = both.run([VERDICTS], slice=SLICE, memory_bound=True)
    calm = System([threaded.record(name, folder) for name in CALM])
    calm_plain = calm.run([VERDICTS], slice=SLICE).cycles
    calm_kept = calm.run([VERDICTS], slice=SLICE, memory_bound=True).cycles
    gain = 1 - kept.cycles / plain.cycles
    return Schedule(
        ocean_alone=alone[0],
        water_alone=alone[1],
        plain=plain.cycles,
        memory_bound=kept.cycles,
        gain=gain,
        gains=(gain,),
        together_plain=plain.counts["together"],
        together=kept.counts["together"],
        calm_plain=calm_plain,
        calm_memory_bound=calm_kept,
        overhead=calm_kept / calm_plain - 1,
    )


def reproduce(folder: Path | None = None) -> Study:
    """Builds and records the threaded workloads, and runs them."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return reproduce(Path(made))
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    best = {}
    for program in threaded.PROGRAMS:
        row = protocols(program.name, System([threaded.record(program.name, folder)]))
        best[program.name] = int(row.dragon < row.moesi)
        rows.append(row)
    last = combined(folder, best)
    return Study(
        rows=(*rows, last),
        oracle_gain=1 - last.oracle / last.best,
        adaptive_gain=1 - last.adaptive / last.best,
        schedule=schedule(folder),
    )
