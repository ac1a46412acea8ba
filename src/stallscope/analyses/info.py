# SPDX-License-Identifier: Apache-2.0
"""What was run, how it ended, and how much it did, over the whole process tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope.showing import Shown

if TYPE_CHECKING:
    from stallscope.recording import Recording


@dataclass(frozen=True)
class ProcessRow:
    name: str
    parent: str | None
    pid: int
    command: list[str]
    forked: bool
    ending: str
    exit_code: int | None
    signal: int | None
    complete: bool
    threads: int
    instructions: int
    loads: int
    stores: int
    allocations: int
    frees: int
    peak_heap_bytes: int
    seconds: float | None
    stream_bytes: int
    samples: int


@dataclass(frozen=True)
class Info(Shown):
    recording: str
    command: list[str]
    folder: str
    created: str
    stallscope: str
    source: str
    machine: str
    trace: bool
    host: dict[str, Any]
    options: dict[str, Any]
    ending: str
    exit_code: int | None
    signal: int | None
    complete: bool
    truncated: bool  # a process was killed or still runs, or its recorder was stopped
    recovered: bool  # the recorder was stopped: what there is was read from the stream
    threads: int
    instructions: int
    loads: int
    stores: int
    allocations: int
    frees: int
    seconds: float | None
    stream_bytes: int
    samples: int  # of recordings at native speed
    lost_samples: int
    processes: list[ProcessRow]
    thread_rows: list[dict[str, Any]]
    modules: list[dict[str, Any]]
    quality: list[dict[str, Any]]


def info(recording: Recording) -> Info:
    """Totals cover the whole tree; each process image has its row."""
    images = list(recording.processes())
    metas = [image.meta for image in images]
    root = recording.meta
    last = [m for m in metas if m.pid == root.pid][-1]  # of the images that exec gave the target

    def total(name: str) -> int:
        return sum(getattr(m, name) for m in metas)

    return Info(
        recording=str(recording.path),
        command=root.command,
        folder=root.folder,
        created=root.created,
        stallscope=root.stallscope,
        source=root.source,
        machine=root.machine,
        trace=root.trace,
        host=root.host,
        options=root.options,
        ending=last.ending,
        exit_code=last.exit_code,
        signal=last.signal,
        complete=all(m.complete for m in metas),
        truncated=not all(m.complete for m in metas),
        recovered=any(image.recovered is not None for image in images),
        threads=total("threads"),
        instructions=total("instructions"),
        loads=total("loads"),
        stores=total("stores"),
        allocations=total("allocations"),
        frees=total("frees"),
        seconds=root.seconds,
        stream_bytes=total("stream_bytes"),
        samples=total("samples"),
        lost_samples=total("lost_samples"),
        processes=[_process_row(m) for m in metas],
        thread_rows=_rows(images, "thread"),
        modules=_modules(images),
        quality=_rows(images, "quality"),
    )


def _process_row(meta: Any) -> ProcessRow:
    return ProcessRow(**{name: getattr(meta, name) for name in ProcessRow.__dataclass_fields__})


def _rows(images: list[Recording], table: str) -> list[dict[str, Any]]:
    return [
        {"process": image.meta.name, **row}
        for image in images
        for row in image.table(table).to_pylist()
    ]


def _modules(images: list[Recording]) -> list[dict[str, Any]]:
    """Each file once, with the number of process images that mapped it."""
    found: dict[tuple[str, str], int] = {}
    for image in images:
        table = image.table("module")
        names = {(row["path"], row["build_id"]) for row in table.to_pylist()}
        for name in names:
            found[name] = found.get(name, 0) + 1
    return [
        {"path": path, "build_id": build_id, "processes": count}
        for (path, build_id), count in sorted(found.items())
    ]
