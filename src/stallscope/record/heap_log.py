# SPDX-License-Identifier: Apache-2.0
"""The allocation log of native runs: how a program is started with it, and where its logs are.

A program that nobody records may have one as well: `stallscope run` starts it so, and whoever looks
at the process later finds the log among what it has mapped.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from stallscope import _engine
from stallscope.errors import StallscopeError

LIBRARY = "libstallscope_heap.so"
FOLDER = "STALLSCOPE_HEAP_LOG"
HOME = "/dev/shm/stallscope.{user}"  # of logs that outlive whoever started the program
YOUNG = 60.0  # seconds in which a log may belong to a program that has not mapped it yet
_NAME = re.compile(r"(\d+)\.(\d+)")
_MAPPED = re.compile(r"\S+ \S+ \S+ (\S+) (\d+) +(/.*)")  # device, number and path of a file


def library() -> Path:
    """The preload library, which lies beside the compiled extension."""
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is not None and extension.origin is not None:
        found = Path(extension.origin).parent / "runtime" / LIBRARY
        if found.exists():
            return found
    raise StallscopeError(
        f"{LIBRARY} is missing", "it lies beside the compiled extension", "reinstall stallscope"
    )


def environment(folder: Path, before: Mapping[str, str]) -> dict[str, str]:
    """What a program is started with so that it and its children leave their logs in `folder`, a
    private folder that exists. What else is preloaded stays, behind the log."""
    preloaded = [str(library()), before.get("LD_PRELOAD", "")]
    return {
        **before,
        "LD_PRELOAD": ":".join(word for word in preloaded if word),
        FOLDER: str(folder.resolve()),
    }


def logs(folder: Path) -> dict[tuple[int, int], Path]:
    """Every log in a folder, by process and the number of its image; oldest image first."""
    found = {
        (int(name[1]), int(name[2])): path
        for path in folder.iterdir()
        if (name := _NAME.fullmatch(path.name))
    }
    return dict(sorted(found.items()))


def home() -> Path:
    """This user's private folder for logs of programs that nobody records, without the logs of
    those that have ended."""
    folder = Path(HOME.format(user=os.geteuid()))
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        facts = folder.lstat()
    except OSError as error:
        raise StallscopeError(f"cannot make {folder}", error.strerror or "") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        raise StallscopeError(
            f"{folder} is not a private folder of this user", now="remove it, or give --logs FOLDER"
        )
    sweep(folder)
    return folder


def sweep(folder: Path) -> None:
    """Removes the logs of processes that have ended."""
    for (pid, _), path in logs(folder).items():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > YOUNG and of_process(pid) != path:
                path.unlink()


def of_process(pid: int) -> Path | None:
    """The log that a running process writes; None when it has none. A file by any other name, of
    another user than the process, or that is not what the process has mapped, is not believed."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        user = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None
    for line in lines:
        match = _MAPPED.fullmatch(line)
        if match is None or not (name := _NAME.fullmatch(Path(match[3]).name)):
            continue
        if int(name[1]) == pid and _is_log(Path(match[3]), int(match[2]), user):
            return Path(match[3])
    return None


def _is_log(path: Path, inode: int, user: int) -> bool:
    try:
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or (facts.st_ino, facts.st_uid) != (inode, user):
            return False
        _engine.HeapLog(str(path))
    except (OSError, _engine.EngineError):
        return False
    return True
