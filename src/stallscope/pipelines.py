# SPDX-License-Identifier: Apache-2.0
"""Recordings on a simulated core: computed once and kept below results/, as other replays are."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import __version__, _engine, machines, meta, processes, results
from stallscope.analyses.stalls import SHOWN
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.machines.fault import nearest
from stallscope.recording import STREAM, Recording, is_sampled, open_recording
from stallscope.scale.pieces import WARMUP, InPieces, core_in_pieces

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 3  # of the model and its tables; what an earlier one left is computed again
MODES = ("real", "single", "inorder")
OnSlice = Callable[[dict[str, int]], None]  # called with the counts of each slice when it ends


# Sites or none; address, size and element; (base, stride) of groups; (start, size, group, to) of
# parts: engine/session/reshape.h says what they mean.
Groups = tuple[tuple[int, int], ...]
Parts = tuple[tuple[int, int, int, int], ...]
Shape = tuple[tuple[int, ...], int, int, int, Groups, Parts]


class CoreProbe(msgspec.Struct, frozen=True):
    """How a core runs, and what is looked at meanwhile."""

    mode: str = "real"
    without: tuple[str, ...] = ()  # causes that are made ideal
    objects: bool = False  # stalls also by the data that was accessed
    slice: int = 0  # cycles or instructions after which counters are read; 0: only in the end
    by_instructions: bool = False
    switch_cycles: int = 0  # that each such reading costs
    switch_lines: int = 0  # of the data cache that it touches
    # Data lies elsewhere: by a policy of the near allocator, or in other shapes.
    policy: str = ""
    sites: tuple[tuple[int, str, int], ...] = ()
    shapes: tuple[Shape, ...] = ()
    # Or a nest of loops, (first, last) instruction of each, runs in tiles of so many turns.
    tiled: tuple[tuple[int, int], ...] = ()
    tile: int = 0
    # In so many pieces of time by several workers, each warmed up by so many instructions.
    pieces: int = 1
    warmup: int = WARMUP


class CoreResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stallscope: str
    recording: str
    machine: dict[str, Any]
    machine_name: str
    core: dict[str, Any]
    probe: CoreProbe
    switch_cycles: int
    truncated: bool
    files: dict[str, meta.File]
    in_pieces: InPieces | None = None


class CoreRun:
    """One process image on one core: the tables stall, stall_object, stall_source, core_count."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self.recording = recording
        self.folder = folder
        document = (folder / results.NAME).read_bytes()
        self.result = msgspec.json.decode(document, type=CoreResult)

    def table(self, name: str) -> pa.Table:
        return results.kept_table(self.folder, self.result.files, name)

    @functools.cached_property
    def totals(self) -> dict[str, int]:
        """What was counted in all, by event."""
        return self.series("total")[0][1]

    def series(self, name: str) -> list[tuple[int, dict[str, int]]]:
        """(thread, {event: count}) for each row of a series: total, time, thread or slice."""
        import pyarrow.compute as pc

        found = self.table("core_count")
        found = found.filter(pc.equal(found.column("series"), name))
        names = _event_names()
        counts = found.column("count").to_pylist()
        threads = found.column("thread").to_pylist()
        width = len(names)
        return [
            (threads[at], dict(zip(names, counts[at : at + width], strict=True)))
            for at in range(0, len(counts), width)
        ]


def _event_names() -> list[str]:
    return [entry[0] for entry in _engine.core_events()]


def check_probe(probe: CoreProbe) -> None:
    _check_pieces(probe)
    if probe.mode not in MODES:
        raise StallscopeError(
            f"there is no mode {probe.mode!r}",
            f"there is: {', '.join(MODES)}",
            nearest(probe.mode, list(MODES)),
        )
    for cause in probe.without:
        if cause not in SHOWN:
            raise StallscopeError(
                f"there is no cause {cause!r}",
                f"there is: {', '.join(SHOWN)}",
                nearest(cause, list(SHOWN)),
            )


def _check_pieces(probe: CoreProbe) -> None:
    if probe.pieces < 1 or probe.warmup < 0:
        raise StallscopeError(
            f"a trace in {probe.pieces} pieces, warmed up by {probe.warmup} instructions",
            "at least 1 and 0",
        )
    if probe.pieces > 1 and (probe.slice or probe.policy or probe.shapes or probe.tiled):
        raise StallscopeError(
            "a run in pieces has no slices, moves no data and tiles no loops",
            now="run it in one piece",
        )


