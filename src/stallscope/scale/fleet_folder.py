# SPDX-License-Identifier: Apache-2.0
"""The files of a fleet: FLEET/day=2026-11-16/program=redis-server/build=3f…/HASH.parquet.

A file appears in one step and holds all rows of the recordings that are in it. Files of one day,
program and build are merged when there are many: the merged file is written beside them, then a
note (.merging.json) says which files it replaces. As long as the note is there, whoever reads takes
either the merged file or those it replaces, never both; so a merge may be killed at any point, and
the next writer ends it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from stallscope.errors import StallscopeError
from stallscope.scale.fleet_rows import FleetRow
from stallscope.scale.nameless import Place

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

LOCK = ".lock"  # held by who adds or merges
READERS = ".readers"  # shared by who reads; alone while a merge removes files
NOTE = ".merging.json"
MANY = 8  # files of one day, program and build that an ingest merges by itself
_OWN = re.compile(r"day=[^/]+/program=[^/]+/build=[^/]+/\w+\.parquet")
UNIQUE = ["recording", "object", "kind"]


class Merge(msgspec.Struct, frozen=True):
    """Paths below the fleet."""

    new: str
    old: list[str]


@dataclass(frozen=True)
class MergedRow:
    """What is one file now."""

    day: str
    program: str
    build: str
    files: int  # before


@dataclass(frozen=True)
class Compacted:
    fleet: str
    files_before: int
    files: int
    bytes_before: int
    bytes: int
    rows: list[MergedRow]


def is_fleet(folder: Path) -> bool:
    return next(folder.glob("day=*/program=*/build=*/*.parquet"), None) is not None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The one who writes. What a killed one left half done is ended first."""
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context((folder / LOCK).open("w"))
        except OSError as error:
            raise StallscopeError(f"cannot write to {folder}", error.strerror or "") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StallscopeError(
                f"{folder} is being written to", "another ingest runs", "try again when it is done"
            ) from None
        with _told_apart(folder):
            _end_merges(folder)
        yield


@contextlib.contextmanager
def _told_apart(folder: Path) -> Iterator[None]:
    """No reader is on its way while files are removed."""
    with (folder / READERS).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Files that are listed stay while they are read. A fleet that is only to be read has no
    writer to wait for."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file = held.enter_context((folder / READERS).open("rb"))
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


def plain(name: str) -> str:
    """As the name of a folder."""
    return quote(name, safe="")[:200] or "-"


def write(folder: Path, rows: Sequence[FleetRow]) -> None:
    parts: dict[tuple[str, str, str], list[FleetRow]] = {}
    for row in rows:
        parts.setdefault((row.day, row.program, row.build), []).append(row)
    for (day, program, build), part in parts.items():
        names = (f"day={day}", f"program={plain(program)}", f"build={plain(build)}")
        _write_part(folder.joinpath(*names), part)


def _write_part(place: Path, rows: list[FleetRow]) -> None:
    ids = "".join(dict.fromkeys(row.recording for row in rows))
    fresh = _write_beside(place, _table(rows))
    fresh.replace(place / f"{hashlib.sha256(ids.encode()).hexdigest()[:20]}.parquet")


def _table(rows: list[FleetRow]) -> pa.Table:
    import pyarrow as pa

    rows.sort(key=lambda row: (row.recording, row.object or "", row.kind))
    columns = {name: [getattr(row, name) for row in rows] for name in FleetRow.__struct_fields__}
    columns["places"] = [[msgspec.structs.asdict(one) for one in of] for of in columns["places"]]
    return pa.table(columns, schema=_schema())


def _write_beside(place: Path, table: pa.Table) -> Path:
    """A whole file under a name that nobody reads."""
    import pyarrow.parquet as pq

    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, fresh = tempfile.mkstemp(prefix=".new-", dir=place)
        os.close(handle)
        try:
            pq.write_table(
                table, fresh, compression="zstd", compression_level=1, write_page_checksum=True
            )
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StallscopeError(f"cannot write below {place}", error.strerror or "") from error
    return Path(fresh)


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"seconds": pa.float64(), "wait": pa.float64()}
    kinds |= {"samples": pa.uint64(), "every": pa.uint64()}
    numbers = {"at": pa.uint64(), "samples": pa.uint64()}
    place = [(name, numbers.get(name, pa.string())) for name in Place.__struct_fields__]
    kinds["places"] = pa.list_(pa.struct(place))
    return pa.schema([(name, kinds.get(name, pa.string())) for name in FleetRow.__struct_fields__])


