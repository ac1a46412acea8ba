# SPDX-License-Identifier: Apache-2.0
"""A program run and watched in one step, and a recording that is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallscope.analyses.watch import Hit, Place, Watched, noticed
from stallscope.errors import StallscopeError
from stallscope.record.watch_spec import BLOCKS, condition_line, range_lines
from stallscope.watching import LOG, READS, WRITES, watch

if TYPE_CHECKING:
    from stallscope.record.watch import LiveLog


def watch_recording(
    targets: Sequence[str],
    recording: str | None,
    *,
    output: str | None = None,
    force: bool = False,
    stop: int | None = None,
    keep: int = LOG,
    **options: Any,
) -> Watched:
    if output is not None or force:
        raise StallscopeError("-o and -f are for programs", now="TARGET -o REC -- PROGRAM")
    return watch(list(targets), recording, stop=stop or 0, log=keep, **options)


def watch_program(
    targets: Sequence[str],
    program: Sequence[str],
    source: str = "valgrind",
    *,
    on_hit: Callable[[Hit], object] | None = None,
    **options: Any,
) -> Watched:
    """Runs it through the capture tool, or (`live`) at native speed. The tool looks at every access
    itself, unless heap blocks are watched: then the program is recorded with a trace first.

    `on_hit` is called with each hit that is kept, in their order. Options: output, force,
    condition, process, stop, keep, snapshot, reads, writes; as those of the verb."""
    found = _watched(targets, program, source, **options)
    if on_hit is not None:
        for hit in found.log:
            on_hit(hit)
    return found


def _watched(
    targets: Sequence[str],
    program: Sequence[str],
    source: str,
    *,
    output: str | None = None,
    force: bool = False,
    condition: str | None = None,
    process: str | None = None,
    stop: int | None = None,
    keep: int = LOG,
    snapshot: bool = False,
    reads: bool = True,
    writes: bool = True,
) -> Watched:
    if not program:
        raise StallscopeError("no program to watch", now="stallscope watch TARGET -- PROGRAM ARGS")
    if not targets:
        raise StallscopeError(
            "nothing to watch", now="stallscope watch 'table[*].count' -- PROGRAM"
        )
    if source == "live":
        if process is not None or output is not None or force:
            raise StallscopeError("--process, -o and -f are for recordings, not for --source live")
        if snapshot and any(text.startswith(BLOCKS) for text in targets):
            raise StallscopeError(
                "at native speed --snapshot is for addresses and variables", now="--source valgrind"
            )
        return watch_live(
            targets,
            program,
            condition=condition,
            stop=stop or 0,
            snapshot=snapshot,
            reads=reads,
            writes=writes,
        )
    if not any(text.startswith(BLOCKS) for text in targets) and process is None:
        return watch_captured(
            targets,
            program,
            output=output,
            force=force,
            condition=condition,
            stop=stop or 0,
            keep=keep,
            snapshot=snapshot,
            reads=reads,
            writes=writes,
        )
    from stallscope.record import record

    looked_at = targets if condition is not None or snapshot else ()
    made = record(program, output=output, force=force, machine="none", trace=True, values=looked_at)
    return watch(
        list(targets),
        made.recording,
        stop=stop or 0,
        log=keep,
        process=process,
        condition=condition,
        snapshot=snapshot,
        reads=reads,
        writes=writes,
    )


def watch_captured(
    targets: Sequence[str],
    program: Sequence[str],
    *,
    output: str | None = None,
    force: bool = False,
    condition: str | None = None,
    stop: int = 0,
    keep: int = LOG,
    snapshot: bool = False,
    reads: bool = True,
    writes: bool = True,
) -> Watched:
    """Every access is looked at by the capture tool when it has happened; nothing but the hits is
    kept, each with the first bytes of what is watched, and all of its bytes with `snapshot`."""
    from stallscope.record import record
    from stallscope.record.preflight import preflight

    target = preflight(program)
    executable = Path(target.executable).resolve()
    kind = (READS if reads else 0) | (WRITES if writes else 0)
    ranges = range_lines(executable, targets, kind)
    lines = [f"program {executable}", *ranges, f"keep {keep}", f"stop {stop}"]
    lines += [condition_line(condition)] if condition is not None else []
    lines += ["snapshot"] if snapshot else []
    made = record(
        program, output=output, force=force, machine="none", children=False, watched=lines
    ).recording
    sites: dict[int, list[dict[str, Any]]] = {}
    for row in made.table("site").to_pylist():
        sites.setdefault(row["site"], []).append(row)
    hits = made.table("watched").to_pylist() if "watched" in made.table_names() else []
    return noticed(str(made.path), list(targets), hits, sites, ranges=len(ranges), stop=stop)


def watch_process(
    targets: Sequence[str],
    pid: int,
    *,
    reads: bool = True,
    writes: bool = True,
    stop: int = 0,
    snapshot: bool = False,
    duration: float | None = None,
) -> Watched:
    """A process that runs already, until it ends, `duration` seconds are over or `stop` hits are
    there. It is not held up: the bytes of a snapshot are those of a moment later."""
    from stallscope.record.watch import watch_running

    if not targets:
        raise StallscopeError("nothing to watch", now="stallscope watch TARGET --pid PID")
    kind = (READS if reads else 0) | (WRITES if writes else 0)
    log = watch_running(targets, pid, kind=kind, stop=stop, duration=duration, snapshot=snapshot)
    return _by_place(targets, log)


def watch_live(
    targets: Sequence[str],
    program: Sequence[str],
    *,
    reads: bool = True,
    writes: bool = True,
    condition: str | None = None,
    stop: int = 0,
    snapshot: bool = False,
) -> Watched:
    """At native speed. Times are nanoseconds; a hit carries the first bytes of what is watched, and
    with `snapshot` all of them and the registers."""
    from stallscope.record.watch import watch_native

    log = watch_native(
        targets,
        program,
        reads=reads,
        writes=writes,
        condition=condition,
        stop=stop,
        snapshot=snapshot,
    )
    return _by_place(targets, log)


def _by_place(targets: Sequence[str], log: LiveLog) -> Watched:
    from stallscope.record.watch import by_place

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
            Hit(
                h.time,
                h.watch,
                h.thread,
                h.kind,
                h.address,
                0,
                *h.place,
                h.path,
                h.value,
                h.snapshot,
                h.registers,
            )
            for h in log.entries
        ),
        lost=log.lost,
    )
