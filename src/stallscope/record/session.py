# SPDX-License-Identifier: Apache-2.0
"""The private folder in which targets and recorder meet while a recording is made."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

SHARED_MEMORY = Path("/dev/shm")
NEEDED_BYTES = 64 << 20


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
        place = SHARED_MEMORY if _has_room(SHARED_MEMORY) else fallback
        self.folder = Path(tempfile.mkdtemp(prefix="stallscope-", dir=place.absolute()))
        descriptor = os.open(
            self.folder / "recorder.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        self._lock = os.fdopen(descriptor, "r+b")
        fcntl.lockf(self._lock, fcntl.LOCK_EX)

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
