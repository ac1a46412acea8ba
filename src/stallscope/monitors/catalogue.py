# SPDX-License-Identifier: Apache-2.0
"""What there is to choose from: bundled monitors, events, features, instructions."""

from __future__ import annotations

from typing import Any

from stallscope import _engine, monitors


def catalogue() -> dict[str, Any]:
    rows = []
    for name in monitors.bundled():
        made = monitors.load(name)
        rows.append({"monitor": name, "detectors": len(made.image.detectors), "about": made.about})
    return {
        "rows": rows,
        "events": [
            {"event": name, "source": source, "where": where, "meaning": meaning}
            for name, source, meaning, where in _engine.monitor_events()
        ],
        "features": [
            {"feature": name, "where": where, "meaning": meaning}
            for name, meaning, where in _engine.monitor_features()
        ],
        "instructions": [
            {"instruction": name, "cycles": cycles, "meaning": meaning}
            for name, _, _, _, cycles, meaning in _engine.monitor_instructions()
        ],
    }
