# SPDX-License-Identifier: Apache-2.0
"""A monitor on its core alone, told what happens in a few words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stallscope.errors import StallscopeError
from stallscope.monitors import Monitor
from stallscope.monitors.simulator import Simulator

_SHAPE = re.compile(r"(\w+)(?:@(\d+))?((?::\w*){0,3})")


def stepped(monitor: Monitor, happenings: Sequence[str], limit: int) -> dict[str, Any]:
    """Each instruction that ran, what it did to the machine, the words and where cycles went."""
    simulator = Simulator(monitor)
    rows: list[dict[str, Any]] = []
    labels = {at: name for name, at in monitor.image.labels.items()}

    def run() -> None:
        for cycle, address, text in simulator.steps():
            if len(rows) >= limit:
                return
            rows.append(
                {
                    "cycle": cycle,
                    "address": address,
                    "label": labels.get(address, ""),
                    "instruction": text,
                }
            )

    run()
    for text in happenings:
        event, cycle, address, data, core = _happening(text, simulator.state()["now"])
        simulator.notify(event, cycle, core=core, address=address, data=data)
        run()
    state = simulator.state()
    return {
        "rows": rows,
        "acts": [
            {"cycle": cycle, "feature": name, "a": a, "b": b}
            for _, name, a, b, cycle in simulator.acts
        ],
        "words": {name: simulator.word(name) for name in monitor.image.words},
        "account": state["account"],
        "faults": [
            {"what": what, "cycle": cycle, "address": pc, "signal": signal}
            for what, cycle, pc, signal in state["faults"]
        ],
    }


def _happening(text: str, now: int) -> tuple[str, int, int, int, int]:
    match = _SHAPE.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        numbers = [int(word, 0) if word else 0 for word in match[3].split(":")[1:]]
    except ValueError as error:
        raise StallscopeError(
            f"--event {text}: not understood", now="--event store@500:0x1000:7:0"
        ) from error
    address, data, core = [*numbers, 0, 0, 0][:3]
    return match[1], max(now, int(match[2] or 0)), address, data, core
