# SPDX-License-Identifier: Apache-2.0
"""A folder of what many hosts recorded, by day, program and build id.

FLEET/day=2026-11-16/program=redis-server/build=3f…/HASH.parquet: a file holds what one ingest found
for one day, program and build. A recording is in the fleet when its rows are, and all of them come
in one file that appears in one step; so an ingest that was interrupted is simply run again, and
nothing is there twice. Any Parquet reader can read it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from stallscope import meta
from stallscope.analyses import fleet as analysis
from stallscope.analyses.fleet import (
    FleetDiff,
    FleetObjectRow,
    FleetObjects,
    FleetTop,
    HostSum,
    ObjectSum,
    TopRow,
)
from stallscope.analyses.significance import mean_interval
from stallscope.errors import StallscopeError
from stallscope.recording import CHILDREN
from stallscope.scale.fleet_rows import FleetRow, IngestTask, identity
from stallscope.scale.pool import Pool

if TYPE_CHECKING:
    import duckdb

FOLDER = "fleet"  # when not told
EACH = 40  # recordings of a task
FLUSH = 20_000  # recordings in memory at most


@dataclass(frozen=True)
class Skipped:
    recording: str
    error: str


@dataclass(frozen=True)
class Ingested:
    fleet: str
    added: int  # recordings
    known: int
    unfinished: int  # still being recorded, or left so
    skipped: int
    rows: list[Skipped]


def ingest(
    sources: Sequence[str | Path], fleet: str | Path = FOLDER, *, jobs: int | None = None
) -> Ingested:
    """Everything below these folders that the fleet does not have yet. What cannot be read is
    skipped, counted and named."""
    folder = Path(fleet)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StallscopeError(f"cannot make the fleet {folder}", error.strerror or "") from error
    with _locked(folder):
        known = _known(folder)
        before, unfinished = 0, 0
        wanted: dict[str, tuple[str, str]] = {}  # by path: identity and host
        skipped: list[Skipped] = []
        for path, host in _found(sources):
            try:
                who = identity(path)
                if who in known:
                    before += 1
                elif _is_done(path):
                    wanted[str(path.resolve())] = (who, host)
                else:
                    unfinished += 1
            except OSError as error:
                skipped.append(Skipped(str(path), error.strerror or str(error)))
        added: set[str] = set()
        for start in range(0, len(wanted), FLUSH):
            part = dict(list(wanted.items())[start : start + FLUSH])
            new = {p: host for p, (who, host) in part.items() if who not in added}
            rows, failed = _read(list(new.items()), jobs)
            _write(folder, _once(rows))
            skipped += failed
            read = [wanted[p][0] for p in new.keys() - {one.recording for one in failed}]
            before += len(part) - len(new) + len(read) - len(set(read))
            added.update(read)
    skipped.sort(key=lambda one: one.recording)
    return Ingested(str(folder), len(added), before, unfinished, len(skipped), skipped)


def _once(rows: Sequence[FleetRow]) -> list[FleetRow]:
    """Copies of one recording have the same rows."""
    return list({(row.recording, row.object, row.kind): row for row in rows}.values())


def _found(sources: Sequence[str | Path]) -> Iterator[tuple[Path, str]]:
    """Recordings, and the folder that each lies in as the name of its host."""
    for source in sources:
        top = Path(source)
        if not top.is_dir():
            raise StallscopeError(f"there is no folder {top}")
        for place, folders, files in os.walk(top):
            if meta.NAME in files:
                folders.clear()  # its children come with it
                path = Path(place)
                yield path, path.resolve().parent.name
            else:
                folders[:] = sorted(name for name in folders if name != CHILDREN)


def _is_done(path: Path) -> bool:
    """Cheaply; what is damaged is found out when it is read."""
    text = (path / meta.NAME).read_bytes()
    return b'"recording"' not in text[:400] or b'"state": "recording"' not in text


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StallscopeError(
                f"{folder} is being written to", "another ingest runs", "try again when it is done"
            ) from None
        yield


def _read(
    wanted: Sequence[tuple[str, str]], jobs: int | None
) -> tuple[list[FleetRow], list[Skipped]]:
    tasks = [
        IngestTask(number, list(wanted[start : start + EACH]))
        for number, start in enumerate(range(0, len(wanted), EACH))
    ]
    rows: list[FleetRow] = []
    skipped: list[Skipped] = []
    pool = Pool(jobs or len(os.sched_getaffinity(0)))
    with contextlib.closing(pool.run(tasks)) as answers:
        for done in answers:
            if done.failure is not None:
                of = tasks[done.number].recordings
                skipped += [Skipped(path, done.failure.what) for path, _ in of]
                continue
            rows += done.rows
            skipped += [Skipped(path, why) for path, why in done.skipped]
    return rows, skipped


def _write(folder: Path, rows: Sequence[FleetRow]) -> None:
    parts: dict[tuple[str, str, str], list[FleetRow]] = {}
    for row in rows:
        parts.setdefault((row.day, row.program, row.build), []).append(row)
    for (day, program, build), part in parts.items():
        names = (f"day={day}", f"program={_plain(program)}", f"build={_plain(build)}")
        _write_part(folder.joinpath(*names), part)


def _plain(name: str) -> str:
    return quote(name, safe="")[:200] or "-"


def _write_part(place: Path, rows: list[FleetRow]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows.sort(key=lambda row: (row.recording, row.object or "", row.kind))
    names = FleetRow.__struct_fields__
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    ids = "".join(dict.fromkeys(columns["recording"]))
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, fresh = tempfile.mkstemp(prefix=".new-", dir=place)
        os.close(handle)
        try:
            table = pa.table(columns, schema=_schema())
            pq.write_table(
                table, fresh, compression="zstd", compression_level=1, write_page_checksum=True
            )
            Path(fresh).replace(place / f"{hashlib.sha256(ids.encode()).hexdigest()[:20]}.parquet")
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StallscopeError(f"cannot write below {place}", error.strerror or "") from error


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"seconds": pa.float64(), "wait": pa.float64()}
    kinds |= {"samples": pa.uint64(), "every": pa.uint64()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in FleetRow.__struct_fields__])


def _files(folder: Path, program: str = "*", builds: Sequence[str] = ("*",)) -> list[str]:
    return sorted(
        str(path)
        for build in builds
        for path in folder.glob(f"day=*/program={program}/build={build}/*.parquet")
    )


def _known(folder: Path) -> set[str]:
    files = _files(folder)
    if not files:
        return set()
    with _asked(files) as base:
        return {row[0] for row in base.execute("SELECT DISTINCT recording FROM f").fetchall()}


@contextlib.contextmanager
def _asked(files: Sequence[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """The rows of these files as f."""
    import duckdb

    base = duckdb.connect()
    try:
        base.read_parquet(list(files), hive_partitioning=False).create_view("f")
        yield base
    except duckdb.Error as error:
        raise StallscopeError(
            "the fleet cannot be read", str(error).splitlines()[0], "ingest into a new folder"
        ) from error
    finally:
        base.close()


def _opened(fleet: str | Path, **which: Any) -> list[str]:
    folder = Path(fleet)
    if not folder.is_dir():
        raise StallscopeError(
            f"there is no fleet {folder}", now=f"stallscope fleet ingest FOLDER --fleet {folder}"
        )
    files = _files(folder, **which)
    if not files:
        what = ", ".join(str(value) for value in which.values())
        raise StallscopeError(
            f"{folder} holds nothing" + (f" of {what}" if what else ""),
            now="stallscope fleet top shows what it holds",
        )
    return files


def top(fleet: str | Path = FOLDER, *, by: str = "program", since: str | None = None) -> FleetTop:
    """Where all hosts together wait for memory: by program, or by object of each program."""
    if by not in ("program", "object"):
        raise StallscopeError(f"--by {by}", "there is: program, object")
    with _asked(_opened(fleet)) as base:
        day = since or ""
        totals = "object IS NULL AND day >= ?"
        whole = base.execute(
            f"""SELECT sum(wait), count(DISTINCT host), count(*), min(day), max(day)
                FROM f WHERE {totals}""",
            [day],
        ).fetchall()[0]
        of = "object IS NULL" if by == "program" else "object IS NOT NULL"
        name = "NULL" if by == "program" else "object"
        rows = base.execute(
            f"""SELECT f.program, {name} AS named, count(DISTINCT host), count(DISTINCT build),
                       count(DISTINCT recording), sum(samples), sum(wait), any_value(t.every)
                FROM f JOIN (SELECT program, sum(every) AS every FROM f WHERE {totals}
                             GROUP BY program) t ON f.program = t.program
                WHERE {of} AND day >= ? GROUP BY f.program, named
                ORDER BY sum(wait) DESC, f.program, named""",
            [day, day],
        ).fetchall()
    return FleetTop(
        str(fleet),
        by,
        whole[1],
        whole[2],
        whole[3],
        whole[4],
        [_top_row(row, whole[0] or 1.0) for row in rows],
    )


def _top_row(row: tuple[Any, ...], waited: float) -> TopRow:
    program, name, hosts, builds, recordings, samples, wait, every = row
    return TopRow(
        program=program,
        object=name,
        hosts=hosts,
        builds=builds,
        recordings=recordings,
        samples=int(samples),
        wait=wait,
        share=wait / waited,
        of_time=int(samples) / max(1, int(every)),
    )


def _match(fleet: str | Path, build: str) -> tuple[str, str]:
    """The program and the whole id of a build that is given by its beginning."""
    found = {
        (path.parent.name.removeprefix("program="), path.name.removeprefix("build="))
        for path in Path(fleet).glob("day=*/program=*/build=*")
        if path.name.removeprefix("build=").startswith(build)
    }
    if len(found) != 1 or not build:
        names = ", ".join(sorted(f"{p} {b[:12]}" for p, b in found)[:5])
        raise StallscopeError(
            f"{'several builds begin' if found else 'no build begins'} with {build!r}",
            names,
            "stallscope fleet builds shows them all",
        )
    return found.pop()


@dataclass(frozen=True)
class BuildRow:
    program: str
    build: str
    first_day: str
    last_day: str
    hosts: int
    recordings: int


@dataclass(frozen=True)
class FleetBuilds:
    fleet: str
    rows: list[BuildRow]


def builds(fleet: str | Path = FOLDER) -> FleetBuilds:
    """Which builds of which programs ran when, and on how many hosts."""
    with _asked(_opened(fleet)) as base:
        rows = base.execute(
            """SELECT program, build, min(day), max(day), count(DISTINCT host), count(*)
               FROM f WHERE object IS NULL GROUP BY ALL ORDER BY program, min(day), build"""
        ).fetchall()
    return FleetBuilds(str(fleet), [BuildRow(*row) for row in rows])


def objects(
    program: str, fleet: str | Path = FOLDER, *, build: str | None = None, seed: int = 1
) -> FleetObjects:
    """What a program waits for on all hosts, as a share of its time, with intervals over hosts."""
    which = [_match(fleet, build)[1]] if build is not None else ["*"]
    with _asked(_opened(fleet, program=_plain(program), builds=which)) as base:
        hosts, sums = _sums(base)
        count = sum(host.recordings for host in hosts.values())
    rows = []
    every = sum(host.every for host in hosts.values())
    for (name, kind), of in sums.items():
        shares = [of[h].samples / max(1, hosts[h].every) if h in of else 0.0 for h in hosts]
        low, high = mean_interval(shares, rounds=400, seed=seed)
        samples = sum(one.samples for one in of.values())
        share = samples / max(1, every)
        rows.append(FleetObjectRow(program, name, kind, len(of), samples, share, low, high))
    rows.sort(key=lambda row: (-row.samples, row.object))
    return FleetObjects(str(fleet), program, build, count, rows)


def _sums(
    base: duckdb.DuckDBPyConnection,
) -> tuple[dict[str, HostSum], dict[tuple[str, str], dict[str, ObjectSum]]]:
    """By host, and by object and host; waiting for memory at all is an object too."""
    hosts = {
        host: HostSum(count, int(every), day)
        for host, count, every, day in base.execute(
            """SELECT host, count(*), sum(every), min(day) FROM f WHERE object IS NULL
               GROUP BY host ORDER BY host"""
        ).fetchall()
    }
    objects: dict[tuple[str, str], dict[str, ObjectSum]] = {}
    for name, kind, host, samples, squares in base.execute(
        """SELECT coalesce(object, ?), kind, host, sum(samples),
                  sum(samples::DOUBLE * samples::DOUBLE / greatest(every, 1))
           FROM f WHERE samples > 0 GROUP BY ALL ORDER BY ALL""",
        [analysis.ALL],
    ).fetchall():
        objects.setdefault((name, kind), {})[host] = ObjectSum(int(samples), squares)
    return hosts, objects


def diff(
    before: str,
    after: str,
    fleet: str | Path = FOLDER,
    *,
    alpha: float = analysis.ALPHA,
    seed: int = 1,
) -> FleetDiff:
    """What got worse or better from one build of a program to another, given by their ids or the
    beginnings of these; by how much, on how many hosts, since when."""
    if not 0 < alpha < 1:
        raise StallscopeError(f"--alpha {alpha}: it lies between 0 and 1")
    _opened(fleet)
    (program, old), (other, new) = _match(fleet, before), _match(fleet, after)
    if program != other or old == new:
        raise StallscopeError(
            f"{before} and {after} are no two builds of one program", f"of {program} and {other}"
        )
    parts = []
    for build in (old, new):
        with _asked(_opened(fleet, program=program, builds=[build])) as base:
            parts.append(_sums(base))
    hosts = (parts[0][0], parts[1][0])
    compared = _compared(parts[0][1], parts[1][1])
    rows, paired, count = analysis.changes(unquote(program), hosts, compared, alpha, seed)
    recordings = sum(host.recordings for part in hosts for host in part.values())
    return FleetDiff(
        fleet=str(fleet),
        program=unquote(program),
        before=old,
        after=new,
        paired=paired,
        hosts=len({*hosts[0], *hosts[1]}),
        recordings=recordings,
        alpha=alpha,
        compared=count,
        rows=rows,
    )


def _compared(
    old: Mapping[tuple[str, str], dict[str, ObjectSum]],
    new: Mapping[tuple[str, str], dict[str, ObjectSum]],
) -> dict[tuple[str, str], tuple[dict[str, ObjectSum], dict[str, ObjectSum]]]:
    return {key: (old.get(key, {}), new.get(key, {})) for key in sorted({*old, *new})}
