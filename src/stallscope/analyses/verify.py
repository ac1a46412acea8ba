# SPDX-License-Identifier: Apache-2.0
"""The invariant checker over a whole recording: stream, tables, and one against the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.recording import PAGES, STREAM, VALUES, Recording, is_sampled

if TYPE_CHECKING:
    import pyarrow as pa

STORE, PREFETCH = 1, 4  # of op_kind; all others load


@dataclass(frozen=True)
class Violation:
    process: str
    severity: str  # error or note
    rule: str
    instruction: int | None  # where in the stream
    text: str


@dataclass(frozen=True)
class Verdict:
    recording: str
    processes: int
    instructions: int
    checked_tables: int
    errors: int
    notes: int
    truncated: bool
    rows: list[Violation]


def verify(recording: Recording) -> Verdict:
    """Checks every process image. What cannot be read at all is an error, not a verdict."""
    rows: list[Violation] = []
    errors = notes = checked = instructions = 0
    truncated = False
    for image in recording.processes():
        name = image.meta.name
        sampled = is_sampled(image.meta)
        protected = image.meta.source == PAGES
        stream = _NO_STREAM if sampled or protected else _check_stream(image)
        truncated = truncated or bool(stream["truncated"]) or image.recovered is not None
        errors += stream["errors"]
        notes += stream["notes"]
        rows += [Violation(name, *violation) for violation in stream["violations"]]
        found = {table: image.table(table) for table in image.table_names()}
        checked += len(found)
        check = _sample_problems if sampled else _page_problems if protected else _problems
        problems = check(image, found)
        broken = [Violation(name, "error", *problem) for problem in problems]
        errors += len(broken)
        rows += broken
        instructions += image.meta.instructions
    return Verdict(
        str(recording.path),
        len(list(recording.processes())),
        instructions,
        checked,
        errors,
        notes,
        truncated,
        rows,
    )


_NO_STREAM: dict[str, Any] = {"truncated": False, "errors": 0, "notes": 0, "violations": ()}


def _sample_problems(
    image: Recording, found: dict[str, pa.Table]
) -> Iterator[tuple[str, int | None, str]]:
    """Samples are as many as meta.json says, and what they name is there."""
    samples = found["live_sample"]
    if samples.num_rows != image.meta.samples:
        text = f"there are {samples.num_rows} samples, the recording has {image.meta.samples}"
        yield "samples", None, text
    for column, table in (("operation", "operation"), ("bucket", "bucket"), ("thread", "thread")):
        named = set(samples[column].to_pylist()) - {None}
        if not named <= set(found[table][column].to_pylist()):
            yield f"sample_{column}", None, f"a sample names a {column} that is not in the table"
    confidence = samples["confidence"].to_pylist()
    if any(not 0 <= value <= 1 for value in confidence):
        yield "confidence", None, "a confidence lies outside of 0 to 1"
    yield from _object_problems(found["object"])


def _page_problems(
    image: Recording, found: dict[str, pa.Table]
) -> Iterator[tuple[str, int | None, str]]:
    """Of a run under page protection only its threads are known; its page log is checked by
    whoever reads it."""
    if found["thread"].num_rows != image.meta.threads:
        text = f"there are {found['thread'].num_rows} threads of {image.meta.threads}"
        yield "threads", None, text


def _check_stream(image: Recording) -> dict[str, Any]:
    if not (image.path / STREAM).exists():
        raise StallscopeError(f"{image.path} has no {STREAM}")
    try:
        return _engine.check_stream(str(image.path / STREAM), image.meta.counted)
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error


def _problems(
    image: Recording, found: dict[str, pa.Table]
) -> Iterator[tuple[str, int | None, str]]:
    size = (image.path / STREAM).stat().st_size
    if size < image.meta.stream_bytes:
        text = f"{STREAM} is truncated: it has {size} of {image.meta.stream_bytes} bytes"
        yield "file", None, text
    yield from _value_problems(image)
    yield from _code_problems(image, found)
    yield from _object_problems(found["object"])
    threads = sum(found["thread"]["instructions"].to_pylist())
    if threads != image.meta.instructions:
        text = (
            f"threads add up to {threads} instructions, the recording has {image.meta.instructions}"
        )
        yield "thread_instructions", None, text


def _value_problems(image: Recording) -> Iterator[tuple[str, int | None, str]]:
    """One value for each access, when values were kept."""
    if not (image.path / VALUES).exists():
        return
    try:
        _engine.check_values(str(image.path / STREAM), str(image.path / VALUES))
    except _engine.EngineError as error:
        yield "values", None, ": ".join(filter(None, error.args[:2]))


def _code_problems(
    image: Recording, found: dict[str, pa.Table]
) -> Iterator[tuple[str, int | None, str]]:
    """Loads and stores in meta.json are what the operation table adds up to."""
    import pyarrow.compute as pc

    operations = found["operation"]
    is_store = pc.equal(operations["kind"], STORE)
    stores = pc.sum(operations.filter(is_store)["executions"]).as_py() or 0
    is_load = pc.and_(pc.invert(is_store), pc.not_equal(operations["kind"], PREFETCH))
    loads = pc.sum(operations.filter(is_load)["executions"]).as_py() or 0
    if (loads, stores) != (image.meta.loads, image.meta.stores):
        yield (
            "accesses",
            None,
            f"operations add up to {loads} loads and {stores} stores, "
            f"the recording has {image.meta.loads} and {image.meta.stores}",
        )
    blocks = set(found["block"]["block"].to_pylist())
    if not set(operations["block"].to_pylist()) <= blocks:
        yield "operation_block", None, "an operation belongs to a block that is not in the table"


def _object_problems(objects: pa.Table) -> Iterator[tuple[str, int | None, str]]:
    """Two heap blocks never hold the same byte at the same time."""
    import pyarrow.compute as pc

    heap = objects.filter(pc.equal(objects["kind"], "heap")).sort_by("address")
    addresses, sizes = heap["address"].to_pylist(), heap["size"].to_pylist()
    born, died = heap["born"].to_pylist(), heap["died"].to_pylist()
    for i in range(1, len(addresses)):
        if addresses[i - 1] == addresses[i] or addresses[i - 1] + sizes[i - 1] <= addresses[i]:
            continue  # the same address again is a later life of it: checked by the stream's rules
        first, second = (born[i - 1], died[i - 1]), (born[i], died[i])
        if _together(first, second):
            yield "heap_overlap", born[i], f"two live heap blocks overlap at {addresses[i]:#x}"
            return


def _together(a: tuple[int, int | None], b: tuple[int, int | None]) -> bool:
    return (a[1] is None or b[0] < a[1]) and (b[1] is None or a[0] < b[1])
