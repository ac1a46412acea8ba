# SPDX-License-Identifier: Apache-2.0
"""What a fleet keeps of a recording: how often its program waited for each object.

Objects are told apart by their name without line numbers, which change from build to build. What
has no name is kept with its places (nameless.py), and named as soon as the fleet has symbols for
them. A recording that cannot be read is a failure of its own, and the others go on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import msgspec

from stallscope import meta
from stallscope.analyses.live import NO_ADDRESS, name_of
from stallscope.analyses.sites import site_names
from stallscope.errors import StallscopeError
from stallscope.recording import Recording, is_sampled
from stallscope.scale import nameless
from stallscope.scale.nameless import Modules, Place, without_line
from stallscope.scale.symbols import Names

UNKNOWN = "unknown"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class FleetRow(msgspec.Struct, frozen=True, array_like=True):
    """One object of one process image; its totals where `object` is None."""

    day: str
    program: str
    build: str
    recording: str  # of its meta.json: a copy has the same
    host: str
    source: str
    seconds: float
    object: str | None
    kind: str
    samples: int  # waiting for the object; for memory in the row of the totals
    wait: float  # seconds thereof, estimated
    every: int  # samples of the recording in whatever state
    places: list[Place] = []  # of what has no name yet


class IngestTask(msgspec.Struct, frozen=True, tag="ingest"):
    number: int
    recordings: list[tuple[str, str]]  # absolute path and the host that is not told otherwise
    symbols: str = ""  # folder of the fleet's files with symbols; empty: it has none


class IngestDone(msgspec.Struct, frozen=True, tag="ingest"):
    number: int
    rows: list[FleetRow] = []
    skipped: list[tuple[str, str]] = []  # path, and why
    failure: None = None


def compute_ingest(task: IngestTask) -> IngestDone:
    rows: list[FleetRow] = []
    skipped: list[tuple[str, str]] = []
    for path, host in task.recordings:
        try:
            rows += named(rows_of(Path(path), host), task.symbols)
        except StallscopeError as error:
            skipped.append((path, f"{error.what}: {error.why}" if error.why else error.what))
        except (OSError, ValueError, KeyError, TypeError) as error:  # what a damaged table raises
            skipped.append((path, f"it is damaged: {error}"))
    return IngestDone(task.number, rows, skipped)


def identity(folder: Path) -> str:
    """Which recording this is; of its meta.json alone, so that known ones cost little."""
    return hashlib.sha256((folder / meta.NAME).read_bytes()).hexdigest()[:24]


def rows_of(path: Path, host: str) -> list[FleetRow]:
    recording = Recording(path)
    if not is_sampled(recording.meta):
        raise StallscopeError(
            f"{path.name} holds no samples", f"it was recorded by --source {recording.meta.source}"
        )
    return [row for image in recording.processes() for row in _image_rows(image, host)]


def _image_rows(image: Recording, host: str) -> Iterator[FleetRow]:
    import pyarrow.compute as pc

    facts = image.meta
    program = _program(facts.command)
    if not _DAY.match(facts.created):
        raise StallscopeError(f"{image.path.name} does not tell its day", facts.created[:40])
    said = facts.options.get("host")
    common: dict[str, Any] = {
        "day": facts.created[:10],
        "program": program or UNKNOWN,
        "build": _build(image, program),
        "recording": identity(image.path),
        "host": said if isinstance(said, str) and said else host,
        "source": facts.source,
        "seconds": facts.seconds or 0.0,
    }
    samples = image.table("live_sample").select(["state", "bucket", "operation", "address"])
    every = samples.num_rows
    waiting = samples.filter(pc.equal(samples["state"], "memory"))
    each = _seconds_a_sample(image, every)
    total = waiting.num_rows
    yield FleetRow(**common, object=None, kind="", samples=total, wait=total * each, every=every)
    for (name, kind), (count, places) in _objects(image, waiting).items():
        yield FleetRow(
            **common,
            object=name,
            kind=kind,
            samples=count,
            wait=count * each,
            every=every,
            places=places,
        )


@dataclass(frozen=True)
class _Waiting:
    """Samples in one bucket at one instruction."""

    bucket: int | None
    operation: int | None
    samples: int


def _grouped(waiting: Any) -> list[_Waiting]:
    grouped = waiting.group_by(["bucket", "operation"], use_threads=False)
    counts = grouped.aggregate([([], "count_all")])
    columns = (counts[name].to_pylist() for name in ("bucket", "operation", "count_all"))
    return [_Waiting(*row) for row in zip(*columns, strict=True)]


def _addresses(waiting: Any, buckets: Iterable[int]) -> dict[tuple[int, int | None], list[int]]:
    """By bucket and operation, of these buckets."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(buckets, pa.uint32())
    found: dict[tuple[int, int | None], list[int]] = {}
    if len(wanted):
        of = waiting.filter(pc.is_in(waiting["bucket"], value_set=wanted))
        columns = (of[name].to_pylist() for name in ("bucket", "operation", "address"))
        for bucket, operation, address in zip(*columns, strict=True):
            if address is not None:
                found.setdefault((bucket, operation), []).append(address)
    return found


