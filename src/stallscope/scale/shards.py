# SPDX-License-Identifier: Apache-2.0
"""One replay in shards: each worker does some of the sets of all caches, and the sum is exact.

Accesses that cross from the lines of one shard into those of another need to know what the other
missed. Shards first take it that others hit, then tell each other what they missed, and those for
which that was wrong run again, until all agree (engine/session/shard.h says why that is then
right). Only machines whose sets can be parted so are taken; others are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import __version__, _engine, machines, results
from stallscope.analyses.levels import Levels
from stallscope.analyses.objects import LevelRow, Process
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.processes import choose
from stallscope.recording import Recording, open_recording
from stallscope.scale.pool import Pool
from stallscope.scale.shard_task import ShardDone, ShardTask, read_table

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
# Of the tables that shards add up: what tells rows apart, and what is added.
KEYS = {
    "miss": (["level", "region", "bucket", "operation"], ["misses", "latency"]),
    "eviction": (["level", "region", "victim", "culprit", "operation"], ["count"]),
}


@dataclass(frozen=True)
class ShardedLevels(Levels):
    shards: int
    rounds: int  # until all shards agreed
    crossing: int  # accesses that touch the lines of several shards


class _Sum(msgspec.Struct):
    """All shards of one process image, when they agree."""

    done: list[ShardDone]
    rounds: int

    def levels(self, machine: Machine) -> list[tuple[int, int, int]]:
        first = self.done[0]
        data = first.accesses - first.absent
        added = _first_accesses(machine, data, first.instructions, first.fetched)
        summed = [
            [sum(level[i] for level in same) for i in range(3)]
            for same in zip(*(one.levels for one in self.done), strict=True)
        ]
        return [(a + more, m, e) for (a, m, e), more in zip(summed, added, strict=True)]

    def table(self, name: str) -> pa.Table:
        import pyarrow as pa

        if name == "bucket":
            return read_table(self.done[0].tables[name])
        keys, counts = KEYS[name]
        whole = pa.concat_tables([read_table(one.tables[name]) for one in self.done])
        summed = whole.group_by(keys).aggregate([(count, "sum") for count in counts])
        summed = summed.rename_columns([c.removesuffix("_sum") for c in summed.column_names])
        return summed.select(keys + counts).sort_by([(key, "ascending") for key in keys])


def _first_accesses(machine: Machine, data: int, instructions: int, fetched: int) -> list[int]:
    """What the first level of each way sees: every access."""
    added = []
    for parts, fetches in ((machine.caches, instructions), (machine.tlbs, fetched)):
        seen: set[str] = set()
        for part in parts:
            kinds = {"both": ("data", "code"), "data": ("data",)}.get(part.holds, ("code",))
            more = {"data": data, "code": fetches}
            added.append(sum(more[kind] for kind in kinds if kind not in seen))
            seen.update(kinds)
    return added


class ShardedReplay:
    """A recording on a machine: levels, and the tables bucket, miss and eviction of one image."""

    def __init__(self, recording: Recording, machine: Machine, name: str, shards: int) -> None:
        self.recording = recording
        self.machine = machine
        self.name = name
        self.shards = shards
        self.images: list[Recording] = []
        self._sums: list[_Sum] = []

    def add(self, image: Recording, summed: _Sum) -> None:
        self.images.append(image)
        self._sums.append(summed)

    def table(self, name: str, image: int = 0) -> pa.Table:
        return self._sums[image].table(name)

    def levels(self) -> ShardedLevels:
        each = [summed.levels(self.machine) for summed in self._sums]
        parts = [(c.name, "cache") for c in self.machine.caches]
        parts += [(t.name, "tlb") for t in self.machine.tlbs]
        rows = []
        for (name, kind), same in zip(parts, zip(*each, strict=True), strict=True):
            accesses, misses, evictions = (sum(one[i] for one in same) for i in range(3))
            ratio = 1 - misses / accesses if accesses else 0.0
            rows.append(LevelRow(name, kind, accesses, misses, ratio, evictions))
        return ShardedLevels(
            str(self.recording.path),
            self.name,
            sum(one.done[0].instructions for one in self._sums),
            sum(one.done[0].accesses for one in self._sums),
            [Process(image.meta.name, image.meta.pid, image.meta.command) for image in self.images],
            rows,
            self.shards,
            max(one.rounds for one in self._sums),
            sum(len(one.done[0].missed) for one in self._sums),
        )


def replay_in_shards(
    recording: Recording | str | Path | None = None,
    shards: int = 2,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    evictions: bool = False,
    jobs: int | None = None,
) -> ShardedReplay:
    """A recording (the newest here when not told) on a machine (as recorded) in so many shards, by
    `jobs` workers (one a processor). Exact; a machine for which it would not be is refused."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    name = machine or (opened.meta.machine if opened.meta.machine != "none" else "default")
    model = machines.load(name)
    try:
        _engine.check_shards(model.to_engine(), shards)
    except (_engine.EngineError, TypeError) as error:
        raise StallscopeError(*error.args) from error
    found = ShardedReplay(opened, model, name, shards)
    for image in choose(opened, process):
        if image.meta.trace:
            found.add(image, _kept(image, model, shards, evictions, jobs))
    if not found.images:
        raise StallscopeError(
            f"{opened.path.name} has no trace to replay",
            "it was recorded without --trace",
            "stallscope record --trace -- PROGRAM",
        )
    return found


