# SPDX-License-Identifier: Apache-2.0
"""A program run and watched in one step, and a recording that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stallscope.analyses.watch import Watched
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
