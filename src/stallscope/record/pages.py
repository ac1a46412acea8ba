# SPDX-License-Identifier: Apache-2.0
"""The `pages` source: which pages a program uses, by page protection, at native speed but for its
faults. A preloaded library keeps an active set of pages and protects all others."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stallscope import __version__, meta, tables, tracking
from stallscope.errors import StallscopeError
from stallscope.meta import Meta
from stallscope.record import Recorded, page_log
from stallscope.record.life import (
    FORWARDED,
    FROM_THE_KERNEL,
    Progress,
    ending,
    environment,
    exit_status,
    host_facts,
    moment,
    silent,
    wait_for_signal,
)
from stallscope.record.output import new_folder
from stallscope.record.preflight import Target, preflight
from stallscope.record.writer import ProcessWriter, Quality
from stallscope.recording import Recording
from stallscope.tracking import PageOptions

ACTIVE = 2048
MOST_ACTIVE = 1 << 24
POLL_SECONDS = 0.05
OWN_FAILURE = 125
LOGS = "page-logs"  # below the recording, while the program runs


def record(
    command: Sequence[str],
    *,
    active: int = ACTIVE,
    output: str | Path | None = None,
    force: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Recorded:
    """Run `command` to its end and log which of its pages come into an active set of `active`."""
    if not 1 <= active <= MOST_ACTIVE:
        raise StallscopeError(f"--active {active}: it lies between 1 and {MOST_ACTIVE:,} pages")
    target = preflight(command, native=True)
    if target.is_static:
        raise StallscopeError(
            f"{target.command[0]} is linked statically",
            "nothing can be preloaded into it",
            "stallscope record --probe pages",
        )
    folder = new_folder(output, target.program, force)
    logs = folder / LOGS
    try:
        logs.mkdir(mode=0o700)
        ran = _run(target, logs, active, on_progress or silent)
        found = page_log.choose(logs, ran.pid, ran.maps)
        if found is None:
            raise StallscopeError(
                f"nothing was logged of {target.command[0]}",
                "it ended too early, or the kernel has no syscall user dispatch (Linux 5.11)",
                "stallscope record --probe pages",
                status=OWN_FAILURE,
            )
        warnings, pages = _write(folder, target, ran, found, active)
    except StallscopeError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StallscopeError(
            "the recording could not be written", error.strerror or str(error), status=OWN_FAILURE
        ) from error
    finally:
        shutil.rmtree(logs, ignore_errors=True)
    return Recorded(Recording(folder), exit_status(ran.status), warnings, (), pages)


@dataclass(frozen=True)
class _Ran:
    pid: int
    status: int  # as waitpid gives it
    seconds: float
    cpu_seconds: float
    maps: str  # as the kernel showed them last


def _run(target: Target, logs: Path, active: int, on_progress: Callable[[Progress], None]) -> _Ran:
    blocked = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        given = page_log.environment(environment(), logs, active)
        started = time.monotonic()
        pid = os.posix_spawn(target.argv[0], target.argv, given, setsigmask=before)
        maps = ""
        while True:
            ended, status, used = os.wait4(pid, os.WNOHANG)
            seconds = time.monotonic() - started
            if ended:
                return _Ran(pid, status, seconds, used.ru_utime + used.ru_stime, maps)
            maps = _maps(pid) or maps
            size = sum(file.stat().st_size for file in logs.iterdir())
            on_progress(Progress(seconds, size, 1, False))
            info = wait_for_signal(blocked, POLL_SECONDS)
            if info is not None and info.si_signo in FORWARDED and info.si_code != FROM_THE_KERNEL:
                os.kill(pid, info.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return ""


def _write(
    folder: Path, target: Target, ran: _Ran, log: page_log.PageLog, active: int
) -> tuple[tuple[str, ...], int]:
    """What the user should know, and how many pages were used."""
    options = PageOptions(hot=min(active, 4096))
    facts = Meta(
        format_version=tables.schemas().format_version,
        stallscope=__version__,
        state="recording",
        name=f"{ran.pid}.0",
        parent=None,
        command=[meta.as_text(word) for word in target.command],
        folder=meta.as_text(str(Path.cwd())),
        created=moment(),
        source="pages",
        machine="none",
        options={
            "active": active,
            "faults": log.header.faults,
            "soft_faults": log.header.soft_faults,
            "calls": log.header.calls,
            "pages": msgspec.to_builtins(options),
        },
        host=host_facts(),
        pid=ran.pid,
        complete=True,
        counted=False,
        seconds=ran.seconds,
        cpu_seconds=ran.cpu_seconds,
        threads=len(log.threads),
        **ending(ran.status),
    )
    writer = ProcessWriter(folder)
    for table in tables.schemas().tables:
        writer.append_rows(table, log.thread_rows() if table == "thread" else [])
    quality = []
    if log.header.lost:
        quality.append(Quality("pages", "error", "the page log could not grow", log.header.lost))
    writer.append_quality(quality)
    sealed = writer.seal(facts)
    kept = tracking.store(folder, sealed, options, log.fill)
    used = tracking.Tracked(Recording(folder), kept).result.footprint
    return tuple(row.explanation for row in quality), used
