# SPDX-License-Identifier: Apache-2.0
"""What a fleet keeps of a recording: how often its program waited for each object.

Objects are told apart by their name without line numbers, which change from build to build. A
recording that cannot be read is a failure of its own, and the others go on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import msgspec

from stallscope import meta
from stallscope.analyses.live import NO_ADDRESS, name_of
from stallscope.analyses.sites import site_names
from stallscope.errors import StallscopeError
from stallscope.recording import Recording, is_sampled

UNKNOWN = "unknown"
_LINE = re.compile(r":\d+(?=[),])")
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


class IngestTask(msgspec.Struct, frozen=True, tag="ingest"):
    number: int
    recordings: list[tuple[str, str]]  # absolute path and the host that is not told otherwise


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
            rows += rows_of(Path(path), host)
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
    samples = image.table("live_sample").select(["state", "bucket"])
    every = samples.num_rows
    counts = _waiting(samples)
    each = _seconds_a_sample(image, every)
    total = sum(counts.values())
    yield FleetRow(**common, object=None, kind="", samples=total, wait=total * each, every=every)
    for (name, kind), count in _named(image, counts).items():
        yield FleetRow(
            **common, object=name, kind=kind, samples=count, wait=count * each, every=every
        )


def _waiting(samples: Any) -> dict[int | None, int]:
    import pyarrow.compute as pc

    waiting = samples.filter(pc.equal(samples["state"], "memory"))
    counted = waiting["bucket"].value_counts().to_pylist()
    return {row["values"]: row["counts"] for row in counted}


def _named(image: Recording, counts: dict[int | None, int]) -> dict[tuple[str, str], int]:
    """Only the names that are needed: most buckets of a program never wait."""
    import pyarrow as pa
    import pyarrow.compute as pc

    buckets, sites = image.table("bucket"), image.table("site")
    wanted = pa.array([bucket for bucket in counts if bucket is not None], pa.uint32())
    rows = buckets.filter(pc.is_in(buckets["bucket"], value_set=wanted)).to_pylist()
    used = pa.array([row["site"] for row in rows if row["site"] is not None], pa.uint32())
    names = site_names(sites.filter(pc.is_in(sites["site"], value_set=used)))
    by_bucket = {row["bucket"]: (_LINE.sub("", name_of(row, names)), row["kind"]) for row in rows}
    found: dict[tuple[str, str], int] = {}
    for bucket, count in counts.items():
        name = (NO_ADDRESS, "unknown") if bucket is None else by_bucket[bucket]
        found[name] = found.get(name, 0) + count
    return found


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