def _objects(image: Recording, samples: Any) -> dict[tuple[str, str], tuple[int, list[Place]]]:
    """Samples and places by name and kind. Only of the buckets that are needed: most buckets of a
    program never wait."""
    import pyarrow as pa
    import pyarrow.compute as pc

    waiting = _grouped(samples)
    buckets, sites = image.table("bucket"), image.table("site")
    wanted = pa.array({one.bucket for one in waiting} - {None}, pa.uint32())
    rows = buckets.filter(pc.is_in(buckets["bucket"], value_set=wanted)).to_pylist()
    used = pa.array([row["site"] for row in rows if row["site"] is not None], pa.uint32())
    sites = sites.filter(pc.is_in(sites["site"], value_set=used))
    names = site_names(sites)
    by_bucket = {row["bucket"]: (row, without_line(name_of(row, names))) for row in rows}
    by_site: dict[int, list[dict[str, Any]]] = {}
    for row in sites.to_pylist():
        by_site.setdefault(row["site"], []).append(row)
    modules = Modules(image.table("module").to_pylist())
    addresses = _addresses(samples, [row["bucket"] for row in rows if _may_hold_variables(row)])
    functions = _functions(image) if any(map(_is_unlogged_heap, rows)) else {}
    found: dict[tuple[str, str], tuple[int, list[Place]]] = {}
    for one in waiting:
        key, places = (NO_ADDRESS, "unknown"), []
        if one.bucket is not None:
            row, name = by_bucket[one.bucket]
            by = functions.get(one.operation) if _is_unlogged_heap(row) else None
            key = (f"{name} in {by}" if by else name, row["kind"])
            lie = addresses.get((one.bucket, one.operation), [])
            places = _places(modules, row, by_site, lie)
        had, at = found.get(key, (0, []))
        found[key] = (had + one.samples, _joined(at, places))
    return found


def _is_unlogged_heap(bucket: Mapping[str, Any]) -> bool:
    """Or other memory that nobody named: the best that is known is who touches it."""
    return bucket["kind"] == "mapping" and bucket["name"] in ("", nameless.HEAP)


def _functions(image: Recording) -> dict[int | None, str]:
    """That have names, by the operations in them."""
    found = {}
    for row in image.table("operation").select(["operation", "function", "file"]).to_pylist():
        if row["function"] and not nameless.is_offset(row["function"]):
            file = f" ({PurePath(row['file']).name})" if row["file"] else ""
            found[row["operation"]] = row["function"] + file
    return found


def _places(
    modules: Modules,
    bucket: Mapping[str, Any],
    by_site: Mapping[int, list[dict[str, Any]]],
    addresses: Iterable[int],
) -> list[Place]:
    if bucket["site"] in by_site:
        return modules.path(by_site[bucket["site"]])
    return modules.variables(addresses)


def _may_hold_variables(bucket: Mapping[str, Any]) -> bool:
    return bucket["kind"] in nameless.KINDS and bucket["name"] != nameless.HEAP


def _joined(one: list[Place], other: list[Place]) -> list[Place]:
    """Of buckets with one name. One path is enough of an object's."""
    return one if one and one[0].function else one + other


def named(rows: Iterable[FleetRow], symbols: str) -> list[FleetRow]:
    """By the files with symbols in a folder, those that have places there; all else stays."""
    if not symbols:
        return list(rows)
    names = Names(Path(symbols))
    found: dict[tuple[str, str | None, str], FleetRow] = {}
    for row in rows:
        for one in _split(row, names) if row.places else [row]:
            key = (one.recording, one.object, one.kind)
            found[key] = _added(found[key], one) if key in found else one
    return list(found.values())


def _split(row: FleetRow, names: Names) -> Iterator[FleetRow]:
    if row.places[0].function:
        yield _renamed(row, names)
        return
    left: list[Place] = []
    variables: dict[str, int] = {}
    for place in row.places:
        variable = names.variable(place.build, place.at)
        if variable is None:
            left.append(place)
        else:
            variables[variable] = variables.get(variable, 0) + place.samples
    rest = row.samples - sum(variables.values())
    if rest > 0 or not variables:
        yield _part(row, row.object, row.kind, rest, left)
    for variable, count in variables.items():
        yield _part(row, variable, "global", count, [])


def _part(
    row: FleetRow, name: str | None, kind: str, samples: int, places: list[Place]
) -> FleetRow:
    wait = row.wait * samples / max(1, row.samples)
    return msgspec.structs.replace(
        row, object=name, kind=kind, samples=samples, wait=wait, places=places
    )


def _renamed(row: FleetRow, names: Names) -> FleetRow:
    """Its path, with what has a name now."""
    path = [
        place
        if nameless.has_name(place)
        else msgspec.structs.replace(
            place, function=names.function(place.build, place.at) or place.function
        )
        for place in row.places
    ]
    left = [] if all(map(nameless.has_name, path)) else path
    return msgspec.structs.replace(row, object=nameless.path_name(path), places=left)


def _added(one: FleetRow, other: FleetRow) -> FleetRow:
    return msgspec.structs.replace(
        one,
        samples=one.samples + other.samples,
        wait=one.wait + other.wait,
        places=_joined(one.places, other.places),
    )


def _program(command: list[str]) -> str:
    """Servers write what they do behind their name."""
    words = command[0].split() if command else []
    return PurePath(words[0]).name if words else UNKNOWN


def _build(image: Recording, program: str) -> str:
    modules = image.table("module").select(["path", "build_id"]).to_pylist()
    own = [row["build_id"] for row in modules if PurePath(row["path"]).name == program]
    return (own or [row["build_id"] for row in modules] or [UNKNOWN])[0] or UNKNOWN


def _seconds_a_sample(image: Recording, every: int) -> float:
    """By the clock a sample stands for its period; else the time is shared out."""
    facts = image.meta
    if facts.source == "clock":
        return facts.sample_period / 1e9
    spent = facts.cpu_seconds or facts.seconds or 0.0
    return spent / every if every else 0.0
