# SPDX-License-Identifier: Apache-2.0
"""Where heap blocks should lie instead, so that those which evict each other no longer do.

Large blocks of malloc tend to begin at the same place of a page, so that arrays which are used
together meet in the same sets; they are to begin apart from each other. Small blocks have headers,
and other sites' blocks between them; they are to lie together.

What this cannot see: which blocks are used together at one time, as evictions are counted over the
whole run; and blocks of C++'s new, whose site the preloaded library does not know.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

from stallscope.analyses.objects import MissView

LINES = 64  # of a page
LARGE = 4096  # bytes of a block from which on it is moved apart from others
DENSER = 0.85  # small blocks lie together where that takes at most this part of malloc's bytes
LEAST = 0.01  # share of a level's evictions or misses from which a site is worth it
MALLOCS = {"malloc", "calloc", "realloc"}


@dataclass(frozen=True)
class LayoutRow:
    object: str
    site: int
    module: str  # build id
    offset: int  # of the return address in it
    blocks: int
    bytes: int
    share: float  # of the level's evictions (large blocks) or misses (small ones)
    line: int | None  # where in a page the first block begins
    step: int | None  # lines further for each block after it
    packed: bool


@dataclass(frozen=True)
class Layout:
    recording: str
    machine: str
    level: str
    rows: list[LayoutRow]


def layout(view: MissView) -> Layout:
    """What to place, large blocks first."""
    addresses = _addresses(view)
    heap = [b for b in view.buckets if b["kind"] == "heap" and b["site"] in addresses]
    large = {b["bucket"]: b for b in heap if b["bytes"] >= LARGE * b["blocks"]}
    small = {b["bucket"]: b for b in heap if b["blocks"] and _denser(b["bytes"] // b["blocks"])}
    rows = [*_apart(view, large, addresses), *_together(view, small, addresses)]
    name = view.levels[view.event]["name"]
    path, machine = str(view.replay.recording.path), view.replay.result.machine_name
    return Layout(path, machine, name, _once(rows) if len(view.replay.images) > 1 else rows)


def _once(rows: list[LayoutRow]) -> list[LayoutRow]:
    """Processes of one program have the same sites; the one that suffers most says where to."""
    first: dict[tuple[str, str, int, bool], LayoutRow] = {}
    for row in rows:
        first.setdefault((row.object, row.module, row.offset, row.packed), row)
    return list(first.values())


def _denser(size: int) -> bool:
    """Whether blocks of this size share lines better without malloc's headers. The near allocator
    lets none cross a line; malloc gives at least 32 bytes, in steps of 16."""
    if not 0 < size <= 64:
        return False
    together = 64 / (64 // ((size + 7) // 8 * 8))
    return together <= DENSER * max(32, (size + 8 + 15) // 16 * 16)


def _addresses(view: MissView) -> dict[int, tuple[str, int]]:
    """Build id and offset of the return address of each site that malloc's callers have."""
    recording = view.replay.recording
    modules = {row["module"]: row for row in recording.table("module").to_pylist()}
    objects = recording.table("object").select(["site", "allocator"]).to_pylist()
    wanted = {row["site"] for row in objects if row["allocator"] in MALLOCS}
    found: dict[int, tuple[str, int]] = {}
    for row in recording.table("site").to_pylist():
        module = modules.get(row["module"])
        if row["depth"] == 0 and row["site"] in wanted and module and module["build_id"]:
            # What is recorded is an address within the call instruction, one below its end.
            found[row["site"]] = (module["build_id"], row["address"] - module["bias"] + 1)
    return found


def _apart(
    view: MissView, large: dict[int, dict[str, Any]], addresses: dict[int, tuple[str, int]]
) -> list[LayoutRow]:
    weights: collections.Counter[int] = collections.Counter()
    everything = 0
    for row in view.replay.table("eviction").to_pylist():
        if row["level"] != view.event:
            continue
        everything += row["count"]
        if row["victim"] in large and row["culprit"] in large:
            weights[row["victim"]] += row["count"]
    chosen = [b for b, count in weights.most_common() if count >= LEAST * everything]
    blocks = sum(min(large[bucket]["blocks"], LINES) for bucket in chosen)
    rows, before = [], 0
    for bucket in chosen:
        # Blocks take turns over the page as if they all were one site's.
        line, step = before * LINES // blocks % LINES, max(LINES // blocks, 1) % LINES
        before += min(large[bucket]["blocks"], LINES)
        rows.append(
            _row(view, large[bucket], addresses, weights[bucket] / everything, line, step, False)
        )
    return rows


def _together(
    view: MissView, small: dict[int, dict[str, Any]], addresses: dict[int, tuple[str, int]]
) -> list[LayoutRow]:
    misses: collections.Counter[int] = collections.Counter()
    for count in view.counts():
        misses[count.bucket] += count.misses
    everything = max(misses.total(), 1)
    return [
        _row(view, small[bucket], addresses, count / everything, None, None, True)
        for bucket, count in misses.most_common()
        if bucket in small and count >= LEAST * everything
    ]


def _row(
    view: MissView,
    bucket: dict[str, Any],
    addresses: dict[int, tuple[str, int]],
    share: float,
    line: int | None,
    step: int | None,
    packed: bool,
) -> LayoutRow:
    module, offset = addresses[bucket["site"]]
    name = view.name(bucket["bucket"])
    blocks, size = bucket["blocks"], bucket["bytes"]
    return LayoutRow(name, bucket["site"], module, offset, blocks, size, share, line, step, packed)
