# SPDX-License-Identifier: Apache-2.0
"""How long data goes untouched, of whatever a recording holds: watched granules, or a trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stallscope import _engine, processes
from stallscope.analyses.reuse import Counts, Reuse, exact_reuse, speaks_of, watched_reuse
from stallscope.analyses.sites import DEPTH
from stallscope.errors import StallscopeError
from stallscope.recording import STREAM, Recording, is_sampled, open_recording

GRANULE = 8


def reuse(
    recording: Recording | str | Path | None = None,
    *,
    counts: Recording | str | Path | None = None,
    per_second: float | None = None,
    granule: int | None = None,
    process: str | int | None = None,
    depth: int = DEPTH,
    wrapper: Sequence[str] = (),
) -> Reuse:
    """Of a recording made with `watch`: estimated, and reweighed by what instructions do in
    `counts`, a recording of the same program by Valgrind. Of one with a trace: exact, by granules
    of so many bytes [8]."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    images = processes.choose(opened, process)
    if not is_sampled(opened.meta):
        return _exact(opened, images, counts, per_second, granule)
    if "watch" not in opened.table_names():
        raise StallscopeError(
            f"nothing was watched for {opened.path.name}",
            now="stallscope record --source clock --watch -- PROGRAM",
        )
    watched = opened.meta.options.get("watch", 0)
    if granule not in (None, watched):
        raise StallscopeError(
            f"--granule {granule}: {opened.path.name} was watched by {watched} bytes",
            now=f"stallscope record --source clock --watch {granule} -- PROGRAM",
        )
    if per_second is not None and not per_second > 0:
        raise StallscopeError(f"--per-second {per_second:g}: it must be more than 0")
    known = None if counts is None else _counts(counts, watched)
    found = watched_reuse(images, known, per_second=per_second, depth=depth, wrappers=wrapper)
    if not found.watches:
        raise StallscopeError(
            f"no address of {opened.path.name} was watched",
            "no sample waited for memory at an address that is known",
            "record for longer, or with a higher --rate",
        )
    if known is not None and not (found.covered and speaks_of(images, known)):
        raise StallscopeError(
            "the counts are of another program",
            "the file that was watched most is not in that recording",
            "record the same file again",
        )
    return found


def _counts(counts: Recording | str | Path, granule: int) -> Counts:
    opened = counts if isinstance(counts, Recording) else open_recording(counts)
    if is_sampled(opened.meta):
        raise StallscopeError(
            f"--counts {opened.path.name}: it holds samples, no counts",
            now="stallscope record -- PROGRAM, and give that",
        )
    return Counts.of(processes.choose(opened), granule)


def _exact(
    opened: Recording,
    images: Sequence[Recording],
    counts: object,
    per_second: object,
    granule: int | None,
) -> Reuse:
    if counts is not None or per_second is not None:
        raise StallscopeError(
            "--counts and --per-second are for watched memory",
            f"{opened.path.name} holds every access",
        )
    size = GRANULE if granule is None else granule
    if len(images) > 1:
        raise StallscopeError(
            f"{opened.path.name} has {len(images)} processes, each with memory of its own",
            now="--process NUMBER; stallscope info lists them",
        )
    stream = images[0].path / STREAM
    if not images[0].meta.trace:
        raise StallscopeError(
            f"{opened.path.name} has no trace", now="stallscope record --trace -- PROGRAM"
        )
    try:
        found = _engine.reuse_of(str(stream), size)
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    if not found["touches"]:
        raise StallscopeError(f"{opened.path.name} holds no access to memory")
    return exact_reuse(str(opened.path), opened.meta.source, size, found)
