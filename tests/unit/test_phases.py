# SPDX-License-Identifier: Apache-2.0
"""Phases are where a breakdown is stable."""

from __future__ import annotations

import random

from stallscope.analyses.phases import phases

CAUSES = ("data_cache", "iu")


def row(data: float, iu: float, instructions: int = 1000) -> tuple[int, int, list[float]]:
    cpi = data + iu + 0.25
    return round(cpi * instructions), instructions, [data, iu, 0.25]


def test_three_stretches_are_three_phases_with_their_main_cause() -> None:
    draw = random.Random(1)

    def noisy(data: float, iu: float) -> tuple[int, int, list[float]]:
        return row(data * draw.uniform(0.95, 1.05), iu * draw.uniform(0.95, 1.05))

    rows = [noisy(2, 0.1) for _ in range(40)] + [noisy(0.1, 1) for _ in range(30)]
    rows += [noisy(1, 1) for _ in range(50)]
    found = phases(rows, CAUSES)
    assert [phase.main for phase in found][:2] == ["data_cache", "iu"]
    assert len(found) == 3
    assert [phase.instructions for phase in found] == [40_000, 30_000, 50_000]
    assert found[1].start == found[0].cycles
    assert sum(phase.cycles for phase in found) == sum(cycles for cycles, _, _ in rows)


def test_a_stable_run_is_one_phase_and_nothing_is_none() -> None:
    assert len(phases([row(1, 1)] * 100, CAUSES)) == 1
    assert phases([], CAUSES) == []


def test_a_short_disturbance_is_no_phase() -> None:
    rows = [row(1, 0.1)] * 200 + [row(1.5, 0.4)] + [row(1, 0.1)] * 200
    assert len(phases(rows, CAUSES)) == 1
