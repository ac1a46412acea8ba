# SPDX-License-Identifier: Apache-2.0
"""The result store: what a machine made of a recording, computed once and kept below results/.

A result's key is a hash of recording, machine, probe and version, so that nothing is computed
twice and nothing stale is read.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import __version__, _engine, meta, tables
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.machines.events import find_event
from stallscope.meta import Meta
from stallscope.recording import STREAM, Recording

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "results"
NAME = "result.json"
FORMAT = 4  # of the tables; what an earlier one left is computed again
# What a probe may count besides misses: more of it changes nothing else.
MORE = ("evictions", "classify", "offsets", "frames")
# Cycles of taking an interrupt: what the first study of data-centric sampling measured.
HANDLER_COST = 8800
# Later ones hide earlier ones where they overlap.
STILL = ("mapping", "stack", "global")


class Probe(msgspec.Struct, frozen=True):
    """What is counted and sampled while a machine runs."""

    evictions: bool = False
    classify: bool = False  # why each miss happened
    offsets: bool = False  # where inside of blocks misses fall
    frames: bool = False  # stacks are told apart by function
    event: str | None = None  # whose misses are sampled (machines.events); the first data cache
    period: int = 0  # 0: so that a run gives at least 10,000 samples
    seed: int = 1
    layout: str = ""  # digest of the policy by which heap blocks were moved
    sampling: str = "counter"  # or tagged: follow one load at a time
    min_latency: int = 0  # cycles; faster accesses are neither counted nor sampled
    handler_cost: int = 0  # cycles of an interrupt
    perturb: bool = False  # the handler's own accesses go through the caches
    budget: float = 0.0  # share of the run's cycles for the handler; 0: the period decides


class Moves(msgspec.Struct, frozen=True):
    """Heap blocks where a policy of the near allocator puts them, instead of where they lay."""

    policy: str  # the text of its file
    sites: tuple[tuple[int, str, int], ...]  # site, and the module and offset of its return address

    def digest(self) -> str:
        return hashlib.sha256(self.policy.encode()).hexdigest()


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """result.json: what was run through which machine, and the files that came out."""

    stallscope: str
    recording: str  # identity of it
    machine: dict[str, Any]
    machine_name: str
    probe: Probe
    instructions: int
    accesses: int
    sample_period: int
    sample_events: int
    sample_level: int
    sample_code: bool  # misses of instruction fetches
    interrupts: int  # this and what follows: 0 unless the probe needs it
    program_cycles: int
    handler_cycles: int
    loads: int
    tags: int  # loads that were followed
    files: dict[str, meta.File]
    moved_blocks: int = 0


class NoTrace(StallscopeError):
    """There is neither a result nor a trace that one could be made from."""


class Replay:
    """One recording on one machine: the tables of schemas().results."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self.recording = recording
        self.images = [recording]
        self.folder = folder
        self.result = msgspec.json.decode((folder / NAME).read_bytes(), type=Result)

    def table(self, name: str) -> pa.Table:
        if name in ("type", "field"):
            from stallscope import types

            return types.table(self, name)
        return kept_table(self.folder, self.result.files, name)


def kept_table(folder: Path, files: dict[str, meta.File], name: str) -> pa.Table:
    """A table of a result that was kept, if it is still what was written."""
    path = folder / f"{name}.parquet"
    if meta.digest(path) != files[path.name]:
        raise StallscopeError(f"{path} is damaged", "its checksum does not fit", "delete it")
    return tables.read(path, name)


def identity(recording: Meta) -> str:
    """Which recording this is, wherever it is copied to."""
    return f"{recording.created} {recording.name}"


def key(recording: Meta, machine: Machine, probe: Probe) -> str:
    asked = msgspec.json.encode(probe)
    parts = (identity(recording), machine.digest(), asked, __version__, FORMAT)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def known(recording: Recording, machine: Machine, probe: Probe) -> Path | None:
    """The folder of a result that answers this: one that counted more will do."""
    asked = [getattr(probe, name) for name in MORE]
    for counted in itertools.product((False, True), repeat=len(MORE)):
        if any(is_asked > is_counted for is_asked, is_counted in zip(asked, counted, strict=True)):
            continue
        more = msgspec.structs.replace(probe, **dict(zip(MORE, counted, strict=True)))
        folder = recording.path / FOLDER / key(recording.meta, machine, more)
        if (folder / NAME).exists():
            return folder
    return None


