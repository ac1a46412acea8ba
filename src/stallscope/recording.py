# SPDX-License-Identifier: Apache-2.0
"""A recording on disk: a folder of tables, opened lazily and checked as it is read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stallscope import _engine, meta, tables
from stallscope.errors import StallscopeError
from stallscope.meta import Meta

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".stallscope"
CHILDREN = "children"
STREAM = "stream.ss"
VALUES = "values.ss"
LIVE_SOURCES = ("clock", "perf")  # samples at native speed
PAGES = "pages"  # the source by page protection


def is_sampled(facts: Meta) -> bool:
    """It holds samples, of a source that takes them or of another tool's file, and no stream."""
    return facts.source in LIVE_SOURCES or (facts.source == "import" and facts.samples > 0)


def values_kept(image: Recording) -> tuple[str, ...]:
    """The memory whose values it holds; nothing when that is all of it, or none."""
    asked = image.meta.options.get("values")
    return tuple(asked) if isinstance(asked, list) and "all" not in asked else ()


class Recording:
    """One process image of a target, and the recordings of its children below it."""

    def __init__(self, path: Path, parent: Recording | None = None) -> None:
        self.path = path
        self.parent = parent
        self.recovered: _Recovered | None = None
        if (path / meta.NAME).exists() or parent is None:
            self.meta = meta.read(path)
        else:
            self.meta = _unwritten(path, parent.meta)
        if self.meta.state != "done":
            self.recovered = _Recovered(path, self.meta)
            self.meta = self.recovered.meta

    def __repr__(self) -> str:
        return f"Recording({str(self.path)!r})"

    @functools.cached_property
    def children(self) -> list[Recording]:
        """Every other process image of the tree, in the order in which they began."""
        folder = self.path / CHILDREN
        if self.parent is not None or not folder.is_dir():
            return []
        found = [Recording(path, self) for path in folder.iterdir() if path.is_dir()]
        return sorted(found, key=lambda child: (child.meta.created, child.meta.name))

    def processes(self) -> Iterator[Recording]:
        """This process image and all below it."""
        yield self
        yield from self.children

    def table_names(self) -> list[str]:
        """Of the tables that recordings of its source have."""
        if not is_sampled(self.meta):
            return [*tables.schemas().tables, *filter(self._has, tables.schemas().captured)]
        sampled = [t for t in tables.schemas().sampled if f"{t}.parquet" in self.meta.files]
        return [*tables.schemas().tables, "bucket", *sampled]

    def _has(self, name: str) -> bool:
        return self.recovered.has(name) if self.recovered else f"{name}.parquet" in self.meta.files

    def table(self, name: str) -> pa.Table:
        """One table of this process image, as Arrow."""
        if name not in self.table_names():
            known = ", ".join(self.table_names())
            raise StallscopeError(f"there is no table {name}", f"there are: {known}")
        if self.recovered:
            return self.recovered.table(name)
        return tables.read(self._checked(f"{name}.parquet"), name)

    def _checked(self, file: str) -> Path:
        path = self.path / file
        known = self.meta.files.get(file)
        if known is None:
            raise StallscopeError(f"{self.path} has no {file}")
        try:
            found = meta.digest(path)
        except OSError as error:
            raise StallscopeError(f"cannot read {path}", error.strerror or "") from error
        if found.bytes < known.bytes:
            raise StallscopeError(
                f"{path} is truncated",
                f"it has {found.bytes} of {known.bytes} bytes",
                "copy the recording again",
            )
        if found != known:
            raise StallscopeError(
                f"{path} is damaged", "its checksum does not fit", "record the program again"
            )
        return path


class _Recovered:
    """What the stream on disk still says when the recorder did not live to write tables."""

    def __init__(self, path: Path, known: Meta) -> None:
        stream = path / STREAM
        if not stream.exists():
            raise StallscopeError(
                f"{path} holds nothing",
                "its recorder ended before the program did anything",
                "record the program again",
            )
        try:
            self._found = _engine.recover(str(stream))
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error
        self._totals, self._tables = self._found.target.tables(_engine.SymbolCache())
        self._left = dict(self._found.target.rows_left())
        life = self._found.target.life()
        exited = life["ended"] and life["exit_code"] <= 255
        self.meta = msgspec.structs.replace(
            known,
            pid=life["pid"],
            forked=life["forked"],
            command=[meta.as_text(word) for word in life["command"]] or known.command,
            ending="exit" if exited else "unknown",
            exit_code=life["exit_code"] if exited else None,
            complete=False,
            allocations=life["allocations"],
            frees=life["frees"],
            peak_heap_bytes=life["peak_heap_bytes"],
            measured_all=life["measured_all"],
            threads=len(self._tables["thread"]["thread"]),
            stream_bytes=stream.stat().st_size,
            **self._totals,
        )

    def has(self, name: str) -> bool:
        return name in self._left or name in self._tables

    def table(self, name: str) -> pa.Table:
        import pyarrow as pa

        parts = [
            tables.to_arrow(name, source[name])
            for source in (self._left, self._tables)
            if name in source
        ]
        return pa.concat_tables(parts)


def _unwritten(path: Path, root: Meta) -> Meta:
    """A child whose recorder died before it wrote its meta.json."""
    return msgspec.structs.replace(
        root, state="recording", name=path.name, parent=root.name, files={}
    )


def open_recording(path: str | Path | None = None) -> Recording:
    """The recording at `path`, or the newest in the current folder."""
    if path is None:
        return Recording(newest())
    folder = Path(path)
    if not folder.exists():
        raise StallscopeError(f"there is no recording {folder}")
    return Recording(folder)


def newest() -> Path:
    found = [path for path in Path().glob(f"*{SUFFIX}") if (path / meta.NAME).exists()]
    if not found:
        raise StallscopeError("there is no recording here", now="stallscope record -- PROGRAM ARGS")
    return max(found, key=lambda path: (path / meta.NAME).stat().st_mtime_ns)
