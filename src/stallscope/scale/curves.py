# SPDX-License-Identifier: Apache-2.0
"""An LRU curve from pieces of a trace, each by itself, and put right afterwards: exact.

Within a piece, a page that was referenced there before has its true distance. The first reference
to a page in a piece has not: what counts is how many other pages came since its last reference in
an earlier piece. A pass over the pieces in order puts that right: all first references of a piece,
in their order, on top of the stack that the pieces before left, show their true distances; then the
piece's pages go on top in the order of their last references. That pass takes as long as there are
different pages in the pieces, not references.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stallscope import __version__, _engine, results
from stallscope.analyses.page_curves import CurveRow
from stallscope.errors import StallscopeError
from stallscope.processes import choose
from stallscope.recording import Recording, open_recording
from stallscope.scale.piece_task import PagePieceDone, PagePieceTask
from stallscope.scale.pieces import answers, ends
from stallscope.showing import Shown

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
COLD = 2**32 - 1  # distance of a first reference


@dataclass(frozen=True)
class _Piece:
    counts: Counter[int]  # references by distance, without first ones
    firsts: pa.Array  # pages in the order of their first references
    lasts: pa.Array  # and in that of their last ones


def curve_in_pieces(pages: pa.Array, pieces: int, jobs: int = 1) -> list[int]:
    """Misses with memory for 0, 1, 2, … pages, as an LruStack that is given all of `pages` (numbers
    of 64 bits without a sign) says. `jobs` pieces at a time."""
    if pieces < 1:
        raise StallscopeError(f"{pieces} pieces", "a trace is cut into 1 or more")
    with ThreadPoolExecutor(max(1, jobs)) as pool:  # the engine lets other threads run
        parts = list(pool.map(_piece, _cut(pages, pieces)))
    return _curve(parts, len(pages))


@dataclass(frozen=True)
class ExactCurve(Shown):
    recording: str
    page_size: int
    shards: int
    footprint_pages: int
    references: int
    rows: list[CurveRow]


def exact_curve(
    recording: Recording | str | Path | None = None,
    shards: int = 2,
    *,
    page_size: int = 4096,
    process: str | int | None = None,
    jobs: int | None = None,
) -> ExactCurve:
    """The LRU curve of every access of a kept trace, in so many pieces by several processes: as
    `pages` has it, and without all else that `pages` says. Kept."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    images = [image for image in choose(opened, process) if image.meta.trace]
    if not images:
        raise results.NoTrace(
            f"{opened.path.name} has no trace",
            "pages are seen in every access, and it was recorded without --trace",
            "stallscope record --trace -- PROGRAM",
        )
    if len(images) > 1:
        raise StallscopeError(
            f"{opened.path.name} has {len(images)} processes", now="--process PID: one at a time"
        )
    references, curve = _kept(images[0], page_size, shards, jobs)
    rows = [CurveRow(pages, misses) for pages, misses in enumerate(curve) if pages]
    return ExactCurve(str(opened.path), page_size, shards, len(rows), references, rows)


def _kept(image: Recording, page_size: int, shards: int, jobs: int | None) -> tuple[int, list[int]]:
    """It is the same however many pieces it comes from."""
    parts = (results.identity(image.meta), page_size, __version__, FORMAT)
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
    path = image.path / results.FOLDER / f"curve-{name}.json"
    with contextlib.suppress(OSError, msgspec.MsgspecError):  # what is damaged is computed again
        return msgspec.json.decode(path.read_bytes(), type=tuple[int, list[int]])
    tasks = [
        PagePieceTask(number, str(image.path.resolve()), page_size, first, last)
        for number, (first, last) in enumerate(ends(image.meta.instructions or 0, shards))
    ]
    done = answers(tasks, jobs, PagePieceDone)
    found = (sum(one.references for one in done), _joined(done))
    with contextlib.suppress(OSError):  # a recording that is only to be read
        path.parent.mkdir(exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(prefix=".new-", dir=path.parent, delete=False) as fresh:
            fresh.write(msgspec.json.encode(found))
        Path(fresh.name).replace(path)
    return found


def _joined(done: Sequence[PagePieceDone]) -> list[int]:
    import pyarrow as pa

    def numbers(data: bytes) -> pa.Array:
        return pa.Array.from_buffers(pa.uint64(), len(data) // 8, [None, pa.py_buffer(data)])

    parts = []
    for one in done:
        misses = numbers(one.curve).to_pylist()
        counts = Counter({d: a - b for d, (a, b) in enumerate(pairwise(misses)) if a != b})
        parts.append(_Piece(counts, numbers(one.firsts), numbers(one.lasts)))
    return _curve(parts, sum(one.references for one in done))


def _cut(pages: pa.Array, pieces: int) -> Iterator[pa.Array]:
    ends = [len(pages) * i // pieces for i in range(pieces + 1)]
    for start, end in pairwise(ends):
        if end > start:
            yield pages.slice(start, end - start)


def _piece(pages: pa.Array) -> _Piece:
    import pyarrow.compute as pc

    stack = _engine.LruStack()
    distances = _array(stack.distances(pages), "uint32")
    lasts = _array(stack.pages(), "uint64")
    backwards = range(len(lasts) - 1, -1, -1)
    return _Piece(
        _count(distances), pages.filter(pc.equal(distances, COLD)), lasts.take(list(backwards))
    )


def _array(column: memoryview, kind: str) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.type_for_alias(kind), len(column), [None, pa.py_buffer(column)])


def _count(distances: pa.Array) -> Counter[int]:
    counts = Counter({one["values"]: one["counts"] for one in _value_counts(distances)})
    del counts[COLD]
    return counts


def _value_counts(distances: pa.Array) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = distances.value_counts().to_pylist()
    return rows


def _curve(parts: Sequence[_Piece], references: int) -> list[int]:
    carried = _engine.LruStack()
    counts: Counter[int] = Counter()
    for part in parts:
        counts.update(part.counts)
        counts.update(_count(_array(carried.distances(part.firsts), "uint32")))
        carried.append(part.lasts)
    curve = [references]
    for distance in range(carried.distinct):
        curve.append(curve[-1] - counts[distance])
    return curve
