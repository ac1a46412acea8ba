# SPDX-License-Identifier: Apache-2.0
"""The page references of a recording: followed while it was made, or by reading its trace again.

What is found is kept below results/, as what machines find is, under a key of its own.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import __version__, _engine, meta, tables
from stallscope.errors import StallscopeError
from stallscope.meta import Meta
from stallscope.recording import STREAM, Recording
from stallscope.results import FOLDER, NoTrace, identity, kept_table, placed

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "pages.json"
LOG = "page_log"
FORMAT = 5  # of what is kept; what an earlier version left is made again


class PageOptions(msgspec.Struct, frozen=True):
    """What is logged, and the sizes of a PATH unit."""

    page_size: int = 4096
    hot: int = 16  # pages used last, references to which are not logged
    cores: int = 0  # each with a unit, shared by the threads in turn; 0: one for each thread
    tlb_entries: int = 128
    tlb_ways: int = 16
    buffer_entries: int = 2048
    buffer_ways: int = 4
    filter_entries: int = 64
    log_entries: int = 128
    refresh: int = 0  # entries of the log after which hot pages are read; 0: never
    departures: int = 1  # 0: what leaves the tables is not told


class PageResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """pages.json"""

    stallscope: str
    recording: str  # identity of it
    options: PageOptions
    instructions: int
    accesses: int
    references: int  # to another page than the one before
    footprint: int  # pages
    files: dict[str, meta.File]


class Tracked:
    """The page references of one process image."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self.recording = recording
        self.folder = folder
        self.result = msgspec.json.decode((folder / NAME).read_bytes(), type=PageResult)

    def table(self, name: str) -> pa.Table:
        return kept_table(self.folder, self.result.files, name)


def key(recording: Meta, options: PageOptions) -> str:
    parts = ("pages", identity(recording), msgspec.json.encode(options), __version__, FORMAT)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def engine_options(options: PageOptions) -> dict[str, int]:
    plain: dict[str, int] = msgspec.to_builtins(options)
    for name, value in plain.items():
        if not 0 <= value < 2**32:
            raise StallscopeError(
                f"--{name.replace('_', '-')} {value}: the number lies between 0 and {2**32 - 1}"
            )
    return plain


def track(recording: Recording, options: PageOptions) -> Tracked:
    """The page references of this process image: kept, or by reading its trace."""
    folder = recording.path / FOLDER / key(recording.meta, options)
    if not (folder / NAME).exists():
        folder = _compute(recording, options)
    return Tracked(recording, folder)


def _compute(recording: Recording, options: PageOptions) -> Path:
    if not recording.meta.trace:
        raise NoTrace(
            f"{recording.path.name} has no page references with these options",
            "it was recorded without --trace, and not with --probe pages and these options",
            "stallscope record --probe pages -- PROGRAM, or record --trace",
        )

    def fill(append: Callable[[Any], None]) -> dict[str, Any]:
        wanted = engine_options(options)
        stream = str(recording.path / STREAM)
        try:
            return _engine.track_pages(stream, wanted, list(placed(recording)), append)
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error

    return store(recording.path, recording.meta, options, fill)


def new_log(path: Path) -> tables.TableWriter:
    """In a folder that will be the result's."""
    (path / FOLDER).mkdir(exist_ok=True, mode=0o700)
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=path / FOLDER))
    return tables.TableWriter(fresh / f"{LOG}.parquet", LOG)


def drop_log(log: tables.TableWriter) -> None:
    log.abandon()
    shutil.rmtree(log.path.parent, ignore_errors=True)


def _arrow(name: str, columns: Any) -> pa.Table:
    """Of the engine's columns, or of what is a table already."""
    return tables.to_arrow(name, columns) if isinstance(columns, dict) else columns


def store(
    path: Path,
    recording: Meta,
    options: PageOptions,
    fill: Callable[[Callable[[Any], None]], dict[str, Any]],
    log: tables.TableWriter | None = None,
) -> Path:
    """Keeps what `fill` finds, in one step: a folder that is there is whole. `fill` gets a function
    that takes the columns of one piece of the log after the other, behind those in `log`."""
    folder = path / FOLDER / key(recording, options)
    log = log or new_log(path)
    fresh = log.path.parent
    try:
        found = fill(lambda columns: log.append(_arrow(LOG, columns)))
        log.close()
        files = {log.path.name: meta.digest(log.path)}
        for name, columns in found["tables"].items():
            writer = tables.TableWriter(fresh / f"{name}.parquet", name)
            writer.append(_arrow(name, columns))
            writer.close()
            files[writer.path.name] = meta.digest(writer.path)
        result = PageResult(
            stallscope=__version__,
            recording=identity(recording),
            options=options,
            files=files,
            **{name: found[name] for name in found if name != "tables"},
        )
        (fresh / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
        fresh.rename(folder)
    except (OSError, StallscopeError):
        drop_log(log)
        if not (folder / NAME).exists():  # else somebody else was faster
            raise
    return folder
