# SPDX-License-Identifier: Apache-2.0
"""Files of other tools as recordings: `import_trace("trace.csv")`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stallscope.errors import StallscopeError
from stallscope.record.importing import formats

if TYPE_CHECKING:
    from stallscope.recording import Recording

FORMATS = ("auto", *formats.NAMES)


@dataclass(frozen=True)
class Progress:
    fraction: float  # of the file
    accesses: int


@dataclass(frozen=True)
class Imported:
    """What `import_trace` gives back."""

    recording: Recording
    format: str
    warnings: tuple[str, ...]


def import_trace(
    file: str | Path,
    *,
    output: str | Path | None = None,
    force: bool = False,
    format: str = "auto",
    machine: str = "default",
    maps: str | Path | None = None,
    max_accesses: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Imported:
    """Make a recording of what another tool wrote.

    A trace of addresses (lackey, champsim, drmemtrace, csv, parquet) becomes a recording with a
    kept trace; `maps` is a copy of the program's /proc/PID/maps and gives names to what lies there.
    A perf.data file becomes a sampled recording. `max_accesses` stops reading early."""
    from stallscope import machines
    from stallscope.record.importing.maps import read_maps
    from stallscope.record.output import new_folder
    from stallscope.recording import Recording

    if format not in FORMATS:
        raise StallscopeError(
            f"--format {format}: there is no such format", f"there is: {', '.join(FORMATS)}"
        )
    if max_accesses < 0:
        raise StallscopeError("limits cannot be negative")
    path = Path(file)
    machines.load(machine)
    opened = formats.look(path, format)
    ranges = read_maps(Path(maps)) if maps is not None else []
    folder = new_folder(output, _stem(path), force)
    work = Work(path, opened.format, folder, machine, ranges, max_accesses, on_progress or _silent)
    try:
        warnings = _reader(opened.format)(work)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Imported(Recording(folder), opened.format, warnings)


@dataclass(frozen=True)
class Work:
    """One import being made."""

    path: Path
    format: str
    folder: Path
    machine: str
    maps: list[tuple[int, int, int, int, str]]
    max_accesses: int
    on_progress: Callable[[Progress], None]


def _reader(format: str) -> Callable[[Work], tuple[str, ...]]:
    if format == "perf":
        from stallscope.record.importing.perf import import_perf_data

        return import_perf_data
    from stallscope.record.importing.traces import import_addresses

    return import_addresses


def _stem(path: Path) -> str:
    """app.champsimtrace.xz and app.csv both name app."""
    return path.name.split(".")[0] or path.name


def _silent(progress: Progress) -> None:
    pass
