# SPDX-License-Identifier: Apache-2.0
"""What the questions about pages are asked of: the page references of a recording, with names."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stallscope.analyses.objects import STACK, Process
from stallscope.analyses.page_curves import GONE, NOT_HOT, CurveRow, summed, with_flag
from stallscope.analyses.sites import DEPTH, site_names
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa

    from stallscope.tracking import PageOptions, Tracked

ANY = 0xFF  # flag of a row of the log
IMAGE_SHIFT = 52  # pages of later process images are told apart by the bits above


class PageView:
    """The page references of one or several process images, with names."""

    def __init__(
        self, parts: Sequence[Tracked], depth: int = DEPTH, wrappers: Sequence[str] = ()
    ) -> None:
        self.parts = list(parts)
        self.recording = str(parts[0].recording.path)
        self.options: PageOptions = parts[0].result.options
        self.source = parts[0].recording.meta.source
        self._depth, self._wrappers = depth, wrappers
        self.instructions = sum(part.result.instructions for part in parts)
        self.accesses = sum(part.result.accesses for part in parts)
        self.references = sum(part.result.references for part in parts)
        self.footprint = sum(part.result.footprint for part in parts)
        if not self.footprint:
            raise StallscopeError(
                f"{parts[0].recording.path.name} references no pages",
                "nothing was measured, or the program did nothing",
            )

    @functools.cached_property
    def log(self) -> pa.Table:
        """Every image's references behind those of the one before; buckets are numbered over all.
        What PATH units tell beside references is in the parts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found, first, began = [], 0, 0
        for number, part in enumerate(self.parts):
            log = with_flag(part.table("page_log"), ANY & ~GONE)
            if number:
                page = pc.bit_wise_or(
                    log.column("page"), pa.scalar(number << IMAGE_SHIFT, pa.uint64())
                )
                bucket = pc.add(log.column("bucket"), pa.scalar(first, pa.uint32()))
                time = pc.add(log.column("time"), pa.scalar(began, pa.uint64()))
                for name, column in (("page", page), ("bucket", bucket), ("time", time)):
                    index = log.schema.get_field_index(name)
                    log = log.set_column(index, log.schema.field(index), column)
            found.append(log)
            first += len(part.table("bucket"))
            began += part.result.instructions
        return pa.concat_tables(found)

    @functools.cached_property
    def buckets(self) -> list[tuple[str, str]]:
        """Name and kind of each, in the numbers of the log."""
        found = []
        for part in self.parts:
            sites = site_names(part.recording.table("site"), self._depth, self._wrappers)
            found += [(_name(row, sites), row["kind"]) for row in part.table("bucket").to_pylist()]
        return found

    def processes(self) -> list[Process]:
        metas = [part.recording.meta for part in self.parts]
        return [Process(meta.name, meta.pid, list(meta.command)) for meta in metas]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [row for part in self.parts for row in part.table(table).to_pylist()]

    def references_kept(self) -> pa.Table:
        """The order in which pages were used, without the pages used last."""
        return with_flag(self.log, NOT_HOT)

    def exact_curve(self, thread: int | None = None) -> list[CurveRow]:
        """Images run one after the other with pages of their own, so that their misses add up."""
        curves = []
        for part in self.parts:
            rows = part.table("page_curve").to_pylist()
            curves.append([(r["pages"], r["misses"]) for r in rows if r["thread"] == thread])
        return summed(curves)

    def threads_apart(self) -> bool:
        """Whether each thread has a curve of its own."""
        return any(row["thread"] is not None for row in self.rows("page_curve"))


def _name(row: dict[str, Any], sites: Mapping[int, str]) -> str:
    if row["kind"] == "heap":
        return sites.get(row["site"], f"site {row['site']}")
    if row["kind"] == "stack":
        return STACK
    if row["kind"] == "mapping":
        return row["name"] or "<anonymous memory>"
    return str(row["name"])
