# SPDX-License-Identifier: Apache-2.0
"""How a program's need of memory changes over time: its curve epoch by epoch, around one size.

What more or less memory would mean is kept as a system would keep it on line: an LRU stack in four
groups around the memory at hand, whose cost is the same for every reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stallscope import _engine
from stallscope.analyses.page_curves import Knee, feed, knee, memory_pages, rows_of
from stallscope.analyses.page_replacement import chosen_log
from stallscope.analyses.page_view import PageView
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

EPOCHS = 20  # of a run, when not told how long one is
GROUPS = 16  # of the memory, when not told how large one is
MOST_EPOCHS = 100_000


@dataclass(frozen=True)
class EpochRow:
    epoch: int
    time: int  # when it began: instructions, or cycles of a live program
    references: int
    new_pages: int  # that were never referenced before
    misses: int  # with the memory at hand
    misses_less: int  # with a group less of it
    misses_more: int  # with a group more
    penalty: int  # of a group less
    benefit: int  # of a group more
    knee_pages: int  # where more memory would have stopped to pay in this epoch


@dataclass(frozen=True)
class PageEpochs:
    recording: str
    page_size: int
    footprint_pages: int
    log: str
    memory: int  # pages
    memory_bytes: int
    group: int  # pages
    epoch: int  # references
    rows: list[EpochRow]


def epochs(
    view: PageView,
    memory: int | str | None = None,
    *,
    group: int | str | None = None,
    epoch: int = 0,
    log: str = "order",
) -> PageEpochs:
    """With so much memory (a number of pages, or bytes as "64M"; half of the footprint when not
    told), and a `group` of pages more or less of it, in epochs of so many references."""
    references = chosen_log(view, log)
    page = view.options.page_size
    pages = max(1, view.footprint // 2) if memory is None else memory_pages(memory, page)
    step = max(1, pages // GROUPS) if group is None else memory_pages(group, page, "--group")
    length = epoch or max(100, -(-references.num_rows // EPOCHS))
    if references.num_rows > length * MOST_EPOCHS:
        raise StallscopeError(
            f"--epoch {length}: that makes more than {MOST_EPOCHS:,} epochs",
            f"there are {references.num_rows:,} references",
            f"--epoch {-(-references.num_rows // MOST_EPOCHS)}, or more",
        )
    return PageEpochs(
        recording=view.recording,
        page_size=page,
        footprint_pages=view.footprint,
        log=log,
        memory=pages,
        memory_bytes=pages * page,
        group=step,
        epoch=length,
        rows=_rows(references, pages, step, length, view.options.hot),
    )


def _rows(log: pa.Table, memory: int, group: int, length: int, hot: int) -> list[EpochRow]:
    try:
        groups, stack = _engine.groups_around(memory, group), _engine.LruStack()
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    rows: list[EpochRow] = []
    for start in range(0, log.num_rows, length):
        part = log.slice(start, length)
        before = stack.distinct
        for taker in (groups, stack):
            feed(taker, part, "page")
        misses = dict(zip(groups.boundaries, groups.misses(), strict=True))
        at = misses[memory]
        # A memory of no more than a group has nothing to give.
        less, more = misses.get(memory - group, part.num_rows), misses[memory + group]
        rows.append(
            EpochRow(
                epoch=len(rows),
                time=part.column("time")[0].as_py(),
                references=part.num_rows,
                new_pages=stack.distinct - before,
                misses=at,
                misses_less=less,
                misses_more=more,
                penalty=less - at,
                benefit=at - more,
                knee_pages=_knee(stack.epoch_curve(), hot).pages,
            )
        )
        groups.end_epoch()
        stack.end_epoch()
    return rows


def _knee(curve: memoryview, hot: int) -> Knee:
    return knee(rows_of(curve), hot)