def replay(
    recording: Recording,
    machine: Machine,
    machine_name: str,
    probe: Probe,
    moves: Moves | None = None,
) -> Replay:
    """The result for this recording, machine and probe: kept, or by replaying the trace."""
    if moves is not None:
        probe = msgspec.structs.replace(probe, layout=moves.digest())
    folder = known(recording, machine, probe)
    return Replay(recording, folder or _compute(recording, machine, machine_name, probe, moves))


def _compute(
    recording: Recording, machine: Machine, machine_name: str, probe: Probe, moves: Moves | None
) -> Path:
    if not recording.meta.trace:
        raise NoTrace(
            f"{recording.path.name} has no trace to replay",
            "it was recorded without --trace, and not with this machine and these options",
            f"stallscope record --trace -- PROGRAM, or --machine {machine_name}{_options(probe)}",
        )
    stream, options = str(recording.path / STREAM), engine_options(machine, probe)
    words = (stream, machine.to_engine(), options, list(placed(recording)))
    try:
        if moves is None:
            found = _engine.replay(*words, _modules(recording, probe))
        else:
            found = _engine.replay_moved(*words, moves.policy, list(moves.sites))
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    return store(recording.path, recording.meta, machine, machine_name, probe, found)


def _modules(recording: Recording, probe: Probe) -> list[tuple[str, bytes, int, int, int]]:
    """Files that offsets may look at, to know the elements of arrays."""
    if not probe.offsets:
        return []
    from stallscope import types

    return list(types.modules(recording))


def _options(probe: Probe) -> str:
    """The words with which `record` would have made this."""
    words = [f"--probe {name}" for name in MORE if getattr(probe, name)]
    usual = Probe(handler_cost=HANDLER_COST if probe.perturb or probe.budget else 0)
    for field in ("event", "period", "seed", "sampling", "min_latency", "handler_cost", "budget"):
        value = getattr(probe, field)
        if value != getattr(usual, field):
            words.append(f"--{field.replace('_', '-')} {value}")
    return "".join(f" {word}" for word in [*words, *(["--perturb"] if probe.perturb else [])])


def engine_options(machine: Machine, probe: Probe) -> dict[str, Any]:
    event = find_event(machine, probe.event)
    return {
        "evictions": probe.evictions,
        "classify": probe.classify,
        "offsets": probe.offsets,
        "frames": probe.frames,
        "event": event.level,
        "event_code": event.code,
        "period": probe.period,
        "seed": probe.seed,
        "tagged": probe.sampling == "tagged",
        "min_latency": probe.min_latency,
        "handler_cost": probe.handler_cost,
        "perturb": probe.perturb,
        "budget": probe.budget,
    }


def store(
    path: Path,
    recording: Meta,
    machine: Machine,
    machine_name: str,
    probe: Probe,
    found: dict[str, Any],
) -> Path:
    """Writes a result in one step: a folder that is there is whole."""

    def result(files: dict[str, meta.File]) -> Result:
        return Result(
            stallscope=__version__,
            recording=identity(recording),
            machine=machine.to_engine(),
            machine_name=machine_name,
            probe=probe,
            files=files,
            **{name: found[name] for name in found if name != "tables"},
        )

    folder = path / FOLDER / key(recording, machine, probe)
    keep(folder, found["tables"], result)
    return folder


def keep(
    folder: Path,
    found: dict[str, Any],
    result: Callable[[dict[str, meta.File]], msgspec.Struct],
) -> None:
    """Writes tables, of the engine or of Arrow, and what `result` makes of their files into a new
    folder."""
    import pyarrow as pa

    folder.parent.mkdir(exist_ok=True, mode=0o700)
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=folder.parent))
    try:
        files = {}
        for name, columns in found.items():
            writer = tables.TableWriter(fresh / f"{name}.parquet", name)
            made = isinstance(columns, pa.Table)
            writer.append(columns if made else tables.to_arrow(name, columns))
            writer.close()
            files[writer.path.name] = meta.digest(writer.path)
        document = msgspec.json.encode(result(files))
        (fresh / NAME).write_bytes(msgspec.json.format(document, indent=1))
        fresh.rename(folder)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        if not (folder / NAME).exists():  # else somebody else was faster
            raise


def placed(recording: Recording) -> Iterator[tuple[str, str, str, int, int]]:
    """What lies still, in the order in which later ones hide earlier ones."""
    rows = recording.table("object").select(["kind", "name", "type", "address", "size"]).to_pylist()
    for kind in STILL:
        for row in rows:
            if row["kind"] == kind:
                yield (kind, row["name"], row["type"], row["address"], row["size"])
