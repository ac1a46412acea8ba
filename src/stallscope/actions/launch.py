# SPDX-License-Identifier: Apache-2.0
"""Starts a program with the prefetch runtime in it. Imports little, so that it starts at once."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.record.life import FORWARDED, environment
from stallscope.record.preflight import preflight

LIBRARY = "libstallscope_ahead.so"
VARIABLE = b"STALLSCOPE_AHEAD"
MAGIC = 0x3144414548415353  # runtime/ahead/layout.h
SIZE = 4 << 20


@dataclass(frozen=True)
class Started:
    pid: int
    file: int  # the memory that is shared with it
    moment: float
    command: tuple[str, ...]
    is_static: bool


def library() -> Path:
    """The preload library, which lies beside the compiled extension."""
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is not None and extension.origin is not None:
        found = Path(extension.origin).parent / "runtime" / LIBRARY
        if found.exists():
            return found
    raise StallscopeError(f"{LIBRARY} is missing", now="install stallscope again")


@contextlib.contextmanager
def launched(command: Sequence[str]) -> Iterator[Started]:
    """Signals that are passed on stay blocked meanwhile: whoever watches the program takes them."""
    target = preflight(command, native=True)
    file = os.memfd_create("stallscope-ahead", 0)
    os.ftruncate(file, SIZE)
    os.pwrite(file, struct.pack("<Q", MAGIC), 0)
    given = environment()
    if not target.is_static:
        preloaded = [os.fsencode(library()), given.get(b"LD_PRELOAD", b"")]
        given[b"LD_PRELOAD"] = b":".join(word for word in preloaded if word)
        given[VARIABLE] = str(file).encode()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    try:
        began = time.monotonic()
        pid = _start(target.argv, given, before, file)
        yield Started(pid, file, began, tuple(command), target.is_static)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(file)


def _start(
    argv: Sequence[str], given: dict[bytes, bytes], mask: set[signal.Signals | int], file: int
) -> int:
    os.set_inheritable(file, True)
    failed, fail = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execve(os.fsencode(argv[0]), [os.fsencode(word) for word in argv], given)
        except OSError as error:
            os.write(fail, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(fail)
    os.set_inheritable(file, False)
    with os.fdopen(failed, "rb") as pipe:
        number = pipe.read()
    if number:
        os.waitpid(pid, 0)
        raise StallscopeError(f"{argv[0]} could not be started", os.strerror(int(number)))
    return pid
