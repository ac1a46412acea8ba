# SPDX-License-Identifier: Apache-2.0
"""One run against another, and against the budgets of a stallscope.toml."""

from __future__ import annotations

import collections
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import msgspec

from stallscope import touching, types
from stallscope.analyses import check as checks
from stallscope.analyses.check import Budget, Check
from stallscope.analyses.diff import Diff
from stallscope.analyses.diff import diff as compare
from stallscope.analyses.live import LiveView
from stallscope.analyses.measures import (
    LINE,
    SCHEMA,
    FieldMeasure,
    Measures,
    StructMeasure,
    Touch,
    measure,
)
from stallscope.analyses.objects import MissView
from stallscope.errors import StallscopeError
from stallscope.processes import Replays
from stallscope.recording import Recording
from stallscope.results import Replay
from stallscope.viewing import view

CONFIG = "stallscope.toml"
BASELINE = "stallscope-baseline.json"
MOST_STARTS = 4096  # elements of an object that are looked at for where they begin


class CheckSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[check] of stallscope.toml."""

    machine: str | None = None
    baseline: str | None = None  # beside the file
    tolerance: float | None = None


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    check: CheckSection = CheckSection()
    budget: tuple[Budget, ...] = ()


def measures(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    **options: Any,
) -> Measures:
    """What is compared of a recording (the newest here when not told)."""
    seen = view(recording, machine=machine, process=process, **options)
    if isinstance(seen, LiveView):
        raise StallscopeError(
            f"{seen.recording.path.name} holds samples, which are never twice the same",
            now="stallscope record -- PROGRAM",
        )
    parts = seen.replay.parts if isinstance(seen.replay, Replays) else [seen.replay]
    threads = max(part.recording.table("thread").num_rows for part in parts)
    facts = parts[0].recording.meta
    program = PurePath((facts.command or [facts.name])[0]).name
    structs: dict[str, StructMeasure] = {}
    for part in parts:
        for one in _structs(part, seen):
            known = structs.get(one.struct)
            structs[one.struct] = one if known is None else _together(known, one)
    ordered = sorted(structs.values(), key=lambda one: (-one.latency, one.struct))
    return measure(seen, program, threads, _touched(parts, seen), ordered)


def _touched(parts: list[Replay], seen: MissView) -> dict[tuple[str, str], Touch]:
    """By name and kind; nothing where some process has no trace."""
    if not all(part.recording.meta.trace for part in parts):
        return {}
    sums: dict[tuple[str, str], list[int]] = collections.defaultdict(lambda: [0, 0])
    for part in parts:
        found = touching.touched(part.recording)
        names = _namer(part, seen)
        buckets = {row["bucket"]: row for row in found.table("bucket").to_pylist()}
        for row in found.table("touch").to_pylist():
            bucket = buckets[row["bucket"]]
            entry = sums[names(bucket), bucket["kind"]]
            entry[0] += row["lines"]
            entry[1] += row["bytes"]
    return {name: Touch(*counts) for name, counts in sums.items()}


def _namer(part: Replay, seen: MissView) -> Any:
    own = MissView(part, seen.depth, seen.wrappers)

    def name(bucket: dict[str, Any]) -> str:
        own.buckets = [bucket]
        return own.name(0)

    return name


def _structs(part: Replay, seen: MissView) -> Iterator[StructMeasure]:
    own = MissView(part, seen.depth, seen.wrappers)
    misses: collections.Counter[int] = collections.Counter()
    latency: collections.Counter[int] = collections.Counter()
    for count in own.counts():
        misses[count.bucket] += count.misses
        latency[count.bucket] += count.latency
    of_site: dict[Any, list[tuple[int, int]]] = collections.defaultdict(list)
    rows = part.recording.table("object").select(["kind", "name", "site", "address", "size"])
    for row in rows.to_pylist():
        if row["kind"] in ("heap", "global"):
            key = row["site"] if row["kind"] == "heap" else row["name"]
            of_site[row["kind"], key].append((row["address"], row["size"]))
    found: dict[str, StructMeasure] = {}
    for bucket, name, size, fields in types.shapes(part):
        row = own.buckets[bucket]
        key = row["site"] if row["kind"] == "heap" else row["name"]
        one = StructMeasure(
            name,
            size,
            _starts(of_site[row["kind"], key], size),
            [FieldMeasure(*field) for field in fields],
            misses[bucket],
            latency[bucket],
            [own.name(bucket)],
        )
        found[name] = _together(found[name], one) if name in found else one
    yield from found.values()


def _starts(blocks: list[tuple[int, int]], element: int) -> list[int]:
    """Where elements begin in their line."""
    found: set[int] = set()
    for address, size in blocks[:MOST_STARTS]:
        elements = min(max(1, size // element), LINE)
        found.update((address + i * element) % LINE for i in range(elements))
    return sorted(found)


def _together(one: StructMeasure, other: StructMeasure) -> StructMeasure:
    return msgspec.structs.replace(
        one,
        starts=sorted({*one.starts, *other.starts}),
        misses=one.misses + other.misses,
        latency=one.latency + other.latency,
        objects=[*one.objects, *(name for name in other.objects if name not in one.objects)],
    )


def diff(
    before: Recording | str | Path,
    after: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    **options: Any,
) -> Diff:
    """What is better and worse in `after` than in `before`, both recordings or baseline files."""
    old = read_measures(before, machine=machine, **options)
    new = read_measures(after, machine=machine or old.machine, **options)
    if old.machine != new.machine:
        raise StallscopeError(
            f"the two were measured on different machines: {old.machine} and {new.machine}",
            now=f"--machine {new.machine}",
        )
    return compare(old, new)


def check(
    recording: Recording | str | Path | None = None,
    *,
    against: Recording | str | Path | None = None,
    config: str | Path | None = None,
    machine: str | None = None,
    tolerance: float | None = None,
    **options: Any,
) -> Check:
    """Whether a recording keeps to the budgets of `config` (stallscope.toml here, if there is one)
    and is no worse than a baseline: a recording, or a file that `update_baseline` wrote."""
    given, folder = read_config(config)
    baseline = _baseline(against, given, folder)
    if baseline is None and not given.budget:
        raise StallscopeError(
            "there is nothing to check against",
            f"no --against, and no budgets in {config or CONFIG}",
            "stallscope check --update, which writes a baseline",
        )
    machine = machine or given.check.machine
    before = None if baseline is None else read_measures(baseline, machine=machine, **options)
    now = measures(recording, machine=machine or (before.machine if before else None), **options)
    if before is not None and before.machine != now.machine:
        raise StallscopeError(
            f"the baseline is of machine {before.machine}, not {now.machine}",
            now="stallscope check --update",
        )
    name = None if baseline is None else str(getattr(baseline, "path", baseline))
    allowed = given.check.tolerance if tolerance is None else tolerance
    if allowed is not None and not 0 <= allowed <= 10:
        raise StallscopeError(f"a tolerance of {allowed:g}", "it is a share, such as 0.01")
    return checks.check(_called(recording), now, before, name, given.budget, allowed)


def update_baseline(
    recording: Recording | str | Path | None = None,
    *,
    against: str | Path | None = None,
    config: str | Path | None = None,
    machine: str | None = None,
    **options: Any,
) -> Path:
    """Writes what a recording measures into the baseline's file; gives its path."""
    given, folder = read_config(config)
    chosen = _baseline(against, given, folder, exists=False) or folder / BASELINE
    path = Path(str(chosen))
    if path.is_dir():
        raise StallscopeError(f"{path} is a recording, no file", now=f"--against {BASELINE}")
    found = measures(recording, machine=machine or given.check.machine, **options)
    text = msgspec.json.format(msgspec.json.encode(_short(found)), indent=1)
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise StallscopeError(f"cannot write {path}", error.strerror or "") from error
    return path


