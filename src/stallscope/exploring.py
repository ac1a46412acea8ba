# SPDX-License-Identifier: Apache-2.0
"""A recording to walk through: from objects to functions to lines to source text, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from stallscope.analyses.crossings import PivotRow, crossings, pivot
from stallscope.analyses.objects import MissView
from stallscope.annotating import Source, read_source
from stallscope.recording import Recording, is_sampled, open_recording
from stallscope.viewing import view

BY = {
    "objects": ("object",),
    "functions": ("function", "file"),
    "lines": ("file", "line", "function"),
}


class Exploration:
    """All that missed or waited, to be put together in any order."""

    def __init__(self, recording: Recording, **words: Any) -> None:
        self.recording = recording
        self.live = is_sampled(recording.meta)
        self.title = " ".join(recording.meta.command)
        found = view(recording, **words)
        self._rows = crossings(found)
        self.subtitle = recording.meta.source
        if isinstance(found, MissView):
            self.subtitle = f"on {found.replay.result.machine_name}"

    def rows(self, kind: str, where: Mapping[str, object]) -> list[PivotRow]:
        """`kind` is objects, functions or lines; `where` an object, a function, a file and line."""
        return pivot(self._rows, BY[kind], where)

    def source(self, file: str, line: int) -> tuple[Source, dict[int, PivotRow]]:
        """The text around a line, and what its lines cost."""
        found = {
            int(row.key[0]): row
            for row in pivot(self._rows, ("line",), {"file": file})
            if row.key[0] is not None
        }
        made = datetime.fromisoformat(self.recording.meta.created).timestamp()
        folders = [Path(self.recording.meta.folder)]
        return read_source(file, [*found, line], folders, made), found


def explore(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
) -> Exploration:
    """Of a recording (the newest here when not told) on a machine (as recorded)."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    return Exploration(opened, machine=machine, process=process)
