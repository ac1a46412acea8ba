# SPDX-License-Identifier: Apache-2.0
"""What a recording at native speed has seen so far, for who looks at it while it is made.

Who does not look pays nothing: a server says that somebody looks by touching a file in the
recording's folder, and only then is what there is written beside it, as a recording of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from pathlib import Path

from stallscope import _engine, meta
from stallscope.record.sampled import Run, images_of, opening, write
from stallscope.record.writer import make_folder

LOOKED_AT = "looked-at"
SO_FAR = "so-far"
LOOKING = 10.0  # seconds after the last look, for which somebody is there
EVERY = 2.0  # seconds from one picture to the next


class SoFar:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._next = 0.0
        with contextlib.suppress(OSError):  # a disk that refuses is told at the end
            meta.write(opening(run), run.folder)

    def show(self, live: _engine.Live) -> None:
        """Called often."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        if not _somebody_looks(self._run.folder):
            return
        fresh = self._run.folder / f"{SO_FAR}.new"
        run = dataclasses.replace(self._run, folder=fresh)
        images = images_of(run, live)
        if not images:
            return
        shutil.rmtree(fresh, ignore_errors=True)
        make_folder(fresh)
        write(run, images, live)
        if run.failure is None:
            shutil.rmtree(self._run.folder / SO_FAR, ignore_errors=True)
            fresh.rename(self._run.folder / SO_FAR)

    def close(self) -> None:
        for name in (SO_FAR, f"{SO_FAR}.new"):
            shutil.rmtree(self._run.folder / name, ignore_errors=True)
        (self._run.folder / LOOKED_AT).unlink(missing_ok=True)


def look(folder: Path) -> None:
    """Says that somebody looks at the recording that is made there."""
    (folder / LOOKED_AT).touch(mode=0o600)


def _somebody_looks(folder: Path) -> bool:
    try:
        return time.time() - (folder / LOOKED_AT).stat().st_mtime < LOOKING
    except OSError:
        return False
