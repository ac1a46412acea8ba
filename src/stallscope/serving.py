# SPDX-License-Identifier: Apache-2.0
"""What the server tells of a folder of recordings: which there are, how those that are being made
come along, reports, and what another machine would make of them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from stallscope import machines, meta, processes
from stallscope.analyses.live import LiveView, live_objects
from stallscope.analyses.objects import MissView, objects
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.machines.keys import POLICIES
from stallscope.pipelines import CoreProbe, CoreView
from stallscope.record.so_far import SO_FAR, look
from stallscope.recording import STREAM, SUFFIX, Recording, is_sampled, open_recording
from stallscope.reporting import report
from stallscope.sampling import make_probe

DONE = "done"
LARGEST = 512 << 20  # bytes of a stream that is copied to look at it while it grows
OBJECTS = 30  # rows of a live picture or a comparison
CHANGEABLE = ("size", "ways", "policy", "latency")  # of a cache


class Desk:
    """Answers for one folder. Methods may be called from any thread; the engine works for one
    question at a time."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise StallscopeError(f"there is no folder {folder}")
        self.folder = folder
        self._busy = threading.Lock()
        self._reports: dict[tuple[str, int], dict[str, Any]] = {}
        self._live: dict[str, tuple[int, dict[str, Any]]] = {}

    def recordings(self) -> list[dict[str, Any]]:
        """The newest first; one that cannot be read says why."""
        rows = []
        for path in self.folder.glob(f"*{SUFFIX}"):
            if (path / meta.NAME).is_file():
                rows.append(_summary(path))
        return sorted(rows, key=lambda row: (row["created"], row["name"]), reverse=True)

    def _path(self, name: str) -> Path:
        """Only what is listed can be asked for: a name is never made into a path."""
        for path in self.folder.glob(f"*{SUFFIX}"):
            if path.name == name and (path / meta.NAME).is_file():
                return path
        raise StallscopeError(f"there is no recording {name} here")

    def report(self, name: str) -> dict[str, Any]:
        path = self._path(name)
        key = (name, (path / meta.NAME).stat().st_mtime_ns)
        with self._busy:
            if key not in self._reports:
                self._reports = {key: report(Recording(path))}  # one is enough, and large
            return self._reports[key]

    def live(self, name: str) -> dict[str, Any]:
        """How far a recording is: totals, and the objects so far where a trace is kept."""
        path = self._path(name)
        facts = meta.read(path)
        stream = path / STREAM
        size = stream.stat().st_size if stream.exists() else 0
        found: dict[str, Any] = {
            "name": name,
            "state": facts.state,
            "command": facts.command,
            "source": facts.source,
            "stream_bytes": size,
            "seconds": _age(facts.created),
        }
        if facts.state != DONE and is_sampled(facts):
            return found | self._sampled(path)
        if facts.state == DONE or not size or size > LARGEST:
            return found
        with self._busy:
            known = self._live.get(name)
            if known is None or known[0] != size:
                self._live = {name: (size, _so_far(path))}
            return found | self._live[name][1]

    def look(self, name: str) -> dict[str, Any]:
        """Somebody looks at a recording that is being made, and will for some seconds."""
        path = self._path(name)
        facts = meta.read(path)
        if facts.state != DONE and is_sampled(facts):
            look(path)
        return {}

    def _sampled(self, path: Path) -> dict[str, Any]:
        """Of a run at native speed, whose recorder writes what there is when somebody looks."""
        with self._busy, contextlib.suppress(StallscopeError, OSError):  # it is being exchanged
            self._live = {path.name: (0, _samples_so_far(Recording(path / SO_FAR)))}
        return self._live.get(path.name, (0, {}))[1]

    def machine(self, name: str) -> dict[str, Any]:
        """What can be changed of the machine that a recording was made with."""
        used = _machine(Recording(self._path(name)))
        return {
            "machine": used.name,
            "machines": [known.name for known in machines.available() if known.simulates],
            "policies": list(POLICIES),
            "caches": [
                {"name": cache.name} | {key: _shown(getattr(cache, key)) for key in CHANGEABLE}
                for cache in used.caches
            ],
        }

    def what_if(self, name: str, machine: str | None, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Misses and cycles on the machine as recorded, and on another or a changed one."""
        recording = Recording(self._path(name))
        if (
            machine is not None and machine not in machines.names()
        ):  # a file is none of its business
            raise StallscopeError(f"there is no machine {machine!r}", now="choose one of the list")
        with self._busy:
            return what_if(recording, machine=machine, changes=changes)


def what_if(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A recording on the machine as recorded, and on another one or with keys of it changed:
    changes={"l2.size": "4M", "l2.policy": "srrip"}. Misses by level and object, and cycles."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    before = _machine(opened)
    after = machines.load(machine) if machine else before
    if changes:
        after = after.with_values({key: str(value) for key, value in changes.items()})
    return {"before": _on(opened, before), "after": _on(opened, after)}


def _summary(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"name": path.name, "created": "", "error": ""}
    try:
        facts = meta.read(path)
    except StallscopeError as error:
        return row | {"error": error.what}
    stream = path / STREAM
    kept = ("created", "state", "command", "source", "machine", "trace", "instructions", "samples")
    return (
        row
        | {name: getattr(facts, name) for name in kept}
        | {
            "seconds": facts.seconds if facts.state == DONE else _age(facts.created),
            "stream_bytes": stream.stat().st_size if stream.exists() else 0,
        }
    )


def _age(created: str) -> float:
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(created)).total_seconds())


def _shown(value: Any) -> Any:
    return value if isinstance(value, int | str) else str(value)


@contextlib.contextmanager
def _snapshot(path: Path) -> Iterator[Recording]:
    """A recording as it is now. Results of half a stream must not be kept beside it, so they are
    made of a copy that goes away."""
    with tempfile.TemporaryDirectory(prefix="stallscope-live-") as folder:
        copy = Path(folder) / path.name
        copy.mkdir(mode=0o700)
        for file in (meta.NAME, STREAM):
            shutil.copyfile(path / file, copy / file)
        yield Recording(copy)


def _so_far(path: Path) -> dict[str, Any]:
    begin = time.monotonic()
    with _snapshot(path) as recording:
        facts = recording.meta
        found: dict[str, Any] = {
            "instructions": facts.instructions,
            "loads": facts.loads,
            "stores": facts.stores,
            "allocations": facts.allocations,
            "frees": facts.frees,
            "threads": facts.threads,
            "objects": [],
            "levels": [],
        }
        if facts.trace:
            with contextlib.suppress(StallscopeError):  # too early: nothing is known of it yet
                rows = objects(_view(recording, _machine(recording)))
                found["levels"] = msgspec.to_builtins(rows.levels)
                found["objects"] = msgspec.to_builtins(rows.rows[:OBJECTS])
    return found | {"took": time.monotonic() - begin}


def _samples_so_far(recording: Recording) -> dict[str, Any]:
    rows = live_objects(LiveView(recording, list(recording.processes())))
    return {
        "samples": rows.samples,
        "states": msgspec.to_builtins(rows.states),
        "threads": len(rows.threads),
        "objects": msgspec.to_builtins(rows.rows[:OBJECTS]),
        "levels": [],
    }


def _machine(recording: Recording) -> Machine:
    if is_sampled(recording.meta):
        raise StallscopeError(
            "samples of a real machine cannot be replayed",
            f"{recording.path.name} was recorded by --source {recording.meta.source}",
            "stallscope record --trace -- PROGRAM",
        )
    name = recording.meta.machine
    return machines.load(name if name != "none" else "default")


def _view(recording: Recording, machine: Machine) -> MissView:
    return MissView(processes.replay(recording, machine, machine.name, make_probe(machine), None))


def _on(recording: Recording, machine: Machine) -> dict[str, Any]:
    found = objects(_view(recording, machine))
    images = processes.choose(recording)
    cycles: int | None = None
    with contextlib.suppress(StallscopeError):  # without a trace there is no pipeline
        core = CoreView(recording, images, machine, machine.name, CoreProbe())
        cycles = sum(run.totals["cycles"] for run in core.runs)
    return {
        "machine": machine.name,
        "cycles": cycles,
        "misses": found.misses,
        "latency": sum(row.latency for row in found.rows),
        "levels": msgspec.to_builtins(found.levels),
        "objects": msgspec.to_builtins(found.rows[:OBJECTS]),
    }
