# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a program is recorded, and right after. All of it on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from stallscope.views.terminal.text import amount, clean, duration, size

if TYPE_CHECKING:
    from stallscope.meta import Meta
    from stallscope.record import Recorded
    from stallscope.record.life import Progress

SHOW_AFTER_SECONDS = 1.0


class Status:
    """One line that is rewritten in place, on a terminal only and not in the first second."""

    def __init__(self, *, quiet: bool) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._shown = False
        self._said_waiting = False

    def show(self, progress: Progress) -> None:
        if progress.root_ended and not self._said_waiting and progress.running:
            self._said_waiting = True
            self.close()
            if self._on:
                print(
                    f"stallscope: the program has ended; waiting for {progress.running} of its "
                    "children (Ctrl-C stops waiting)",
                    file=sys.stderr,
                )
        if not self._on or progress.seconds < SHOW_AFTER_SECONDS:
            return
        parts = ["recording", duration(progress.seconds)]
        if progress.instructions is not None:
            parts += [f"{amount(progress.instructions)} instructions", size(progress.bytes)]
        if progress.samples is not None:
            parts.append(f"{amount(progress.samples)} samples")
        text = "  ".join(parts)
        print(f"\r\x1b[2K\x1b[2m{text}\x1b[0m", end="", file=sys.stderr, flush=True)
        self._shown = True

    def close(self) -> None:
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
            self._shown = False


def _amounts(rows: list[Meta], pages: int | None) -> str:
    if pages is not None:
        faults = sum(row.options.get("faults", 0) for row in rows)
        seconds = sum(row.seconds or 0.0 for row in rows)
        return f"{pages:,} pages, {amount(faults)} faults, {duration(seconds)}"
    if any(row.samples for row in rows):
        return f"{amount(sum(row.samples for row in rows))} samples"
    instructions = sum(row.instructions for row in rows)
    accesses = sum(row.loads + row.stores for row in rows)
    return f"{amount(instructions)} instructions, {amount(accesses)} memory accesses"


def closing_words(recorded: Recorded, out: TextIO) -> None:
    rows = [process.meta for process in recorded.recording.processes()]
    name = clean(recorded.recording.path.name)
    for warning in recorded.warnings:
        print(f"stallscope: {clean(warning)}", file=out)
    failures(recorded, out)
    processes = f" in {len(rows)} processes" if len(rows) > 1 else ""
    print(f"stallscope: {_amounts(rows, recorded.pages)}{processes} in {name}", file=out)
    answers = recorded.recording.meta.machine != "none" or any(row.samples for row in rows)
    verb = "objects" if answers else "info"
    verb = "pages" if recorded.recording.meta.source == "pages" else verb
    print(f"  next: stallscope {verb} {name}", file=out)


def failures(recorded: Recorded, out: TextIO) -> None:
    for failure in recorded.failures:
        reason = f" ({clean(failure.why)})" if failure.why else ""
        print(f"stallscope: {clean(failure.what)}{reason}", file=out)