def _kept(image: Recording, machine: Machine, shards: int, evictions: bool, jobs: Any) -> _Sum:
    """As an earlier one left it, or computed and left for later ones."""
    parts = (results.identity(image.meta), machine.digest(), shards, evictions, __version__, FORMAT)
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
    path = image.path / results.FOLDER / f"shards-{name}.msgpack"
    with contextlib.suppress(OSError, msgspec.MsgspecError):  # what is damaged is computed again
        return msgspec.msgpack.decode(path.read_bytes(), type=_Sum)
    found = _agreed(image, machine, shards, evictions, jobs)
    with contextlib.suppress(OSError):  # a recording that is only to be read
        path.parent.mkdir(exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(prefix=".new-", dir=path.parent, delete=False) as fresh:
            fresh.write(msgspec.msgpack.encode(found))
        Path(fresh.name).replace(path)
    return found


def _agreed(image: Recording, machine: Machine, shards: int, evictions: bool, jobs: Any) -> _Sum:
    placed = list(results.placed(image))
    others = [b""] * shards
    done: list[ShardDone | None] = [None] * shards
    pending, rounds = list(range(shards)), 0
    while pending:
        rounds += 1
        tasks = [
            ShardTask(
                number=shard,
                recording=str(image.path.resolve()),
                machine=machine.to_engine(),
                shards=shards,
                shard=shard,
                evictions=evictions,
                others=others[shard],
                placed=placed,
            )
            for shard in pending
        ]
        with closing(Pool(jobs or len(os.sched_getaffinity(0))).run(tasks)) as answers:
            for one in answers:
                if one.failure is not None or not isinstance(one, ShardDone):
                    what = one.failure.what if one.failure else "a worker answered nothing"
                    raise StallscopeError(what, one.failure.why if one.failure else "")
                done[one.number] = one
        whole = [one for one in done if one is not None]
        told = _told([one.missed for one in whole])
        pending = [k for k in range(shards) if told[k].rstrip(b"\0") != others[k].rstrip(b"\0")]
        others = told
    return _Sum(whole, rounds)


def _told(missed: Sequence[bytes]) -> list[bytes]:
    """For each shard, what any of the others missed."""
    length = len(missed[0])
    numbers = [int.from_bytes(one, "little") for one in missed]
    before, after = [0], [0]
    for number in numbers:
        before.append(before[-1] | number)
    for number in reversed(numbers):
        after.append(after[-1] | number)
    after.reverse()
    return [(before[k] | after[k + 1]).to_bytes(length, "little") for k in range(len(numbers))]
