# SPDX-License-Identifier: Apache-2.0
"""The private folder in which targets and recorder meet while a recording is made."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

SHARED_MEMORY = Path("/dev/shm")
NEEDED_BYTES = 64 << 20
PREFIX = "stallscope-"
LOCK = "recorder.lock"

# A process does not see its own locks, and closing a locked file in any way unlocks it, so the
# sessions of this process are known by name.
_own_folders: set[Path] = set()


def _has_room(folder: Path) -> bool:
    try:
        return (
            os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= NEEDED_BYTES
        )
    except OSError:
        return False


class Session:
    """Holds `recorder.lock` while it lives: that is how targets know that somebody listens.

    Its name has the same length every time, because it reaches the target's command line.
    """

    def __init__(self, fallback: Path) -> None:
        sweep(SHARED_MEMORY)
        place = SHARED_MEMORY if _has_room(SHARED_MEMORY) else fallback
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place.absolute()))
        _own_folders.add(self.folder)
        fresh = self.folder / "new.lock"
        descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._lock = os.fdopen(descriptor, "r+b")
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.folder / LOCK)  # locked from the moment at which it can be seen

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        _own_folders.discard(self.folder)

    def log(self, pid: int) -> str:
        """What the capture tool said about one process."""
        try:
            return (self.folder / f"log-{pid}").read_text(errors="replace")
        except OSError:
            return ""

    def unrecorded(self) -> Iterator[str]:
        """Programs that were started as they are, because the tool cannot run them."""
        for note in sorted(self.folder.glob("unrecorded-*")):
            yield note.read_text(errors="replace")


def sweep(place: Path) -> None:
    """Removes what recorders that were killed have left behind: folders of ours without a lock."""
    for folder in place.glob(f"{PREFIX}*"):
        if folder not in _own_folders and _is_left_behind(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left_behind(folder: Path) -> bool:
    try:
        facts = folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return False
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(descriptor, "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
