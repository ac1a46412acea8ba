# SPDX-License-Identifier: Apache-2.0
"""What of memory a recording touches, line by line: found in its trace, and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stallscope import __version__, _engine, meta, results
from stallscope.errors import StallscopeError
from stallscope.recording import STREAM, Recording

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
Followed = tuple[int | None, int, int]  # site or none, address, bytes of an element


class TouchResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stallscope: str
    recording: str
    truncated: bool
    files: dict[str, meta.File]


class Touched:
    """One process image: the tables touch, touch_offset and bucket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        document = (folder / results.NAME).read_bytes()
        self.result = msgspec.json.decode(document, type=TouchResult)

    def table(self, name: str) -> pa.Table:
        return results.kept_table(self.folder, self.result.files, name)


def touched(recording: Recording, followed: Sequence[Followed] = ()) -> Touched:
    """The words of the elements of what is `followed` are counted as well."""
    if not recording.meta.trace:
        raise results.NoTrace(
            f"{recording.path.name} has no trace",
            "which lines are touched is seen in every access, and it was recorded without --trace",
            "stallscope record --trace -- PROGRAM",
        )
    parts = (results.identity(recording.meta), sorted(map(repr, followed)), __version__, FORMAT)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
    folder = recording.path / results.FOLDER / f"touch-{key}"
    if not (folder / results.NAME).exists():
        stream = str(recording.path / STREAM)
        try:
            found = _engine.touched(stream, list(results.placed(recording)), list(followed))
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error

        def result(files: dict[str, meta.File]) -> TouchResult:
            identity = results.identity(recording.meta)
            return TouchResult(__version__, identity, found["truncated"], files)

        results.keep(folder, found["tables"], result)
    return Touched(folder)
