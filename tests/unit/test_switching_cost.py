# SPDX-License-Identifier: Apache-2.0
"""What a switch costs, from windows that are noisy."""

from __future__ import annotations

import math
import random

import pytest

from stallscope.analyses.switching_cost import switching_cost

FREQUENCIES = (50, 100, 500, 2000)


def windows(seconds: float, none: float, seed: int) -> list[tuple[float, float, float]]:
    draw = random.Random(seed)
    return [
        (
            frequency,
            frequency * draw.uniform(0.98, 1.0),
            none
            + frequency * seconds
            + draw.gauss(0, 0.03)
            + (draw.random() < 0.05) * draw.uniform(-1, 1),
        )
        for frequency in FREQUENCIES
        for _ in range(100)
    ]


def test_the_cost_of_a_switch_is_found_in_noise_that_is_greater() -> None:
    inside = {"seconds": 0, "counting": 0, "under": 0}
    for seed in range(40):
        found = switching_cost(windows(20e-6, 0.004, seed))
        assert found.seconds.value == pytest.approx(20e-6, rel=0.4)
        for name, truth in (("seconds", 20e-6), ("counting", 0.004), ("under", 800)):
            estimate = getattr(found, name)
            inside[name] += estimate.low <= truth * 1.02 and truth * 0.98 <= estimate.high
    assert min(inside.values()) >= 34  # of 40, at 95%


def test_the_medians_interval_covers_the_truth() -> None:
    inside = 0
    for seed in range(200):
        row = switching_cost([(100, 100, random.Random(seed + i).gauss(0.01, 1)) for i in range(
            0, 40_000, 400)]).rows[0]  # fmt: skip
        inside += row.low <= 0.01 <= row.high
        assert row.windows == 100
    assert inside >= 184


def test_what_costs_nothing_has_no_limit() -> None:
    found = switching_cost([(50, 50, -0.01), (50, 50, -0.02), (50, 50, -0.01)])
    assert found.under.value == math.inf and found.seconds.value == 0
