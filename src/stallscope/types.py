# SPDX-License-Identifier: Apache-2.0
"""What memory holds: the types of heap blocks, guessed from the code that uses them.

Found when somebody asks, from the files that were recorded, if they are still the same; kept beside
the result whose misses tell which code uses what.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import datetime
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope import _engine, tables
from stallscope.analyses.sites import forwards
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

    from stallscope.recording import Recording
    from stallscope.results import Replay

GUESSED = ("heap", "named")  # kinds of buckets that nobody declares a type for
MOST = 500  # buckets, those that miss most
STORE = 1  # of op_kind
COUNT = 8  # bytes that C++'s new [] may keep in front of an array
KEPT = ("type", "field")
LARGEST_STRUCT = 4096  # bytes; what is larger is no struct whose layout matters


def table(replay: Replay, name: str) -> pa.Table:
    """The table `type` or `field` of one replay: as kept, or made now."""
    path = replay.folder / f"{name}.parquet"
    if path.exists():
        with contextlib.suppress(StallscopeError):  # a damaged one is made again
            return tables.read(path, name)
    import pyarrow as pa

    made = _Made(replay)
    rows = {"type": made.type_rows(), "field": made.field_rows()}
    found = {kept: pa.Table.from_pylist(rows[kept], tables.arrow_schema(kept)) for kept in KEPT}
    for kept in KEPT:
        if rows[kept]:  # else it costs nothing to look again, and debug files may turn up
            _keep(found[kept], replay.folder / f"{kept}.parquet", kept)
    return found[name]


def _keep(found: pa.Table, path: Path, name: str) -> None:
    """In one step; a recording that cannot be written to is asked anew each time."""
    with contextlib.suppress(OSError):
        number, fresh = tempfile.mkstemp(prefix="new-", dir=path.parent)
        os.close(number)
        try:
            writer = tables.TableWriter(Path(fresh), name)
            writer.append(found)
            writer.close()
            Path(fresh).rename(path)
        finally:
            Path(fresh).unlink(missing_ok=True)


def modules(recording: Recording) -> Iterator[tuple[str, bytes, int, int, int]]:
    """(path, build id, bias, start, end) of the files that are still what they were."""
    began = datetime.datetime.fromisoformat(recording.meta.created).timestamp()
    for row in recording.table("module").to_pylist():
        if not row["build_id"]:  # then only its age tells whether it is the same
            try:
                if Path(row["path"]).stat().st_mtime > began:
                    continue
            except OSError:
                continue
        identity = bytes.fromhex(row["build_id"])
        yield (row["path"], identity, row["bias"], row["start"], row["end"])


def with_variables(recording: Recording) -> Iterator[tuple[str, bytes, int, int, int]]:
    """The same, up to the last of their variables: what begins as zeros lies behind the part of a
    file that is mapped."""
    known = sorted(modules(recording), key=lambda module: module[3])
    rows = recording.table("object").select(["kind", "address", "size"]).to_pylist()
    ends = sorted((r["address"], r["address"] + r["size"]) for r in rows if r["kind"] == "global")
    starts = [start for start, _ in ends]
    for number, (path, identity, bias, start, end) in enumerate(known):
        limit = known[number + 1][3] if number + 1 < len(known) else 1 << 64
        last = bisect.bisect_left(starts, limit)
        reached = ends[last - 1][1] if last and starts[last - 1] >= start else end
        yield path, identity, bias, start, max(end, min(reached, limit))


class _Made:
    """What is known of one replay's buckets."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.engine = _engine.Types(list(with_variables(replay.recording)))
        self.buckets = {row["bucket"]: row for row in replay.table("bucket").to_pylist()}
        self.guesses = dict(self._guesses())

    def _guesses(self) -> Iterator[tuple[int, _engine.Guess]]:
        misses = _misses(self.replay)
        weights = {bucket: sum(by_operation.values()) for bucket, by_operation in misses.items()}
        asked = [b for b in misses if self.buckets[b]["kind"] in GUESSED]
        asked.sort(key=lambda bucket: (-weights[bucket], bucket))
        if not asked:
            return
        uses = _uses(self.replay, misses)
        known = calls(self.replay.recording)
        for bucket in asked[:MOST]:
            row = self.buckets[bucket]
            guess = self.engine.infer(uses[bucket], known.get(row["site"], []), largest(row))
            if guess is not None:
                yield bucket, guess

    def type_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "bucket": bucket,
                "type": guess.name,
                "size": guess.size,
                "element_size": guess.element_size,
                "confidence": guess.confidence,
                "voted": guess.voted,
                "source": "allocation" if guess.is_allocated else "accesses",
            }
            for bucket, guess in self.guesses.items()
        ]

    def field_rows(self) -> list[dict[str, Any]]:
        """Nothing when offsets were not counted."""
        if "offset.parquet" not in self.replay.result.files:
            return []
        offsets: dict[int, set[int]] = collections.defaultdict(set)
        for row in self.replay.table("offset").select(["bucket", "offset"]).to_pylist():
            offsets[row["bucket"]].add(row["offset"])
        folds = {row["bucket"]: row for row in self.replay.table("fold").to_pylist()}
        known = self.guesses | dict(self._declared(offsets))
        arrays = _new_arrays(self.replay.recording)
        rows: list[dict[str, Any]] = []
        for bucket in sorted(offsets.keys() & known.keys()):
            is_array = self.buckets[bucket]["site"] in arrays
            rows += self._fields(bucket, known[bucket], folds[bucket], offsets[bucket], is_array)
        return rows

    def _declared(self, asked: Iterable[int]) -> Iterator[tuple[int, _engine.Guess]]:
        """The types of variables, as far as their modules tell."""
        objects = self.replay.recording.table("object").select(["kind", "name", "address"])
        addresses = {
            row["name"]: row["address"] for row in objects.to_pylist() if row["kind"] == "global"
        }
        for bucket in asked:
            row = self.buckets[bucket]
            if row["kind"] == "global" and row["name"] in addresses:
                guess = self.engine.variable(addresses[row["name"]])
                if guess is not None:
                    yield bucket, guess

    def _fields(
        self,
        bucket: int,
        guess: _engine.Guess,
        fold: dict[str, Any],
        offsets: Collection[int],
        is_new_array: bool,
    ) -> Iterator[dict[str, Any]]:
        element = guess.element_size
        if fold["period"] not in (0, element):
            return  # it was taken for something else while there was less to know
        header = 0
        if not fold["period"] and element and is_new_array:
            header = COUNT % element if fold["largest"] % element == COUNT % element else 0
        ordered = sorted(offsets)
        inner = [_within(offset, header, element) for offset in ordered]
        for offset, place, field in zip(
            ordered, inner, self.engine.fields(guess, inner), strict=True
        ):
            name, start, size, kind = field
            if offset < header:
                name, start, size, kind = "(count)", 0, header, ""
            elif not element and not name and guess.size:  # numbers or pointers, one by one
                index = place // guess.size
                name, start = f"[{index}]", index * guess.size
            row = {"bucket": bucket, "offset": offset, "element": element, "start": start}
            yield row | {"size": size, "name": name, "type": kind}


