# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a file is imported, and right after. All of it on standard error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.record.importing import Imported, Progress

SHOW_AFTER_SECONDS = 1.0


class Status:
    """One line that is rewritten in place, on a terminal only and not in the first second."""

    def __init__(self, *, quiet: bool) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown = False

    def show(self, progress: Progress) -> None:
        if not self._on or time.monotonic() - self._started < SHOW_AFTER_SECONDS:
            return
        text = f"importing  {progress.fraction:4.0%}  {amount(progress.accesses)} accesses"
        print(f"\r\x1b[2K\x1b[2m{text}\x1b[0m", end="", file=sys.stderr, flush=True)
        self._shown = True

    def close(self) -> None:
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
            self._shown = False


def closing_words(imported: Imported, out: TextIO) -> None:
    rows = [image.meta for image in imported.recording.processes()]
    samples = sum(row.samples for row in rows)
    accesses = sum(row.loads + row.stores for row in rows)
    what = f"{amount(samples)} samples" if samples else f"{amount(accesses)} memory accesses"
    name = clean(imported.recording.path.name)
    for warning in imported.warnings:
        print(f"stallscope: {clean(warning)}", file=out)
    print(
        f"stallscope: {what} from a {imported.format} file in {name}",
        file=out,
    )
    print(f"  next: stallscope objects {name}", file=out)
