# SPDX-License-Identifier: Apache-2.0
"""Which processes of this host are busy, and whose turn it is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEAST = 0.02  # of a processor, below which a process is not worth a look
_TICKS = os.sysconf("SC_CLK_TCK")
_STAT = re.compile(rb"(\d+) \((.*)\) (\S) (.*)", re.DOTALL)


@dataclass(frozen=True)
class Busy:
    pid: int
    name: str  # of its program's file
    title: str  # what the kernel calls it; a program may have been started by another name
    started: int  # ticks since the machine was: with the pid, which process this is
    used: float  # seconds of processor time so far

    @property
    def plain_name(self) -> str:
        """As part of a file's name."""
        return re.sub(r"[^A-Za-z0-9_.+]", "_", self.name)[:60].lstrip(".") or "program"


def processes() -> Iterator[Busy]:
    """Those that may be looked at: of the same user, or all for root; no threads of the kernel."""
    own, user = os.getpid(), os.geteuid()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == own:
            continue
        try:
            if user != 0 and folder.stat().st_uid != user:
                continue
            match = _STAT.fullmatch((folder / "stat").read_bytes().strip())
            program = (folder / "exe").readlink().name
        except OSError:
            continue  # it ended, is the kernel's, or is not ours to look at
        if match is None or match[3] in (b"Z", b"X"):
            continue
        fields = match[4].split()
        name = program.removesuffix(" (deleted)")
        title = match[2].decode(errors="replace")
        used = sum(map(int, fields[10:12])) / _TICKS
        yield Busy(int(match[1]), name, title, int(fields[18]), used)


class Chooser:
    """Programs take turns: the one that was looked at longest ago, and of its processes the one
    that did most since the last look."""

    def __init__(self, programs: tuple[str, ...] = ()) -> None:
        self._programs = programs
        self._known: dict[tuple[int, int], float] = {}
        self._looked: dict[str, int] = {}
        self._turn = 0
        self._time = time.monotonic()
        self._remember(list(processes()))

    def _remember(self, found: list[Busy]) -> None:
        self._known = {(one.pid, one.started): one.used for one in found}
        self._time = time.monotonic()

    def _is_wanted(self, one: Busy) -> bool:
        return not self._programs or not {one.name, one.title}.isdisjoint(self._programs)

    def next(self) -> Busy | None:
        seconds = max(0.05, time.monotonic() - self._time)
        found = list(processes())
        did = {one: one.used - self._known.get((one.pid, one.started), 0.0) for one in found}
        self._remember(found)
        wanted = [one for one in found if did[one] / seconds >= LEAST and self._is_wanted(one)]
        if not wanted:
            return None
        self._turn += 1
        name = min({one.name for one in wanted}, key=lambda n: (self._looked.get(n, 0), n))
        self._looked[name] = self._turn
        return max((one for one in wanted if one.name == name), key=lambda one: did[one])
