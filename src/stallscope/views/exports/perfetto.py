# SPDX-License-Identifier: Apache-2.0
"""Chrome's trace JSON, which Perfetto opens: lives of threads, regions, and counters. One unit of
time is one instruction (or nanosecond) of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stallscope.analyses.export import Export


def render(export: Export) -> bytes:
    pid = export.pid
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": export.program}}
    ]
    for thread, name in export.threads.items():
        events.append(
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": name}}
        )
    for span in export.spans:
        events.append(
            {
                "ph": "X",
                "name": span.name or "thread",
                "cat": "stallscope",
                "pid": pid,
                "tid": span.thread,
                "ts": span.start,
                "dur": max(span.end, span.start) - span.start,
            }
        )
    for counter in export.counters:
        for time, value in zip(counter.times, counter.values, strict=True):
            args = {counter.unit: value}
            events.append({"ph": "C", "name": counter.name, "pid": pid, "ts": time, "args": args})
    about = {"time": export.time_unit, "machine": export.machine, "command": export.command}
    return msgspec.json.encode({"traceEvents": events, "otherData": about})