def _short(found: Measures) -> Measures:
    """Without what costs next to nothing: a baseline is for people to look at, too."""
    least = max(1, found.latency // 10_000)
    return msgspec.structs.replace(
        found,
        objects=[one for one in found.objects if one.latency >= least],
        functions=[one for one in found.functions if one.latency >= least],
        structs=[one for one in found.structs if one.latency >= least],
    )


def _called(recording: Recording | str | Path | None) -> str:
    from stallscope.recording import newest

    if recording is None:
        return str(newest())
    return str(recording.path if isinstance(recording, Recording) else recording)


def _baseline(
    against: Recording | str | Path | None, given: Config, folder: Path, exists: bool = True
) -> Recording | str | Path | None:
    if against is not None:
        return against
    if given.check.baseline is not None:
        return folder / given.check.baseline
    usual = folder / BASELINE
    return usual if exists and usual.exists() else None


def read_measures(
    source: Recording | str | Path | None, *, machine: str | None = None, **options: Any
) -> Measures:
    """Of a recording, or as a baseline file tells."""
    if source is None or isinstance(source, Recording) or Path(source).is_dir():
        return measures(source, machine=machine, **options)
    path = Path(source)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Measures)
    except OSError as error:
        raise StallscopeError(
            f"cannot read the baseline {path}", error.strerror or "", "stallscope check --update"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StallscopeError(
            f"{path} is no baseline", str(error), "stallscope check --update, which writes one"
        ) from error
    if found.schema != SCHEMA:
        raise StallscopeError(
            f"{path} has the schema {found.schema}", f"{SCHEMA} is wanted", "check --update"
        )
    return found


def read_config(path: str | Path | None = None) -> tuple[Config, Path]:
    """The settings, and the folder they lie in. Without a path: of stallscope.toml here, if any."""
    file = Path(path or CONFIG)
    if path is None and not file.exists():
        return Config(), Path()
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
        config = msgspec.convert(read, Config)
    except OSError as error:
        raise StallscopeError(f"cannot read {file}", error.strerror or "") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise StallscopeError(
            f"{file} is wrong", str(error), "docs/check.md has examples"
        ) from error
    for number, budget in enumerate(config.budget, 1):
        checks.check_budget(budget, number)
    return config, file.parent
