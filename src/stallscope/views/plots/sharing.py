# SPDX-License-Identifier: Apache-2.0
"""What threads miss remotely, one row a thread, dark where they miss: their shMaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import Matrix, MatrixRow, Picture, numbers, recording_name
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.sharing import Sharing, ThreadRow

DRAWS = "Sharing"
ENTRIES = 256
COLUMNS = (
    ("thread", "name"),
    ("cluster", "word"),
    ("chip", "number"),
    ("samples", "number"),
    ("remote misses", "number"),
)


def picture(result: Sharing, limit: int | None) -> Picture:
    shown = [row for row in result.thread_rows if row.map][: limit or None]
    return Picture(
        title=f"Which threads share data: {recording_name(result.recording)}",
        facts=(
            f"machine {clean(result.machine)}",
            f"{len(result.clusters)} clusters",
            f"{amount(result.samples)} samples",
            f"{amount(result.remote_misses)} remote misses, "
            f"{amount(result.remote_misses_placed)} when placed by clusters",
        ),
        charts=(
            Matrix(
                columns=ENTRIES,
                columns_are="counters of the shMaps, without lines that all threads share",
                rows=tuple(_row(row) for row in shown),
            ),
        ),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.thread_rows]),
        empty="no thread has remote misses",
    )


def _row(row: ThreadRow) -> MatrixRow:
    most = max(row.map.values())
    cells = tuple((at, count / most) for at, count in sorted(row.map.items()))
    return MatrixRow(clean(row.name), str(row.cluster), cells)


def _numbers(row: ThreadRow) -> tuple[str, ...]:
    cluster = row.state if row.cluster is None else str(row.cluster)
    return (
        clean(row.name),
        cluster,
        str(row.chip),
        amount(row.samples),
        amount(row.remote_misses),
    )
