# SPDX-License-Identifier: Apache-2.0
"""Traces of addresses: a recording with a kept trace, made by the engine's own writer."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope import __version__, _engine, meta
from stallscope.errors import StallscopeError
from stallscope.meta import Meta
from stallscope.record.importing import Progress, formats
from stallscope.record.writer import ProcessWriter, Quality
from stallscope.recording import STREAM
from stallscope.tables import schemas

if TYPE_CHECKING:
    from stallscope.record.importing import Work

NAME = "0.0"
_COMMAND = re.compile(rb"^==\d+== Command: (.*)$", re.M)


def import_addresses(work: Work) -> tuple[str, ...]:
    command = _command(work)
    try:
        found, cut_off = _convert(work, command)
        facts, quality = _facts(work, command, found, cut_off)
        _write(work.folder, facts, found, quality)
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    return tuple(row.explanation for row in quality if row.severity != "info")


def _command(work: Work) -> list[str]:
    """Valgrind says what it ran; the others do not."""
    if work.format == "lackey":
        pieces = formats.Pieces(work.path)
        told = _COMMAND.search(pieces.read()[: formats.FIRST_BYTES])
        pieces.close()
        if told:
            return told[1].decode("utf-8", "backslashreplace").split()
    return [work.path.name]


def _convert(work: Work, command: list[str]) -> tuple[dict[str, Any], bool]:
    """What the engine says about the stream that it wrote, and whether the file ended too early."""
    kind = "columns" if work.format == "parquet" else work.format
    words = (str(work.folder / STREAM), command, work.maps, kind, str(work.path))
    stream = _engine.TraceImport(*words, work.max_accesses)
    cut_off = False
    if kind == "columns":
        from stallscope.record.importing.parquet import columns_of

        for fraction, columns in columns_of(work.path):
            stream.feed_columns(*columns)
            work.on_progress(Progress(fraction, stream.accesses))
            if stream.full:
                break
    else:
        pieces = formats.Pieces(work.path)
        for piece in pieces:
            stream.feed(piece)
            work.on_progress(Progress(pieces.fraction, stream.accesses))
            if stream.full:
                break
        cut_off = pieces.cut_off
        pieces.close()
    found = stream.finish()
    return found, cut_off or found["cut_off"]


def _quality(work: Work, found: dict[str, Any], cut_off: bool) -> Iterator[Quality]:
    yield Quality(
        "imported", "info", f"the accesses come from a {work.format} file, not from a run seen here"
    )
    if cut_off:
        yield Quality("truncated", "warning", "the file is cut off; what is there was read")
    if work.max_accesses and found["accesses"] >= work.max_accesses:
        yield Quality("limited", "info", "reading stopped at the number of accesses asked for")
    if found["skipped"] and work.format == "lackey":
        text = "lines that are no accesses were left out"
        yield Quality("lines", "info", text, found["skipped"])
    if found["unplaced"]:
        text = "instructions have an address that is too large, or one too many, and none is shown"
        yield Quality("instructions", "warning", text, found["unplaced"])
    if work.format == "champsim":
        text = "the trace has no sizes: every access is to one line, as ChampSim takes it"
        yield Quality("sizes", "info", text)
    if not work.maps:
        text = "nobody said what lies where: objects are the areas that were touched (--maps FILE)"
        yield Quality("names", "info", text)


def _facts(
    work: Work, command: list[str], found: dict[str, Any], cut_off: bool
) -> tuple[Meta, list[Quality]]:
    now = datetime.datetime.now(datetime.UTC)
    options = {
        "file": meta.as_text(str(work.path.absolute())),
        "format": work.format,
        "max_accesses": work.max_accesses,
        "maps": bool(work.maps),
    }
    facts = Meta(
        format_version=schemas().format_version,
        stallscope=__version__,
        state="recording",
        name=NAME,
        parent=None,
        command=command,
        folder=meta.as_text(str(Path.cwd())),
        created=now.isoformat(timespec="microseconds"),
        source="import",
        machine=work.machine,
        options=options,
        host={},
        complete=not cut_off,
        trace=True,
        counted=False,
        stream_bytes=found["bytes"],
    )
    return facts, list(_quality(work, found, cut_off))


def _write(folder: Path, facts: Meta, found: dict[str, Any], quality: list[Quality]) -> None:
    """Tables as `record` writes them, from the stream that the engine has just written."""
    import msgspec

    target = _engine.recover(str(folder / STREAM)).target
    totals, made = target.tables(_engine.SymbolCache())
    writer = ProcessWriter(folder)
    for table, columns in (*target.rows_left(), *made.items()):
        writer.append(table, columns)
    writer.append_rows("object", [_area(start, size) for start, size in found["areas"]])
    writer.append_quality(quality)
    threads = len(made["thread"]["thread"])
    writer.seal(msgspec.structs.replace(facts, threads=threads, **totals))


def _area(start: int, size: int) -> dict[str, Any]:
    return {
        "kind": "mapping",
        "name": f"{start:#x}",
        "type": "",
        "address": start,
        "size": size,
        "born": 0,
        "died": None,
        "thread": None,
        "site": None,
        "allocator": "",
    }
