# SPDX-License-Identifier: Apache-2.0
"""The fields of variables and heap blocks that addresses lie in, from the files that were
recorded."""

from __future__ import annotations

import bisect
import contextlib
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from stallscope import _engine, types
from stallscope.recording import Recording


class Variables:
    """Variables have the types that they were declared with."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        rows = recording.table("object").select(["kind", "name", "address", "size"]).to_pylist()
        found = [row for row in rows if row["kind"] == "global" and row["size"]]
        self._rows = sorted(found, key=lambda row: (row["address"], -row["size"]))
        self._starts = [row["address"] for row in self._rows]
        self._guesses: dict[int, _engine.Guess | None] = {}

    @functools.cached_property
    def _types(self) -> _engine.Types | None:
        return _types(self._recording)

    def _find(self, address: int) -> dict[str, Any] | None:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._starts[at] + self._rows[at]["size"]:
            return None
        row: dict[str, Any] = self._rows[at]
        return row

    def name(self, address: int) -> str:
        row = self._find(address)
        return str(row["name"]) if row else ""

    def field(self, address: int) -> str:
        row = self._find(address)
        if row is None or self._types is None:
            return ""
        start = row["address"]
        with contextlib.suppress(_engine.EngineError, OSError):
            if start not in self._guesses:
                self._guesses[start] = self._types.variable(start)
            return _field(self._types, self._guesses[start], address - start)
        return ""


class Blocks:
    """Types of heap blocks are inferred from the code that accesses the lines they lie in."""

    def __init__(
        self,
        recording: Recording,
        lines: Mapping[int, Mapping[str, Any]],
        buckets: Mapping[int, Mapping[str, Any]],
        accesses: Iterable[Mapping[str, Any]],
    ) -> None:
        """`lines` by their first byte, with the bucket and the start of a block that lies there."""
        self._recording, self._lines, self._buckets = recording, lines, buckets
        self._uses: dict[int, dict[int, int]] = {}  # times, by bucket and operation
        for row in accesses:
            if row["line"] in lines:
                uses = self._uses.setdefault(lines[row["line"]]["bucket"], {})
                uses[row["operation"]] = uses.get(row["operation"], 0) + row["count"]

    @functools.cached_property
    def _types(self) -> _engine.Types | None:
        return _types(self._recording)

    @functools.cached_property
    def _guesses(self) -> dict[int, _engine.Guess | None]:
        if self._types is None:
            return {}
        wanted = {number for uses in self._uses.values() for number in uses}
        operations = {
            row["operation"]: row
            for row in self._recording.table("operation").to_pylist()
            if row["operation"] in wanted
        }
        calls = types.calls(self._recording)
        found: dict[int, _engine.Guess | None] = {}
        for bucket, uses in self._uses.items():
            row = self._buckets[bucket]
            if row["kind"] not in types.GUESSED:
                continue
            told = [
                types.use(operations[number], times)
                for number, times in uses.items()
                if number in operations
            ]
            with contextlib.suppress(_engine.EngineError, OSError):
                found[bucket] = self._types.infer(
                    told, calls.get(row["site"], []), types.largest(row)
                )
        return found

    def field(self, line: int, offset: int) -> str:
        """Empty where another block lies than the one that is known of the line."""
        row = self._lines.get(line)
        if row is None or not row["start"] or row["bucket"] not in self._uses:
            return ""
        within = line + offset - row["start"]
        if not 0 <= within < types.largest(self._buckets[row["bucket"]]) or self._types is None:
            return ""
        with contextlib.suppress(_engine.EngineError, OSError):
            return _field(self._types, self._guesses.get(row["bucket"]), within)
        return ""


def _types(recording: Recording) -> _engine.Types | None:
    with contextlib.suppress(_engine.EngineError, OSError):
        return _engine.Types(list(types.with_variables(recording)))
    return None


def _field(known: _engine.Types, guess: _engine.Guess | None, offset: int) -> str:
    """Of members that share their place, the first."""
    if guess is None:
        return ""
    place = offset % guess.element_size if guess.element_size else offset
    return str(known.fields(guess, [place])[0][0]).partition("|")[0]
