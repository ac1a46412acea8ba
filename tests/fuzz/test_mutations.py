# SPDX-License-Identifier: Apache-2.0
"""A sample of what `make fuzz` does a million times."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _mutate_recording() -> ModuleType:
    path = Path(__file__).with_name("mutate_recording.py")
    spec = importlib.util.spec_from_file_location("mutate_recording", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_damaged_recording_is_an_error_or_reads_the_same() -> None:
    counts = _mutate_recording().attack(20_000, seed=7)
    assert counts["different"] == 0
    assert counts["error"] > 15_000
    assert sum(counts.values()) == 20_000
