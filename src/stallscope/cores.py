# SPDX-License-Identifier: Apache-2.0
"""Recordings on a machine of several cores: computed once and kept below results/."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import __version__, _engine, meta, results
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.recording import STREAM, Recording

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2  # of the model and its tables; what an earlier one left is computed again
REMOTE = ("remote cache", "remote outer")
Pairs = tuple[tuple[int, int], ...]


class CoresProbe(msgspec.Struct, frozen=True):
    """Where threads run and data lies, and what is looked at meanwhile."""

    placement: Pairs = ()  # thread, hardware thread; the others go where the fewest are
    rotate: int = 0  # instructions after which threads change chips; 0: they stay
    seed: int = 1
    grain: int = 10  # blocks after which threads that may run together alternate; 0: never
    shift: int = 0  # bytes that all data lies further on
    sample: bool = False  # misses that wanted sources served
    exact: bool = True  # or the last miss when the counter's overflow is noticed
    skid: int = 10  # instructions until it is
    period: int = 10  # one in so many on average; 0: by `interval`
    interval: int = 1000  # instructions between samples that are aimed at
    criteria: tuple[tuple[str, ...], ...] = ()  # wanted sources; several sets take turns
    slice: int = 100_000  # instructions of such a turn
    cost: int = 0  # cycles of a sample
    followed: tuple[int, ...] = ()  # lines of which every access is wanted
    moved: tuple[tuple[int, tuple[int, ...]], ...] = ()  # 64 bytes, and where their words lie
    pages: Pairs = ()  # address, chip

    def to_engine(self) -> dict[str, Any]:
        names = _engine.fill_sources()
        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        for name in ("placement", "followed", "moved", "pages"):
            plain[name] = list(plain[name])
        plain["criteria"] = [sum(1 << names.index(s) for s in set(c)) for c in self.criteria]
        return plain


class CoresResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stallscope: str
    recording: str
    machine: dict[str, Any]
    chips: dict[str, Any]
    machine_name: str
    probe: CoresProbe
    instructions: int
    accesses: int
    samples: int
    handler_cycles: int
    context_cycles: tuple[int, ...]  # by hardware thread
    placement: Pairs  # of all threads, as it was in the end
    events: dict[str, int]
    truncated: bool
    files: dict[str, meta.File]


class CoresRun:
    """One process image on one machine: the tables fill, shared_line, shared_sample, …"""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self.recording = recording
        self.folder = folder
        document = (folder / results.NAME).read_bytes()
        self.result = msgspec.json.decode(document, type=CoresResult)

    def table(self, name: str) -> pa.Table:
        return results.kept_table(self.folder, self.result.files, name)

    @functools.cached_property
    def fills(self) -> dict[tuple[int, str], tuple[int, int]]:
        """Count and cycles by thread and source."""
        names = _engine.fill_sources()
        return {
            (row["thread"], names[row["source"]]): (row["count"], row["cycles"])
            for row in self.table("fill").to_pylist()
        }

    def count(self, *sources: str) -> int:
        return sum(count for (_, source), (count, _) in self.fills.items() if source in sources)

    def waited(self, *sources: str) -> int:
        return sum(cycles for (_, source), (_, cycles) in self.fills.items() if source in sources)

    @property
    def remote_misses(self) -> int:
        """Lines that came from another chip's caches."""
        return self.count(*REMOTE)

    @property
    def cycles(self) -> int:
        """Of all hardware threads together."""
        return sum(self.result.context_cycles)

    @property
    def busiest(self) -> int:
        """Cycles of the hardware thread that has most to do."""
        return max(self.result.context_cycles)


def run(recording: Recording, machine: Machine, machine_name: str, probe: CoresProbe) -> CoresRun:
    """What a machine of several cores makes of one image: kept, or by replaying the trace."""
    chips = machine.chips.to_engine()
    parts = (
        results.identity(recording.meta),
        machine.digest(),
        msgspec.json.encode(chips, order="sorted"),
        msgspec.json.encode(probe),
        __version__,
        FORMAT,
    )
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
    folder = recording.path / results.FOLDER / f"cores-{key}"
    if not (folder / results.NAME).exists():
        found = replay(recording, machine, probe)

        def result(files: dict[str, meta.File]) -> CoresResult:
            return CoresResult(
                stallscope=__version__,
                recording=results.identity(recording.meta),
                machine=machine.to_engine(),
                chips=chips,
                machine_name=machine_name,
                probe=probe,
                files=files,
                **{name: found[name] for name in found if name != "tables"},
            )

        results.keep(folder, found["tables"], result)
    return CoresRun(recording, folder)


def replay(recording: Recording, machine: Machine, probe: CoresProbe) -> dict[str, Any]:
    if not recording.meta.trace:
        raise results.NoTrace(
            f"{recording.path.name} has no trace to replay",
            "several cores need every access, and it was recorded without --trace",
            "stallscope record --trace -- PROGRAM",
        )
    stream = str(recording.path / STREAM)
    try:
        found: dict[str, Any] = _engine.share(
            stream,
            machine.to_engine(),
            machine.chips.to_engine(),
            probe.to_engine(),
            list(results.placed(recording)),
        )
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    return found