def run(
    recording: Recording,
    machine: Machine,
    machine_name: str,
    probe: CoreProbe,
    on_slice: OnSlice | None = None,
) -> CoreRun:
    """What a core makes of one image: kept, or by replaying the trace."""
    check_probe(probe)
    core = machine.core.to_engine()
    parts = (
        results.identity(recording.meta),
        machine.digest(),
        msgspec.json.encode(core, order="sorted"),
        msgspec.json.encode(probe),
        __version__,
        FORMAT,
    )
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
    folder = recording.path / results.FOLDER / f"core-{key}"
    kept = (folder / results.NAME).exists()
    if not kept:
        found = _replay(recording, machine, core, probe, on_slice)

        def result(files: dict[str, meta.File]) -> CoreResult:
            return CoreResult(
                stallscope=__version__,
                recording=results.identity(recording.meta),
                machine=machine.to_engine(),
                machine_name=machine_name,
                core=core,
                probe=probe,
                switch_cycles=found["switch_cycles"],
                truncated=found["truncated"],
                files=files,
                in_pieces=found.get("in_pieces"),
            )

        results.keep(folder, found["tables"], result)
    ran = CoreRun(recording, folder)
    if kept and on_slice is not None:
        for _, counts in ran.series("slice"):
            on_slice(counts)
    return ran


def _replay(
    recording: Recording,
    machine: Machine,
    core: dict[str, Any],
    probe: CoreProbe,
    on_slice: OnSlice | None,
) -> dict[str, Any]:
    if not recording.meta.trace:
        raise results.NoTrace(
            f"{recording.path.name} has no trace to replay",
            "a core needs every instruction, and it was recorded without --trace",
            "stallscope record --trace -- PROGRAM",
        )
    causes = _engine.stall_causes()
    options = {
        "mode": probe.mode,
        "ideal": sum(1 << causes.index(cause) for cause in set(probe.without)),
        "objects": probe.objects,
        "slice": probe.slice,
        "by_instructions": probe.by_instructions,
        "switch_cycles": probe.switch_cycles,
        "switch_lines": probe.switch_lines,
        "policy": probe.policy,
        "sites": list(probe.sites),
        "tiled": list(probe.tiled),
        "tile": probe.tile,
        "shapes": [(list(shape[0]), *shape[1:4], *map(list, shape[4:])) for shape in probe.shapes],
    }
    placed = list(results.placed(recording)) if probe.objects else []
    if probe.pieces > 1:
        split = {"pieces": probe.pieces, "warmup": probe.warmup}
        return core_in_pieces(recording, machine.to_engine(), core, options, placed, **split)
    stream = str(recording.path / STREAM)
    names = _event_names()

    def tell(counts: list[int]) -> None:
        assert on_slice is not None
        on_slice(dict(zip(names, counts, strict=True)))

    told = None if on_slice is None else tell
    try:
        found: dict[str, Any] = _engine.stalls(
            stream, machine.to_engine(), core, options, placed, told
        )
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    return found


class CoreView:
    """The chosen images of a recording on one core. Every image has a core of its own."""

    def __init__(
        self,
        recording: Recording,
        images: Sequence[Recording],
        machine: Machine,
        machine_name: str,
        probe: CoreProbe,
        on_slice: OnSlice | None = None,
    ) -> None:
        self.recording = recording
        self._on_slice = on_slice
        self.machine, self.machine_name = machine, machine_name
        self.probe = probe
        self._images = list(images)
        self.left_out: list[Recording] = []
        check_probe(probe)

    @functools.cached_property
    def runs(self) -> list[CoreRun]:
        """Made when they are first asked for."""
        found, refused = [], []
        for image in self._images:
            try:
                ran = run(image, self.machine, self.machine_name, self.probe, self._on_slice)
                found.append(ran)
            except results.NoTrace as error:
                refused.append((image, error))
        if not found:
            raise refused[0][1]
        self.left_out = [image for image, _ in refused]
        return found

    def but(self, *, on_slice: OnSlice | None = None, **changes: Any) -> CoreView:
        """The same with another probe."""
        probe = msgspec.structs.replace(self.probe, **changes)
        return CoreView(
            self.recording, self._images, self.machine, self.machine_name, probe, on_slice
        )


def core_view(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    **probe: Any,
) -> CoreView:
    """A recording (the newest here when not told) on the core of a machine (as recorded)."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    if is_sampled(opened.meta):
        raise StallscopeError(
            "a core needs every instruction",
            f"{opened.path.name} was recorded by --source {opened.meta.source}",
            "stallscope record --trace -- PROGRAM",
        )
    name = machine or (opened.meta.machine if opened.meta.machine != "none" else "default")
    model = machines.load(name)
    if not model.simulates:
        raise StallscopeError(f"the machine {name} simulates nothing", now="--machine default")
    images = processes.choose(opened, process)
    return CoreView(opened, images, model, name, CoreProbe(**probe))
