# SPDX-License-Identifier: Apache-2.0
"""Who throws whom out: a heat map for each level, rows the victims, columns the culprits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope.views.plots.picture import (
    Cell,
    HeatMap,
    Picture,
    cells_shown,
    numbers,
    recording_name,
    scope_facts,
)
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.evictions import EvictionMatrix, EvictionRow, Evictions

DRAWS = "Evictions"
COLUMNS = (
    ("level", "word"),
    ("evicted", "name"),
    ("by", "name"),
    ("at", "word"),
    ("evictions", "number"),
    ("of its evictions", "number"),
    ("of all evictions", "number"),
    ("sampled", "number"),
    ("sampled of its", "number"),
)


def picture(result: Evictions, limit: int | None) -> Picture:
    matrices = result.matrices(*cells_shown(limit))
    return Picture(
        title=f"Who evicts whom: {recording_name(result.recording)}",
        facts=(
            f"machine {clean(result.machine)}",
            f"{result.samples:,} samples, one in about {result.period:,} misses",
            *scope_facts(result),
        ),
        charts=tuple(_map(matrix) for matrix in matrices),
        numbers=numbers(COLUMNS, [_numbers(row) for row in result.rows]),
        empty="nothing was evicted",
    )


def _map(matrix: EvictionMatrix) -> HeatMap:
    level = clean(matrix.level)
    labels = tuple(clean(name) for name in matrix.names)
    return HeatMap(
        title=level,
        facts=f"{amount(matrix.evictions)} evictions of data, {amount(matrix.misses)} misses",
        rows_are="evicted",
        columns_are="by",
        labels=labels,
        cells=tuple(
            tuple(
                Cell(
                    share,
                    (
                        ("evicted", victim),
                        ("by", culprit),
                        ("evictions", f"{count:,}"),
                        ("of its evictions", f"{share:.2%}"),
                    ),
                )
                if count
                else None
                for culprit, share, count in zip(labels, shares, counts, strict=True)
            )
            for victim, shares, counts in zip(labels, matrix.shares, matrix.counts, strict=True)
        ),
        margins=(
            ("of all evictions", tuple(f"{weight:.1%}" for weight in matrix.weights)),
            *([_stays(matrix)] if any(share is not None for share in matrix.resident) else []),
        ),
        share_is="share of the victim's evictions",
        diagonal_is="evicts itself",
    )


def _stays(matrix: EvictionMatrix) -> tuple[str, tuple[str, ...]]:
    shares = ("" if share is None else f"{share:.1%}" for share in matrix.resident)
    return ("of it stays", tuple(shares))


def _numbers(row: EvictionRow) -> tuple[str, ...]:
    place = "" if row.function is None else f"{clean(row.function)}:{row.line or '?'}"
    return (
        clean(row.level),
        clean(row.evicted),
        clean(row.by),
        place,
        f"{row.count:,}",
        f"{row.share:.2%}",
        f"{row.share_all:.2%}",
        "" if row.sampled is None else f"{row.sampled:,}",
        "" if row.sampled_share is None else f"{row.sampled_share:.2%}",
    )