def files(folder: Path, program: str = "*", builds: Sequence[str] = ("*",)) -> list[Path]:
    """What holds every row once."""
    skipped = {
        folder / path
        for merge in _noted(folder)
        if (folder / merge.new).exists()
        for path in merge.old
    }
    return sorted(
        path
        for build in builds
        for path in folder.glob(f"day=*/program={program}/build={build}/*.parquet")
        if path not in skipped
    )


def known(folder: Path) -> set[str]:
    """Recordings that are in the fleet."""
    found = files(folder)
    if not found:
        return set()
    with asked(found) as base:
        return {row[0] for row in base.execute("SELECT DISTINCT recording FROM f").fetchall()}


@contextlib.contextmanager
def asked(paths: Sequence[Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """The rows of these files as f."""
    import duckdb

    base = duckdb.connect()
    try:
        rows = base.read_parquet(
            [str(path) for path in paths], hive_partitioning=False, union_by_name=True
        )
        if "places" not in rows.columns:  # of an ingest that did not keep them
            rows = rows.select("*, NULL AS places")
        rows.create_view("f")
        yield base
    except duckdb.Error as error:
        raise StallscopeError(
            "the fleet cannot be read", str(error).splitlines()[0], "ingest into a new folder"
        ) from error
    finally:
        base.close()


@contextlib.contextmanager
def opened(fleet: str | Path, **which: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    """The rows of a fleet, or of one program and some builds of it, as f."""
    folder = Path(fleet)
    if not folder.is_dir():
        raise StallscopeError(
            f"there is no fleet {folder}", now=f"stallscope fleet ingest FOLDER --fleet {folder}"
        )
    with _reading(folder):
        found = files(folder, **which)
        if not found:
            what = ", ".join(str(value) for value in which.values())
            raise StallscopeError(
                f"{folder} holds nothing" + (f" of {what}" if what else ""),
                now="stallscope fleet top shows what it holds",
            )
        with asked(found) as base:
            yield base


def match(fleet: str | Path, build: str, program: str | None = None) -> tuple[str, str]:
    """The program and the whole id of a build that is given by its beginning."""
    of = "*" if program is None else plain(program)
    found = {
        (path.parent.name.removeprefix("program="), path.name.removeprefix("build="))
        for path in Path(fleet).glob(f"day=*/program={of}/build=*")
        if path.name.removeprefix("build=").startswith(build)
    }
    whole = {one for one in found if one[1] == build}
    if len(whole or found) != 1 or not build:
        names = ", ".join(sorted(f"{p} {b[:12]}" for p, b in found)[:5])
        raise StallscopeError(
            f"{'several builds begin' if found else 'no build begins'} with {build!r}",
            names,
            "stallscope fleet builds shows them all",
        )
    return (whole or found).pop()


def compact(fleet: str | Path = "fleet") -> Compacted:
    """One file for each day, program and build. Answers stay the same; running it again does
    nothing, and it may be killed at any point."""
    folder = Path(fleet)
    if not is_fleet(folder):
        raise StallscopeError(f"there is no fleet {folder}", "or it holds nothing")
    with locked(folder):
        before = files(folder)
        size = sum(path.stat().st_size for path in before)
        merged = merge(folder, least=2)
        after = files(folder)
    return Compacted(
        str(folder),
        len(before),
        len(after),
        size,
        sum(path.stat().st_size for path in after),
        merged,
    )


def merge(folder: Path, least: int = MANY) -> list[MergedRow]:
    """Of every day, program and build that has so many files. By who holds the lock."""
    places: dict[Path, list[Path]] = {}
    for path in files(folder):
        places.setdefault(path.parent, []).append(path)
    crowded = {place: paths for place, paths in places.items() if len(paths) >= least}
    if not crowded:
        return []
    _replace(folder, [(paths, _together(paths)) for paths in crowded.values()])
    return [_row(place, len(paths)) for place, paths in crowded.items()]


def _replace(folder: Path, tables: Iterable[tuple[Sequence[Path], pa.Table]]) -> None:
    """Files of one day, program and build by one, all at once. By who holds the lock."""
    fresh = [(paths, _write_beside(paths[0].parent, table)) for paths, table in tables]
    merges = [
        Merge(str(_merged_name(paths).relative_to(folder)), _below(folder, paths))
        for paths, _ in fresh
    ]
    try:
        with _told_apart(folder):
            _write_note(folder, merges)
            for (_, path), one in zip(fresh, merges, strict=True):
                path.replace(folder / one.new)
                _sync((folder / one.new).parent)
            _end_merges(folder)
    except OSError as error:
        raise StallscopeError(f"cannot merge files of {folder}", error.strerror or "") from error


Named = Callable[[list[FleetRow]], list[FleetRow]]


def rename(folder: Path, builds: Set[str], named: Named) -> int:
    """Rows that have places in these builds get the names that they have by now; how many
    recordings have others. By who holds the lock."""
    import pyarrow.parquet as pq

    replaced: list[tuple[Sequence[Path], pa.Table]] = []
    changed = 0
    for path in files(folder):
        if not _has_places(path, builds):
            continue
        rows = msgspec.convert(
            [list(row.values()) for row in _places_as_lists(pq.read_table(path).to_pylist())],
            list[FleetRow],
        )
        fresh = named(rows)
        differing = {(row.recording, row.object, row.samples) for row in rows} ^ {
            (row.recording, row.object, row.samples) for row in fresh
        }
        if differing:
            replaced.append(([path], _table(fresh)))
            changed += len({recording for recording, *_ in differing})
    if replaced:
        _replace(folder, replaced)
    return changed


def _places_as_lists(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {**row, "places": [list(place.values()) for place in row["places"] or ()]}


def _has_places(path: Path, builds: Set[str]) -> bool:
    import pyarrow.parquet as pq

    if "places" not in pq.read_schema(path).names:
        return False  # of an ingest that did not keep them
    column = pq.read_table(path, columns=["places"])["places"]
    found = column.combine_chunks().flatten().field("build").unique().to_pylist()
    return not builds.isdisjoint(found)


def _row(place: Path, count: int) -> MergedRow:
    day, program, build = (unquote(part.partition("=")[2]) for part in place.parts[-3:])
    return MergedRow(day, program, build, count)


def _below(folder: Path, paths: Sequence[Path]) -> list[str]:
    return [str(path.relative_to(folder)) for path in paths]


def _merged_name(paths: Sequence[Path]) -> Path:
    """That none of them has."""
    names = "".join(path.name for path in paths)
    return paths[0].with_name(f"{hashlib.sha256(names.encode()).hexdigest()[:20]}.parquet")


def _together(paths: Sequence[Path]) -> pa.Table:
    """Every row once, as an ingest of all would have written them."""
    with asked(paths) as base:
        names = ", ".join(FleetRow.__struct_fields__)
        rows = base.sql(
            f"""SELECT {names} FROM f
                QUALIFY row_number() OVER (PARTITION BY {", ".join(UNIQUE)}) = 1
                ORDER BY recording, coalesce(object, ''), kind"""
        )
        return rows.to_arrow_table().cast(_schema())


def _write_note(folder: Path, merges: list[Merge]) -> None:
    handle, fresh = tempfile.mkstemp(prefix=".new-", dir=folder)
    with os.fdopen(handle, "wb") as out:
        out.write(msgspec.json.encode(merges))
        out.flush()
        os.fsync(out.fileno())
    Path(fresh).replace(folder / NOTE)
    _sync(folder)


def _sync(folder: Path) -> None:
    """Renames in it are on the disk before what comes next is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _noted(folder: Path) -> list[Merge]:
    try:
        noted = msgspec.json.decode((folder / NOTE).read_bytes(), type=list[Merge])
        if not all(_OWN.fullmatch(path) for one in noted for path in (one.new, *one.old)):
            raise ValueError("it names what is no file of a fleet")
        return noted
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise StallscopeError(
            "the fleet cannot be read", f"{folder / NOTE}: {error}", "ingest into a new folder"
        ) from error


def _end_merges(folder: Path) -> None:
    """Removes what a merged file replaces; where it is not there, those stay what they are."""
    noted = _noted(folder)
    for one in noted:
        if (folder / one.new).exists():
            for path in one.old:
                (folder / path).unlink(missing_ok=True)
    (folder / NOTE).unlink(missing_ok=True)
    for left in (*folder.glob(".new-*"), *folder.glob("day=*/program=*/build=*/.new-*")):
        left.unlink(missing_ok=True)
