# SPDX-License-Identifier: Apache-2.0
"""How targets start and end, whatever the source."""

from __future__ import annotations

import datetime
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope.errors import StallscopeError

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
FROM_THE_KERNEL = 0x80  # si_code of a signal that the terminal sent: the target got it as well


@dataclass(frozen=True)
class Progress:
    """How far a recording is."""

    seconds: float
    bytes: int  # written
    running: int  # processes
    root_ended: bool
    instructions: int | None = None  # what there is of these depends on the source
    samples: int | None = None


def silent(progress: Progress) -> None:
    """For callers who do not want to know."""


def moment(monotonic_ns: int | None = None) -> str:
    """That moment, or now, as the wall clock has it: text that sorts by time."""
    ago = 0 if monotonic_ns is None else time.monotonic_ns() - monotonic_ns
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(microseconds=ago / 1000)
    return then.isoformat(timespec="microseconds")


def environment() -> dict[bytes, bytes]:
    """Ours, as we were given it: under the C locale Python adds an LC_CTYPE for itself."""
    found = dict(os.environb)
    if found.get(b"LC_CTYPE") in (b"C.UTF-8", b"C.utf8", b"UTF-8"):
        given = Path("/proc/self/environ").read_bytes().split(b"\0")
        if not any(entry.startswith(b"LC_CTYPE=") for entry in given):
            del found[b"LC_CTYPE"]
    return found


def host_facts() -> dict[str, Any]:
    """What a recording says about the machine that it was made on."""
    from stallscope.record import host

    machine = host.machine()
    return {"system": machine.system, "processor": machine.model, "cores": machine.cores}


def wait_for_signal(
    signals: Collection[signal.Signals], seconds: float
) -> signal.struct_siginfo | None:
    """One of these that is blocked, or None when the time is over. Where that was interrupted (the
    process was stopped and went on), Python hands out what the kernel never wrote."""
    info = signal.sigtimedwait(signals, seconds)
    return info if info is not None and info.si_signo in signals else None


def ending(status: int | None) -> dict[str, Any]:
    """What waitpid says, in the words of meta.json."""
    if status is None:
        return {}
    if os.WIFSIGNALED(status):
        return {"ending": "signal", "exit_code": None, "signal": os.WTERMSIG(status)}
    return {"ending": "exit", "exit_code": os.WEXITSTATUS(status), "signal": None}


def exit_status(status: int) -> int:
    """As a shell shows it: 128+n for a signal."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def check_ours(pid: int) -> None:
    """An error when there is no such process, or it is somebody else's."""
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError as error:
        raise StallscopeError(f"there is no process {pid}", error.strerror or "") from error
    if owner != os.geteuid() and os.geteuid() != 0:
        raise StallscopeError(
            f"process {pid} is not ours",
            f"it belongs to user {owner}",
            "run as that user, or as root",
        )


def has_ended(pid: int) -> bool:
    """A process that nobody has waited for is still listed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True
