# SPDX-License-Identifier: Apache-2.0
"""A program run and watched in one step, and a recording that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stallscope.analyses.watch import Hit, Place, Watched
from stallscope.errors import StallscopeError
from stallscope.watching import LOG, watch


def watch_recording(
    targets: Sequence[str],
    recording: str | None,
    *,
    condition: str | None = None,
    output: str | None = None,
    force: bool = False,
    stop: int | None = None,
    keep: int = LOG,
    **options: Any,
) -> Watched:
    if condition is not None:
        raise StallscopeError(
            "--if looks at values, and recordings hold addresses only",
            now="stallscope watch --source live --if … TARGET -- PROGRAM",
        )
    if output is not None or force:
        raise StallscopeError("-o and -f are for programs", now="TARGET -o REC -- PROGRAM")
    return watch(list(targets), recording, stop=stop or 0, log=keep, **options)


def watch_program(
    targets: Sequence[str],
    program: Sequence[str],
    source: str = "valgrind",
    *,
    output: str | None = None,
    force: bool = False,
    condition: str | None = None,
    process: str | None = None,
    stop: int | None = None,
    keep: int = LOG,
    reads: bool = True,
    writes: bool = True,
) -> Watched:
    """Runs it through the capture tool, or at native speed."""
    if not program:
        raise StallscopeError("no program to watch", now="stallscope watch TARGET -- PROGRAM ARGS")
    if not targets:
        raise StallscopeError(
            "nothing to watch", now="stallscope watch 'table[*].count' -- PROGRAM"
        )
    if source == "live":
        if process is not None or output is not None or force:
            raise StallscopeError("--process, -o and -f are for recordings, not for --source live")
        return watch_live(
            targets, program, condition=condition, stop=stop or 0, reads=reads, writes=writes
        )
    from stallscope.record import record

    if condition is not None:
        raise StallscopeError("--if looks at values", now="--source live")
    made = record(program, output=output, force=force, machine="none", trace=True)
    return watch(
        list(targets),
        made.recording,
        stop=stop or 0,
        log=keep,
        process=process,
        reads=reads,
        writes=writes,
    )


def watch_live(
    targets: Sequence[str],
    program: Sequence[str],
    *,
    reads: bool = True,
    writes: bool = True,
    condition: str | None = None,
    stop: int = 0,
) -> Watched:
    """At native speed. Times are nanoseconds; a hit carries the first bytes of what is watched."""
    from stallscope.record.watch import by_place, watch_native

    log = watch_native(targets, program, reads=reads, writes=writes, condition=condition, stop=stop)
    times: dict[tuple[object, ...], list[int]] = {}
    for hit in log.entries:
        times.setdefault((hit.watch, hit.kind, *hit.place), []).append(hit.time)
    rows = [
        Place(watch, count, kind, function, file, line, "", min(when), max(when))
        for (watch, kind, function, file, line), count in by_place(log).most_common()
        for when in [times[watch, kind, function, file, line]]
    ]
    per_watch = dict.fromkeys(targets, 0)
    for row in rows:
        per_watch[row.watch] += row.hits
    return Watched(
        recording="",
        source=f"live, by {log.mode}",
        watches=per_watch,
        hits=log.hits,
        false_hits=log.false_hits,
        accesses=0,
        ranges=log.ranges,
        stopped=log.stopped,
        rows=tuple(rows),
        log=tuple(
            Hit(h.time, h.watch, h.thread, h.kind, h.address, 0, *h.place, h.path, h.value)
            for h in log.entries
        ),
    )
