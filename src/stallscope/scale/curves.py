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

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from stallscope import _engine
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

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
