# SPDX-License-Identifier: Apache-2.0
"""A folder of what many hosts recorded, by day, program and build id: ingest and questions.

A recording is in the fleet when its rows are, and all of them come in one file that appears in one
step (fleet_folder.py); so an ingest that was interrupted is simply run again, and nothing is there
twice. Any Parquet reader can read it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from stallscope import meta
from stallscope.analyses import fleet_changes as analysis
from stallscope.analyses.fleet import (
    BuildRow,
    FleetBuilds,
    FleetDiff,
    FleetObjectRow,
    FleetObjects,
    FleetTop,
    TopRow,
)
from stallscope.analyses.host_scores import HostSum, ObjectSum
from stallscope.analyses.significance import mean_interval
from stallscope.errors import StallscopeError
from stallscope.recording import CHILDREN
from stallscope.scale.fleet_folder import (
    compact,
    locked,
    match,
    merge,
    opened,
    plain,
    rename,
    write,
)
from stallscope.scale.fleet_folder import known as in_fleet
from stallscope.scale.fleet_rows import FleetRow, IngestTask, identity, named
from stallscope.scale.pool import Pool
from stallscope.scale.symbols import FOLDER as SYMBOLS
from stallscope.scale.symbols import FleetSymbols, keep, kept

if TYPE_CHECKING:
    import duckdb

__all__ = ["builds", "compact", "diff", "ingest", "objects", "symbols", "top"]

FOLDER = "fleet"  # when not told
EACH = 40  # recordings of a task
FLUSH = 20_000  # recordings in memory at most
# Sums of whole numbers do not depend on the order of rows, which DuckDB does not promise.
WAITED = "sum(round(wait * 1e9)::HUGEINT) / 1e9"
SQUARES = "sum(round(samples::DOUBLE * samples::DOUBLE * 1e6 / greatest(every, 1))::HUGEINT)"


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
    with locked(folder):
        known = in_fleet(folder)
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
            rows, failed = _read(list(new.items()), jobs, folder)
            write(folder, _once(rows))
            skipped += failed
            read = [wanted[p][0] for p in new.keys() - {one.recording for one in failed}]
            before += len(part) - len(new) + len(read) - len(set(read))
            added.update(read)
        merge(folder)
    skipped.sort(key=lambda one: one.recording)
    return Ingested(str(folder), len(added), before, unfinished, len(skipped), skipped)


def symbols(files: Sequence[str | Path] = (), fleet: str | Path = FOLDER) -> FleetSymbols:
    """Adds files with symbols, each under its build id, and names by them what the fleet has; then
    all that it has."""
    folder = Path(fleet)
    origins = keep(files, folder)
    renamed = 0
    if origins:
        with locked(folder):
            where = str((folder / SYMBOLS).resolve())
            renamed = rename(folder, origins.keys(), lambda rows: named(rows, where))
    return FleetSymbols(str(fleet), len(origins), renamed, kept(folder, origins))


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


def _read(
    wanted: Sequence[tuple[str, str]], jobs: int | None, fleet: Path
) -> tuple[list[FleetRow], list[Skipped]]:
    symbols = fleet / SYMBOLS
    where = str(symbols.resolve()) if symbols.is_dir() else ""
    tasks = [
        IngestTask(number, list(wanted[start : start + EACH]), where)
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


def top(fleet: str | Path = FOLDER, *, by: str = "program", since: str | None = None) -> FleetTop:
    """Where all hosts together wait for memory: by program, or by object of each program."""
    if by not in ("program", "object"):
        raise StallscopeError(f"--by {by}", "there is: program, object")
    with opened(fleet) as base:
        day = since or ""
        totals = "object IS NULL AND day >= ?"
        whole = base.execute(
            f"""SELECT {WAITED}, count(DISTINCT host), count(*), min(day), max(day)
                FROM f WHERE {totals}""",
            [day],
        ).fetchall()[0]
        of = "object IS NULL" if by == "program" else "object IS NOT NULL"
        name = "NULL" if by == "program" else "object"
        rows = base.execute(
            f"""SELECT f.program, {name} AS named, count(DISTINCT host), count(DISTINCT build),
                       count(DISTINCT recording), sum(samples), {WAITED}, any_value(t.every)
                FROM f JOIN (SELECT program, sum(every) AS every FROM f WHERE {totals}
                             GROUP BY program) t ON f.program = t.program
                WHERE {of} AND day >= ? GROUP BY f.program, named
                ORDER BY {WAITED} DESC, f.program, named""",
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


def builds(fleet: str | Path = FOLDER) -> FleetBuilds:
    """Which builds of which programs ran when, and on how many hosts."""
    with opened(fleet) as base:
        rows = base.execute(
            """SELECT program, build, min(day), max(day), count(DISTINCT host), count(*)
               FROM f WHERE object IS NULL GROUP BY ALL ORDER BY program, min(day), build"""
        ).fetchall()
    return FleetBuilds(str(fleet), [BuildRow(*row) for row in rows])


def objects(
    program: str, fleet: str | Path = FOLDER, *, build: str | None = None, seed: int = 1
) -> FleetObjects:
    """What a program waits for on all hosts, as a share of its time, with intervals over hosts."""
    which = [match(fleet, build, program)[1]] if build is not None else ["*"]
    with opened(fleet, program=plain(program), builds=which) as base:
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
        host: HostSum(count, days, int(every), day)
        for host, count, days, every, day in base.execute(
            """SELECT host, count(*), count(DISTINCT day), sum(every), min(day)
               FROM f WHERE object IS NULL GROUP BY host ORDER BY host"""
        ).fetchall()
    }
    objects: dict[tuple[str, str], dict[str, ObjectSum]] = {}
    for name, kind, host, samples, squares, by_day in base.execute(
        f"""WITH daily AS (SELECT host, day, sum(every) AS every FROM f WHERE object IS NULL
                           GROUP BY ALL),
                 days AS (SELECT coalesce(object, ?) AS object, kind, host, day,
                                 sum(samples) AS samples, {SQUARES} AS squares
                          FROM f WHERE samples > 0 GROUP BY ALL)
            SELECT object, kind, host, sum(samples), sum(squares) / 1e6, {SQUARES} / 1e6
            FROM days JOIN daily USING (host, day) GROUP BY ALL ORDER BY ALL""",
        [analysis.ALL],
    ).fetchall():
        objects.setdefault((name, kind), {})[host] = ObjectSum(int(samples), squares, by_day)
    return hosts, objects


def diff(
    before: str,
    after: str,
    fleet: str | Path = FOLDER,
    *,
    program: str | None = None,
    alpha: float = analysis.ALPHA,
    seed: int = 1,
) -> FleetDiff:
    """What got worse or better from one build of a program to another, given by their ids or the
    beginnings of these; by how much, on how many hosts, since when. The program is told where
    several have such builds."""
    if not 0 < alpha < 1:
        raise StallscopeError(f"--alpha {alpha}: it lies between 0 and 1")
    with opened(fleet):
        (of, old), (other, new) = (match(fleet, build, program) for build in (before, after))
    if of != other or old == new:
        raise StallscopeError(
            f"{before} and {after} are no two builds of one program", f"of {of} and {other}"
        )
    parts = []
    for build in (old, new):
        with opened(fleet, program=of, builds=[build]) as base:
            parts.append(_sums(base))
    hosts = (parts[0][0], parts[1][0])
    compared = _compared(parts[0][1], parts[1][1])
    rows, paired, count = analysis.changes(unquote(of), hosts, compared, alpha, seed)
    recordings = sum(host.recordings for part in hosts for host in part.values())
    return FleetDiff(
        fleet=str(fleet),
        program=unquote(of),
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
