# SPDX-License-Identifier: Apache-2.0
"""What a recording at native speed keeps: the engine's tables with what is known about the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import __version__, _engine, meta, tables
from stallscope.errors import StallscopeError
from stallscope.meta import Meta
from stallscope.record.life import Progress, ending, host_facts, moment
from stallscope.record.writer import Quality, make_folder, write_tables
from stallscope.recording import CHILDREN

if TYPE_CHECKING:
    import pyarrow as pa

OWN_FAILURE = 125


@dataclass(frozen=True)
class Wanted:
    """How a run at native speed is sampled."""

    source: str
    rate: int  # samples a second
    children: bool = True
    min_latency: int = 0  # cycles, of precise loads; 0: as the kernel suggests
    watch: int = 0  # bytes of the granules that are put under breakpoints; 0: none are
    seed: int = 1

    def described(self) -> dict[str, Any]:
        more = {"min_latency": self.min_latency} if self.source == "perf" else {}
        more |= {"watch": self.watch, "seed": self.seed} if self.watch else {}
        return {"rate": self.rate, "children": self.children, **more}


@dataclass
class Run:
    """One recording being made."""

    folder: Path
    command: list[str]
    wanted: Wanted
    heap_logs: Path | None  # folder
    described: dict[str, Any]
    on_progress: Callable[[Progress], None]
    attached: bool  # it ran already, and may go on
    symbols: _engine.SymbolCache = field(default_factory=_engine.SymbolCache)
    started: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float | None = None
    status: int | None = None  # of the process, as waitpid gives it; None when it is not ours
    commands: dict[str, list[str]] = field(default_factory=dict)  # of images, while they lived
    failure: StallscopeError | None = None

    def engine_options(self) -> dict[str, Any]:
        return {
            "rate": self.wanted.rate,
            "children": self.wanted.children,
            "loads": self.wanted.source == "perf",
            "min_latency": self.wanted.min_latency,
            "watch": self.wanted.watch,
            "seed": self.wanted.seed,
            "heap_logs": "" if self.heap_logs is None else str(self.heap_logs),
        }


@dataclass(frozen=True)
class Image:
    """One process image: may be asked what a Recording may, also while the process runs."""

    meta: Meta
    path: Path
    columns: dict[str, tables.Columns]

    def table(self, name: str) -> pa.Table:
        return tables.to_arrow(name, self.columns[name])


def opening(run: Run) -> Meta:
    """What is known before anything was seen."""
    return Meta(
        format_version=tables.schemas().format_version,
        stallscope=__version__,
        state="recording",
        name="",
        parent=None,
        command=run.command,
        folder=meta.as_text(str(Path.cwd())),
        created=moment(),
        source=run.wanted.source,
        machine="none",
        options=run.described,
        host={},
        counted=False,
        sample_period=round(1e9 / run.wanted.rate) if run.wanted.source == "clock" else 0,
    )


def images_of(run: Run, live: _engine.Live) -> list[Image]:
    """All of them so far; the first is the process itself."""
    known = msgspec.structs.replace(
        opening(run), options=run.described | {"skid": live.skid} | _watching(live)
    )
    found = []
    for number, image in enumerate(live.images()):
        folder = run.folder if number == 0 else run.folder / CHILDREN / image["name"]
        facts = _facts(run, image, known, is_root=number == 0)
        if number == 0:
            facts = msgspec.structs.replace(facts, lost_samples=live.lost)
        found.append(Image(facts, folder, image["tables"]))
    return found


def _watching(live: _engine.Live) -> dict[str, int]:
    return {"touch_cost_ns": live.touch_cost} if live.touch_cost else {}


def write(run: Run, images: Sequence[Image], live: _engine.Live) -> None:
    """A disk that refuses loses the recording, never the target."""
    if not images:
        raise StallscopeError(
            f"nothing was seen of {run.command[0]}", now="stallscope doctor", status=OWN_FAILURE
        )
    try:
        host = host_facts()
        for number, image in enumerate(images):
            if number:
                make_folder(image.path)
            quality = _quality(live) if number == 0 else []
            facts = msgspec.structs.replace(image.meta, host=host)
            write_tables(image.path, facts, image.columns, quality)
    except OSError as error:
        run.failure = StallscopeError(
            "the recording could not be written",
            error.strerror or str(error),
            "free some space, or record to another disk with -o",
            status=OWN_FAILURE,
        )


def _facts(run: Run, image: dict[str, Any], opening: Meta, *, is_root: bool) -> Meta:
    facts = msgspec.structs.replace(
        opening,
        name=image["name"],
        parent=None if is_root else image["parent"] or None,
        command=run.command if is_root else run.commands.get(image["name"], []),
        created=moment(image["started_ns"]),
        pid=image["pid"],
        forked=image["forked"],
        complete=True,
        threads=len(image["tables"]["thread"]["thread"]),
        allocations=image["allocations"],
        samples=image["samples"],
        seconds=(image["ended_ns"] - image["started_ns"]) / 1e9,
    )
    if is_root:
        facts = msgspec.structs.replace(
            facts, seconds=run.seconds, cpu_seconds=run.cpu_seconds, **ending(run.status)
        )
    return facts


def _quality(live: _engine.Live) -> list[Quality]:
    found = []
    if live.lost:
        share = live.lost / max(1, live.lost + live.samples)
        found.append(
            Quality(
                "lost_samples",
                "warning" if share > 0.01 else "info",
                "the kernel's buffer was full, and samples were lost",
                live.lost,
            )
        )
    if live.damaged:
        found.append(
            Quality("damaged", "warning", "records of the kernel made no sense", live.damaged)
        )
    if live.refused:
        found.append(
            Quality(
                "breakpoints",
                "info",
                "breakpoints could not be set: a debugger or another watcher has them",
                live.refused,
            )
        )
    if not live.sees_kernel:
        found.append(
            Quality("no_kernel", "info", "this user may not sample the kernel: no time in it shows")
        )
    return found
