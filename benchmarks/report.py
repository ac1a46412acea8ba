# SPDX-License-Identifier: Apache-2.0
"""Rows of figures, each with its target where it has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.measure import Measured

RECORD_OF_CACHEGRIND = {"matmul": 0.4, "gzip": 0.4, "hashjoin": 0.4}
MACHINE_OF_CACHEGRIND = {"matmul": 1.0, "gzip": 1.0, "hashjoin": 1.0, "sqlite3": 1.0}
HEAP_OF_NO_HEAP = 1.5
GZIP_OF_NATIVE = 8.0
BYTES_AN_ACCESS = {"matmul": 1.5, "gzip": 1.5, "list": 3.0}
RECORDER_MIB = 500.0
HELP_SECONDS = 0.15


@dataclass(frozen=True)
class Row:
    subject: str
    figure: str
    measured: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def verdict(self) -> str:
        if self.at_most is None and self.at_least is None:
            return ""
        small_enough = self.at_most is None or self.measured <= self.at_most
        large_enough = self.at_least is None or self.measured >= self.at_least
        return "pass" if small_enough and large_enough else "MISS"

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "" if self.at_most is None else f"at most {self.at_most:g}"


def rows_of(measured: Measured) -> Iterator[Row]:
    """What one program's runs say."""
    name = measured.name
    for way in measured.seconds:
        yield Row(name, way, measured.median(way), "s")
    if "count" in measured.seconds:
        limit = GZIP_OF_NATIVE if name == "gzip" else None
        yield Row(name, "count / native", measured.ratio("count", "native"), "", limit)
    if "trace" in measured.seconds:
        yield Row(name, "trace / native", measured.ratio("trace", "native"), "")
    if "no heap" in measured.seconds:
        ratio = measured.ratio("machine", "no heap")
        yield Row(name, "machine / no heap", ratio, "", HEAP_OF_NO_HEAP)
    if "cachegrind" in measured.seconds:
        yield from _cachegrind_rows(measured)
    if measured.trace is not None:
        yield from _trace_rows(measured)


def _cachegrind_rows(measured: Measured) -> Iterator[Row]:
    name = measured.name
    yield Row(name, "cachegrind / native", measured.ratio("cachegrind", "native"), "")
    if "none" in measured.seconds:
        yield Row(name, "none / cachegrind", measured.ratio("none", "cachegrind"), "")
    for way, limits in (("count", RECORD_OF_CACHEGRIND), ("machine", MACHINE_OF_CACHEGRIND)):
        ratio = measured.ratio(way, "cachegrind")
        yield Row(name, f"{way} / cachegrind", ratio, "", limits.get(name))
        yield Row(name, "  by processor time", measured.processor_ratio(way, "cachegrind"), "")
    if "trace" in measured.seconds:
        yield Row(name, "trace / cachegrind", measured.ratio("trace", "cachegrind"), "")


def _trace_rows(measured: Measured) -> Iterator[Row]:
    assert measured.trace is not None
    name, trace = measured.name, measured.trace
    yield Row(name, "accesses", trace.accesses / 1e6, "million")
    yield Row(
        name,
        "trace size",
        trace.bytes_per_access,
        "bytes/access",
        BYTES_AN_ACCESS.get(name),
    )
    rate = trace.accesses / measured.median("trace") / 1e6
    yield Row(name, "trace rate", rate, "million accesses/s")
    yield Row(name, "recorder's memory", measured.peak_bytes / 2**20, "MiB", RECORDER_MIB)


def table(rows: list[Row]) -> Table:
    drawn = Table("", "figure", box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.add_column("measured", justify="right")
    drawn.add_column("unit")
    drawn.add_column("target", justify="right")
    drawn.add_column("")
    before = ""
    for row in rows:
        drawn.add_row(
            Text(row.subject if row.subject != before else ""),
            Text(row.figure),
            f"{row.measured:.3f}" if row.measured < 100 else f"{row.measured:,.0f}",
            row.unit,
            row.target,
            Text(row.verdict, style="bold red" if row.verdict == "MISS" else "green"),
        )
        before = row.subject
    return drawn
