# SPDX-License-Identifier: Apache-2.0
"""speedscope's file format: a profile of latency and one of misses; functions with their objects
above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stallscope.analyses.export import Export

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def render(export: Export) -> bytes:
    frames: dict[tuple[str, str, int | None], int] = {}
    stacks, latency, misses = [], [], []
    for spot in export.spots:
        stack = [frames.setdefault((spot.function, spot.file, spot.line), len(frames))]
        if spot.object:
            stack.append(frames.setdefault((f"[{spot.object}]", "", None), len(frames)))
        stacks.append(stack)
        latency.append(spot.latency)
        misses.append(spot.misses)
    profiles = [
        _profile(f"latency ({export.latency_unit})", stacks, latency),
        _profile(export.misses_unit, stacks, misses),
    ]
    document = {
        "$schema": SCHEMA,
        "name": export.program,
        "exporter": "stallscope",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(*frame) for frame in frames]},
        "profiles": profiles,
    }
    return msgspec.json.encode(document)


def _frame(name: str, file: str, line: int | None) -> dict[str, Any]:
    frame: dict[str, Any] = {"name": name}
    if file:
        frame["file"] = file
    if line:
        frame["line"] = line
    return frame


def _profile(name: str, stacks: list[list[int]], weights: list[int]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": stacks,
        "weights": weights,
    }