def _within(offset: int, header: int, element: int) -> int:
    return max(offset - header, 0) % element if element else offset


def _new_arrays(recording: Recording) -> set[int]:
    """Sites whose blocks C++'s new [] made."""
    objects = recording.table("object").select(["site", "allocator"]).to_pylist()
    return {row["site"] for row in objects if row["allocator"] == "new_array"}


def _misses(replay: Replay) -> dict[int, collections.Counter[int]]:
    """Misses by bucket and operation, all levels together."""
    found: dict[int, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for row in replay.table("miss").select(["bucket", "operation", "misses"]).to_pylist():
        found[row["bucket"]][row["operation"]] += row["misses"]
    return found


def _uses(
    replay: Replay, misses: dict[int, collections.Counter[int]]
) -> dict[int, list[tuple[int, bool, int, int]]]:
    """(address, writes, size, times) of what accesses each bucket. An operation that accesses
    several is divided among them as its misses are."""
    of_operation: collections.Counter[int] = collections.Counter()
    for by_operation in misses.values():
        of_operation.update(by_operation)
    names = ["operation", "address", "kind", "size", "executions"]
    operations = {
        row["operation"]: row
        for row in replay.recording.table("operation").select(names).to_pylist()
        if row["operation"] in of_operation
    }
    found: dict[int, list[tuple[int, bool, int, int]]] = {}
    for bucket, by_operation in misses.items():
        uses = found[bucket] = []
        for number, missed in by_operation.items():
            if number in operations:
                row = operations[number]
                uses.append(use(row, max(1, row["executions"] * missed // of_operation[number])))
    return found


def use(operation: Mapping[str, Any], times: int) -> tuple[int, bool, int, int]:
    return operation["address"], operation["kind"] == STORE, operation["size"], times


def largest(bucket: Mapping[str, Any]) -> int:
    """Bytes of one of its blocks, if they are of one size."""
    return int(-(-bucket["bytes"] // max(bucket["blocks"], 1)))


def calls(recording: Recording) -> dict[int, list[int]]:
    """Of each site, where the calls return to that lead from the allocator to whoever asked."""
    found: dict[int, list[int]] = {}
    done: set[int] = set()
    for row in recording.table("site").to_pylist():
        calls = found.setdefault(row["site"], [])
        if row["site"] in done:
            continue
        behind = row["address"] + 1  # what is recorded lies within the call, one below its end
        if behind not in calls:
            calls.append(behind)
        if not forwards(row["function"], ()) and not row["inlined"]:
            done.add(row["site"])
    return found


def shapes(replay: Replay) -> Iterator[tuple[int, str, int, list[tuple[str, int, int]]]]:
    """(bucket, type, bytes of an element, fields as (name, offset, bytes)) of what holds structs,
    of all fields, also those that nobody touched."""
    made = _Made(replay)
    buckets = {bucket: made.buckets[bucket] for bucket in _misses(replay)}
    variables = made._declared(b for b, row in buckets.items() if row["kind"] == "global")
    for bucket, guess in [*made.guesses.items(), *variables]:
        size = guess.element_size or guess.size
        if not 0 < size <= LARGEST_STRUCT:
            continue
        fields = _all_fields(made.engine.fields(guess, range(size)))
        if len(fields) > 1:
            yield bucket, guess.name, size, fields


def _all_fields(bytes_of: Sequence[tuple[str, int, int, str]]) -> list[tuple[str, int, int]]:
    """Fields by what lies at each byte; the elements of an array are one field."""
    found: dict[str, list[int]] = {}
    for offset, (name, *_) in enumerate(bytes_of):
        if name:
            found.setdefault(name.split("[", 1)[0], []).append(offset)
    return [(name, min(at), max(at) - min(at) + 1) for name, at in found.items()]
