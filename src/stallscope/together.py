# SPDX-License-Identifier: Apache-2.0
"""Two programs on one machine: who slows whom, by replaying their traces in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stallscope import _engine, clustering, machines, results
from stallscope.analyses.together import ProgramRow, Together, program_row
from stallscope.cores import CoresProbe
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.recording import STREAM, Recording, is_sampled, open_recording

SLICE = 1000  # instructions that each program runs in turn


def together(
    first: Recording | str | Path,
    second: Recording | str | Path,
    *,
    machine: str | Machine = clustering.MACHINE,
    slice: int = SLICE,
) -> Together:
    """Each alone on the machine, and both at once, on neighbouring cores of the same chips."""
    if slice < 1:
        raise StallscopeError("--slice must be at least 1 instruction")
    made = machine if isinstance(machine, Machine) else machines.load(machine)
    opened = [_with_trace(one) for one in (first, second)]
    probe = CoresProbe(grain=0).to_engine()
    chips, config = made.chips.to_engine(), made.to_engine()
    streams = [str(one.path / STREAM) for one in opened]
    placed = [list(results.placed(one)) for one in opened]
    try:
        alone = [
            _engine.share(stream, config, chips, probe, rows)
            for stream, rows in zip(streams, placed, strict=True)
        ]
        both = _engine.share_together(
            streams[0], streams[1], config, chips, probe, slice, placed[0], placed[1]
        )
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    names = _engine.fill_sources()
    rows: list[ProgramRow] = [
        program_row(one.path.name, _facts(before, names), _facts(after, names))
        for one, before, after in zip(opened, alone, both, strict=True)
    ]
    return Together(machine=made.name, slice=slice, rows=rows)


def _facts(found: dict[str, Any], names: list[str]) -> dict[str, int]:
    """Cycles, instructions, and fills by source."""
    facts = {"cycles": sum(found["context_cycles"]), "instructions": found["instructions"]}
    facts |= dict.fromkeys(names, 0)
    table = found["tables"]["fill"]
    for source, count in zip(table["source"], table["count"], strict=True):
        facts[names[source]] += count
    return facts


def _with_trace(given: Recording | str | Path) -> Recording:
    opened = given if isinstance(given, Recording) else open_recording(given)
    if is_sampled(opened.meta) or not opened.meta.trace:
        raise results.NoTrace(
            f"{opened.path.name} has no trace to replay",
            now="stallscope record --trace -- PROGRAM",
        )
    return opened
