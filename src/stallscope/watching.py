# SPDX-License-Identifier: Apache-2.0
"""Watched memory in a recording: any number of ranges, every access to them and no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stallscope import _engine, processes, tables, watch_targets
from stallscope.analyses.watch import Hit, Watched, watched
from stallscope.errors import StallscopeError
from stallscope.record.watch_spec import condition_of
from stallscope.recording import (
    STREAM,
    VALUES,
    Recording,
    is_sampled,
    open_recording,
    values_kept,
)

READS, WRITES = 1, 2
LOG = 10_000


def watch(
    targets: str | Sequence[str],
    recording: Recording | str | Path | None = None,
    *,
    reads: bool = True,
    writes: bool = True,
    stop: int = 0,
    log: int = LOG,
    paths: bool = True,
    process: str | int | None = None,
    condition: str | None = None,
    snapshot: bool = False,
    on_hit: Callable[[Hit], object] | None = None,
) -> Watched:
    """Every access to `targets` (see stallscope.watch_targets) in a recording with a trace.

    `stop` ends the replay after so many; `on_hit` is called with each that is logged, in their
    order. `condition` ('value > 5') and `snapshot` need a recording with values."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    asked = [targets] if isinstance(targets, str) else list(targets)
    if not asked:
        raise StallscopeError("nothing to watch", now="stallscope watch 'table[*].count' REC")
    if not reads and not writes:
        raise StallscopeError("neither reads nor writes are watched")
    image = _image(opened, process)
    kind = (READS if reads else 0) | (WRITES if writes else 0)
    looked = _values(image, condition, snapshot)
    found = _run(image, asked, kind, stop, log, paths, looked)
    shown = {name: tables.to_arrow(name, columns) for name, columns in found["tables"].items()}
    kept = values_kept(image)
    result = watched(str(opened.path), asked, image.table("operation"), shown, found, kept)
    if on_hit is not None:
        for hit in result.log:
            on_hit(hit)
    return result


def _image(opened: Recording, process: str | int | None) -> Recording:
    if is_sampled(opened.meta):
        raise StallscopeError(
            "watching needs every access",
            f"{opened.path.name} was recorded by --source {opened.meta.source}",
            "stallscope record --trace -- PROGRAM",
        )
    images = processes.choose(opened, process)
    if len(images) > 1:
        raise StallscopeError(
            f"{opened.path.name} has {len(images)} processes, each with memory of its own",
            now="--process NUMBER; stallscope info lists them",
        )
    if not images[0].meta.trace:
        raise StallscopeError(
            f"{opened.path.name} has no trace", now="stallscope record --trace -- PROGRAM"
        )
    return images[0]


def _values(image: Recording, condition: str | None, snapshot: bool) -> tuple[str, str, int, bool]:
    """File, comparison, limit and whether all bytes are kept, as the engine takes them."""
    comparison, limit = condition_of(condition) if condition is not None else ("", 0)
    path = image.path / VALUES
    if path.exists():
        return str(path), comparison, limit, snapshot
    if condition is not None or snapshot:
        raise StallscopeError(
            f"--if and --snapshot look at values, and {image.path.name} has only addresses",
            now="stallscope record --trace --values TARGET -- PROGRAM",
        )
    return "", comparison, limit, snapshot


def _run(
    image: Recording,
    asked: list[str],
    kind: int,
    stop: int,
    log: int,
    paths: bool,
    looked: tuple[str, str, int, bool],
) -> dict[str, Any]:
    ranges: list[tuple[int, int, int]] = []
    heap: list[tuple[list[int], bool, int, int, int, int]] = []
    quiet: list[tuple[int, int]] = []
    for number, text in enumerate(asked):
        target = watch_targets.find(image, text)
        ranges += [(start, end, number) for start, end in target.ranges]
        if target.heap is not None:
            one = target.heap
            heap.append((list(one.sites), one.past, one.start, one.end, 0, number))
            if one.past and not quiet:
                quiet = watch_targets.quiet_code(image)
    try:
        found = _engine.watch(
            str(image.path / STREAM),
            ranges,
            heap,
            [kind] * len(asked),
            quiet,
            stop,
            log,
            paths,
            *looked,
        )
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    return found
