# SPDX-License-Identifier: Apache-2.0
"""perf.data files: a recording at native speed, as `record --source clock` makes them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope import __version__, _engine, meta
from stallscope.errors import StallscopeError
from stallscope.meta import Meta
from stallscope.record.writer import Quality, make_folder, write_tables
from stallscope.recording import CHILDREN
from stallscope.tables import schemas

if TYPE_CHECKING:
    from stallscope.record.importing import Work

LOST_TOO_MANY = 0.01  # of the samples
DECODED = ("x86_64", "")  # processors whose instructions are looked at; "": the file does not say


def import_perf_data(work: Work) -> tuple[str, ...]:
    try:
        found = _engine.import_perf_data(str(work.path), _engine.SymbolCache())
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    images = _root_first(found["images"])
    if not images:
        raise StallscopeError(
            f"{work.path} holds no samples", now="perf script -i FILE shows what it holds"
        )
    quality = list(_quality(found))
    for number, image in enumerate(images):
        folder = work.folder if number == 0 else work.folder / CHILDREN / image["name"]
        if number:
            make_folder(folder)
        facts = _facts(work, found, image, is_root=number == 0)
        write_tables(folder, facts, image["tables"], quality if number == 0 else [])
    return tuple(row.explanation for row in quality if row.severity != "info")


def _root_first(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was sampled most is what the recording is about; the others lie below it."""
    if not images:
        return []
    root = max(images, key=lambda image: image["samples"])
    return [root, *(image for image in images if image is not root)]


def _quality(found: dict[str, Any]) -> Iterator[Quality]:
    for kind, severity, count, explanation in found["notes"]:
        yield Quality(kind, severity, explanation, count)
    if found["lost"]:
        too_many = found["lost"] > LOST_TOO_MANY * (found["lost"] + found["samples"])
        text = "the kernel's buffer was full, and samples were lost"
        yield Quality("lost_samples", "warning" if too_many else "info", text, found["lost"])
    if found["other_files"]:
        text = (
            "files with code are not on this machine with the build id of the recorded ones; "
            "their functions and variables have no names"
        )
        yield Quality("other_files", "info", text, found["other_files"])
    if (processor := found["facts"]["arch"]) not in DECODED:
        text = (
            f"instructions of {processor} are not decoded: samples that bring no address of their "
            "own have none, and whether they wait for memory is not known"
        )
        yield Quality("other_processor", "info", text)
    yield Quality(
        "imported", "info", "the samples come from a perf.data file, not from a run seen here"
    )


def _facts(work: Work, found: dict[str, Any], image: dict[str, Any], *, is_root: bool) -> Meta:
    told = found["facts"]
    events = found["events"]
    options = {
        "file": meta.as_text(str(work.path.absolute())),
        "format": work.format,
        "perf_command": told["command"],
        "events": [event["name"] for event in events],
    }
    host = {"system": told["os_release"], "processor": told["cpu"], "cores": told["cpus_online"]}
    fixed = events[0] if len(events) == 1 and not events[0]["is_frequency"] else None
    now = datetime.datetime.now(datetime.UTC)
    since = datetime.timedelta(microseconds=(image["started_ns"] - found["started_ns"]) / 1000)
    return Meta(
        format_version=schemas().format_version,
        stallscope=__version__,
        state="recording",
        name=image["name"],
        parent=None if is_root else image["parent"] or None,
        command=[_name(image)],
        folder=meta.as_text(str(Path.cwd())),
        created=(now + since).isoformat(timespec="microseconds"),
        source="import",
        machine="none",
        options=options,
        host=host | {"name": told["hostname"]},
        pid=image["pid"],
        forked=image["forked"],
        complete=not any(kind == "truncated" for kind, *_ in found["notes"]),
        counted=False,
        threads=len(image["tables"]["thread"]["thread"]),
        samples=image["samples"],
        lost_samples=found["lost"] if is_root else 0,
        sample_period=fixed["period"] if fixed else 0,
        seconds=max(0, image["ended_ns"] - image["started_ns"]) / 1e9,
    )


def _name(image: dict[str, Any]) -> str:
    """Of the process, as its first thread had it."""
    offsets, data = image["tables"]["thread"]["name"]
    first = bytes(data)[offsets[0] : offsets[1]] if len(offsets) > 1 else b""
    return first.decode("utf-8", "backslashreplace") or f"process {image['pid']}"
