# SPDX-License-Identifier: Apache-2.0
"""What memory holds: the types of heap blocks, guessed from the code that uses them.

Found when somebody asks, from the files that were recorded, if they are still the same; kept beside
the result whose misses tell which code uses what.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope import _engine, tables
from stallscope.analyses.sites import forwards
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

    from stallscope.recording import Recording
    from stallscope.results import Replay

NAME = "type.parquet"
GUESSED = ("heap", "named")  # kinds of buckets that nobody declares a type for
MOST = 500  # buckets, those that miss most
STORE = 1  # of op_kind


def table(replay: Replay) -> pa.Table:
    """The table `type` of one replay: as kept, or made now."""
    path = replay.folder / NAME
    if path.exists():
        with contextlib.suppress(StallscopeError):  # a damaged one is made again
            return tables.read(path, "type")
    import pyarrow as pa

    rows = list(_guesses(replay))
    found = pa.Table.from_pylist(rows, tables.arrow_schema("type"))
    if rows:  # else it costs nothing to look again, and debug files may turn up
        _keep(found, path)
    return found


def _keep(found: pa.Table, path: Path) -> None:
    """In one step; a recording that cannot be written to is asked anew each time."""
    with contextlib.suppress(OSError):
        number, fresh = tempfile.mkstemp(prefix="new-", dir=path.parent)
        os.close(number)
        try:
            writer = tables.TableWriter(Path(fresh), "type")
            writer.append(found)
            writer.close()
            Path(fresh).rename(path)
        finally:
            Path(fresh).unlink(missing_ok=True)


def engine(recording: Recording) -> _engine.Types:
    """The types of the modules that are still what they were."""
    return _engine.Types(list(_modules(recording)))


def _modules(recording: Recording) -> Iterator[tuple[str, bytes, int, int, int]]:
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


def _guesses(replay: Replay) -> Iterator[dict[str, Any]]:
    misses = _misses(replay)
    buckets = {row["bucket"]: row for row in replay.table("bucket").to_pylist()}
    weights = {bucket: sum(by_operation.values()) for bucket, by_operation in misses.items()}
    asked = [b for b in misses if buckets[b]["kind"] in GUESSED]
    asked.sort(key=lambda bucket: (-weights[bucket], bucket))
    if not asked:
        return
    uses = _uses(replay, misses)
    calls = _calls(replay.recording)
    known = engine(replay.recording)
    for bucket in asked[:MOST]:
        row = buckets[bucket]
        largest = -(-row["bytes"] // max(row["blocks"], 1))
        guess = known.infer(uses[bucket], calls.get(row["site"], []), largest)
        if guess is not None:
            yield {
                "bucket": bucket,
                "type": guess.name,
                "size": guess.size,
                "element_size": guess.element_size,
                "confidence": guess.confidence,
                "voted": guess.voted,
                "source": "allocation" if guess.is_allocated else "accesses",
            }


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
                times = max(1, row["executions"] * missed // of_operation[number])
                uses.append((row["address"], row["kind"] == STORE, row["size"], times))
    return found


def _calls(recording: Recording) -> dict[int, list[int]]:
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
