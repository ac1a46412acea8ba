# SPDX-License-Identifier: Apache-2.0
"""Recordings in the formats of other tools."""

from __future__ import annotations

import importlib
from pathlib import Path, PurePath
from typing import Any

from stallscope.analyses import export as analysis
from stallscope.analyses.export import Counter, Export, Level
from stallscope.analyses.live import LiveView
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.recording import Recording, open_recording
from stallscope.viewing import view

# Each is a module of views/exports with a function `render`; what reads it.
FORMATS = {
    "perfetto": "trace JSON: ui.perfetto.dev, chrome://tracing",
    "pprof": "gzipped protobuf: pprof, and what reads its profiles",
    "speedscope": "speedscope.app",
    "callgrind": "callgrind_annotate, KCachegrind",
    "firefox": "profiler.firefox.com",
    "csv": "spreadsheets",
    "parquet": "pandas, Polars, DuckDB",
    "openmetrics": "Prometheus and its kin",
}


def export(
    recording: Recording | str | Path | None = None,
    *,
    format: str,
    output: str | Path,
    anonymize: bool = False,
    force: bool = False,
    machine: str | None = None,
    process: str | int | None = None,
    **options: Any,
) -> Path:
    """Writes a recording (the newest here when not told) in one of FORMATS; with `anonymize`
    without any name, path or word of the command that comes from the program."""
    if format not in FORMATS:
        raise StallscopeError(
            f"--format {format}: there is no such format",
            f"there is: {', '.join(FORMATS)}",
            nearest(format, list(FORMATS)),
        )
    path = Path(output)
    if path.exists() and not force:
        raise StallscopeError(f"{path} exists already", now="-f to overwrite it")
    found = exported(recording, machine=machine, process=process, **options)
    if anonymize:
        found = analysis.anonymous(found)
    made: bytes = importlib.import_module(f"stallscope.views.exports.{format}").render(found)
    try:
        path.write_bytes(made)
    except OSError as error:
        raise StallscopeError(f"cannot write {path}", error.strerror or "") from error
    return path


def exported(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    **options: Any,
) -> Export:
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    seen = view(opened, machine=machine, process=process, **options)
    meta, live = opened.meta, isinstance(seen, LiveView)
    threads = opened.table("thread").to_pylist()
    events = opened.table("event").to_pylist()
    end = max([meta.instructions, *(t["ended"] or 0 for t in threads)])
    counters: list[Counter] = []
    if not live:
        counters.append(analysis.heap_over_time(opened.table("object").to_pylist(), end))
    return Export(
        program=PurePath((meta.command or [meta.name])[0]).name,
        command=list(meta.command),
        created=meta.created,
        machine="this machine" if isinstance(seen, LiveView) else seen.replay.result.machine_name,
        misses_unit="samples" if isinstance(seen, LiveView) else f"{seen.event_name} misses",
        latency_unit="samples" if live else "cycles",
        time_unit="nanoseconds" if live else "instructions",
        instructions=meta.instructions,
        pid=meta.pid,
        levels=[]
        if isinstance(seen, LiveView)
        else [Level(r.level, r.kind, r.accesses, r.misses) for r in seen.level_rows()],
        threads={t["thread"]: t["name"] or f"thread {t['thread']}" for t in threads},
        spots=analysis.spots(seen),
        spans=analysis.spans(threads, events, end),
        counters=counters,
    )
