# SPDX-License-Identifier: Apache-2.0
"""Misses over time with the memory at hand and a group more or less of it, and the need itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import Line, Lines, Picture, numbers, recording_name
from stallscope.views.terminal.text import amount, size

if TYPE_CHECKING:
    from stallscope.analyses.page_epochs import EpochRow, PageEpochs

DRAWS = "PageEpochs"
COLUMNS = (
    ("epoch", "number"),
    ("misses", "number"),
    ("penalty of less", "number"),
    ("benefit of more", "number"),
    ("knee", "number"),
    ("new pages", "number"),
)


def picture(result: PageEpochs, limit: int | None) -> Picture:
    memory, group = size(result.memory_bytes), size(result.group * result.page_size)
    return Picture(
        title=f"Page misses over time: {recording_name(result.recording)}",
        facts=(
            f"memory of {memory}, groups of {group}",
            f"epochs of {amount(result.epoch)} references",
            f"footprint {size(result.footprint_pages * result.page_size)}",
        ),
        charts=(
            Lines(
                x_axis="time",
                x_unit="epochs",
                y_axis="misses",
                y_unit="misses",
                lines=(
                    _line(result, f"{group} less", "misses_less"),
                    _line(result, memory, "misses"),
                    _line(result, f"{group} more", "misses_more"),
                ),
                title="With more and with less",
            ),
            Lines(
                x_axis="time",
                x_unit="epochs",
                y_axis="memory",
                y_unit="bytes",
                lines=(
                    Line(
                        "knee",
                        tuple((r.epoch, r.knee_pages * result.page_size) for r in result.rows),
                    ),
                    Line(
                        "at hand",
                        tuple((row.epoch, result.memory_bytes) for row in result.rows),
                        dashed=True,
                    ),
                ),
                title="Where more memory stops to pay",
            ),
        ),
        numbers=numbers(
            COLUMNS, [_numbers(row, result.page_size) for row in result.rows[: limit or None]]
        ),
    )


def _line(result: PageEpochs, name: str, field: str) -> Line:
    return Line(name, tuple((row.epoch, getattr(row, field)) for row in result.rows))


def _numbers(row: EpochRow, page: int) -> tuple[str, ...]:
    return (
        str(row.epoch),
        f"{row.misses:,}",
        f"{row.penalty:,}",
        f"{row.benefit:,}",
        size(row.knee_pages * page),
        f"{row.new_pages:,}",
    )
