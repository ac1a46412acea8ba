# SPDX-License-Identifier: Apache-2.0
"""Puts what the engine has gathered on disk: tables as Parquet, then meta.json as the seal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from stallscope import _engine, meta, tables, tracking
from stallscope.errors import StallscopeError
from stallscope.meta import Meta
from stallscope.tables import Columns, TableWriter

QUALITY = "quality"


class Quality(msgspec.Struct, frozen=True):
    """A row for the quality table that the engine cannot know."""

    kind: str
    severity: str
    explanation: str
    count: int = 1


class ProcessWriter:
    """The folder of one process image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[str, TableWriter] = {}

    def append(self, table: str, columns: Columns) -> None:
        self._writer(table).append(tables.to_arrow(table, columns))

    def append_quality(self, rows: Sequence[Quality]) -> None:
        self.append_rows(QUALITY, [msgspec.to_builtins(row) for row in rows])

    def append_rows(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        import pyarrow as pa

        self._writer(table).append(pa.Table.from_pylist(rows, tables.arrow_schema(table)))

    def _writer(self, table: str) -> TableWriter:
        if table not in self._writers:
            self._writers[table] = TableWriter(self.folder / f"{table}.parquet", table)
        return self._writers[table]

    def abandon(self) -> None:
        """Half a table helps nobody: the stream holds all that tables are made of."""
        for writer in self._writers.values():
            writer.abandon()
            writer.path.unlink(missing_ok=True)
        self._writers.clear()

    def seal(self, facts: Meta) -> Meta:
        files = {}
        for writer in self._writers.values():
            writer.close()
            writer.path.chmod(0o600)
            files[writer.path.name] = meta.digest(writer.path)
        sealed = msgspec.structs.replace(facts, state="done", files=files)
        meta.write(sealed, self.folder)
        return sealed


class RecordingWriter:
    """The folders of a whole process tree. One symbol cache serves all of them.

    A disk that refuses loses tables, never the target: the first refusal is kept in `failure`.
    """

    def __init__(self) -> None:
        self.symbols = _engine.SymbolCache()
        self._processes: dict[str, ProcessWriter] = {}
        self.pages: dict[str, TableWriter] = {}  # logs of page references, by folder
        self.failure: StallscopeError | None = None

    def process(self, folder: str) -> ProcessWriter:
        if folder not in self._processes:
            self._processes[folder] = ProcessWriter(Path(folder))
        return self._processes[folder]

    def take_batches(self, recorder: _engine.Recorder) -> None:
        for folder, table, columns in recorder.take_batches():
            if self.failure is None:
                self.guard(lambda f=folder, t=table, c=columns: self._append(f, t, c))

    def _append(self, folder: str, table: str, columns: Columns) -> None:
        if table != tracking.LOG:
            return self.process(folder).append(table, columns)
        if folder not in self.pages:
            self.pages[folder] = tracking.new_log(Path(folder))
        return self.pages[folder].append(tables.to_arrow(table, columns))

    def guard(self, work: object) -> None:
        import pyarrow as pa

        assert callable(work)
        try:
            work()
        except (OSError, pa.ArrowException) as error:
            number = error.errno if isinstance(error, OSError) else None
            reason = os.strerror(number) if number else str(error)
            self.failure = StallscopeError(
                "the recording could not be written",
                reason,
                "free some space, or record to another disk with -o",
                status=125,
            )
            for writer in self._processes.values():
                writer.abandon()
            for log in self.pages.values():
                tracking.drop_log(log)
            self.pages.clear()

    def finish(self, process: _engine.Process, facts: Meta, quality: Sequence[Quality]) -> Meta:
        """Tables and meta.json of a process image that has ended."""
        totals, made = process.target.tables(self.symbols)
        facts = msgspec.structs.replace(facts, threads=len(made["thread"]["thread"]), **totals)

        def work() -> None:
            nonlocal facts
            writer = self.process(process.folder)
            for table, columns in (*process.target.rows_left(), *made.items()):
                writer.append(table, columns)
            writer.append_quality(quality)
            facts = writer.seal(facts)

        if self.failure is None:
            self.guard(work)
        self._processes.pop(process.folder, None)
        return facts


def make_folder(folder: Path) -> None:
    """A new folder that only its owner can read."""
    try:
        folder.mkdir(parents=True)
        os.chmod(folder, 0o700)  # noqa: PTH101 - before anything is in it, whatever the umask
    except OSError as error:
        raise StallscopeError(f"cannot make {folder}", error.strerror or "", status=125) from error


def write_tables(
    folder: Path, facts: Meta, made: dict[str, Any], quality: Sequence[Quality]
) -> None:
    """A process image whose tables are all there at once."""
    writer = ProcessWriter(folder)
    for table, columns in made.items():
        writer.append(table, columns)
    writer.append_quality(quality)
    writer.seal(facts)
