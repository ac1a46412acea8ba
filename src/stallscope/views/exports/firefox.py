# SPDX-License-Identifier: Apache-2.0
"""The processed format of the Firefox Profiler: each line and object is a sample as heavy as its
latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stallscope.analyses.export import Export

VERSION, PROCESSED_VERSION = 24, 44  # newer profilers bring older profiles up to date


class _Tables:
    """Strings, functions, frames and stacks, each once."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.functions: dict[tuple[int, int | None], int] = {}
        self.frames: dict[tuple[int, int | None], int] = {}
        self.stacks: dict[tuple[int | None, int], int] = {}

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def stack(self, prefix: int | None, name: str, file: str, line: int | None) -> int:
        where = self.string(file) if file else None
        key = (self.string(name), where)
        function = self.functions.setdefault(key, len(self.functions))
        frame = self.frames.setdefault((function, line), len(self.frames))
        return self.stacks.setdefault((prefix, frame), len(self.stacks))


def render(export: Export) -> bytes:
    tables = _Tables()
    stacks: list[int] = []
    for spot in export.spots:
        stack = tables.stack(None, spot.function, spot.file, spot.line)
        if spot.object:
            stack = tables.stack(stack, f"[{spot.object}]", "", None)
        stacks.append(stack)
    thread = {
        "name": "GeckoMain",
        "isMainThread": True,
        "processType": "default",
        "processName": export.program,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "pid": str(export.pid),
        "tid": export.pid,
        "showMarkersInTimeline": False,
        "samples": {
            "length": len(stacks),
            "stack": stacks,
            "time": list(range(len(stacks))),
            "weight": [spot.latency for spot in export.spots],
            "weightType": "samples",
        },
        "markers": {
            key: [] for key in ("category", "data", "endTime", "name", "phase", "startTime")
        }
        | {"length": 0},
        **_tables(tables),
    }
    document = {"meta": _meta(export), "libs": [], "threads": [thread], "pages": [], "counters": []}
    return msgspec.json.encode(document)


def _meta(export: Export) -> dict[str, Any]:
    return {
        "version": VERSION,
        "preprocessedProfileVersion": PROCESSED_VERSION,
        "product": export.program,
        "interval": 1,
        "startTime": 0,
        "processType": 0,
        "stackwalk": 1,
        "debug": False,
        "symbolicated": True,
        "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
        "markerSchema": [],
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "extra": [],
    }


def _tables(tables: _Tables) -> dict[str, Any]:
    frames, functions, stacks = list(tables.frames), list(tables.functions), list(tables.stacks)
    nothing, zeros = [None] * len(frames), [0] * len(frames)
    return {
        "frameTable": {
            "length": len(frames),
            "address": [-1] * len(frames),
            "inlineDepth": zeros,
            "category": zeros,
            "subcategory": zeros,
            "func": [function for function, _ in frames],
            "nativeSymbol": nothing,
            "innerWindowID": nothing,
            "implementation": nothing,
            "line": [line for _, line in frames],
            "column": nothing,
            "optimizations": nothing,
        },
        "funcTable": {
            "length": len(functions),
            "name": [name for name, _ in functions],
            "fileName": [file for _, file in functions],
            "isJS": [False] * len(functions),
            "relevantForJS": [False] * len(functions),
            "resource": [-1] * len(functions),
            "lineNumber": [None] * len(functions),
            "columnNumber": [None] * len(functions),
        },
        "stackTable": {
            "length": len(stacks),
            "prefix": [prefix for prefix, _ in stacks],
            "frame": [frame for _, frame in stacks],
            "category": [0] * len(stacks),
            "subcategory": [0] * len(stacks),
        },
        "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        "nativeSymbols": {
            "length": 0,
            "address": [],
            "functionSize": [],
            "libIndex": [],
            "name": [],
        },
        "stringArray": list(tables.strings),
    }
