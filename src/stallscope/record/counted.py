# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts of a process for everybody: time that its threads ran, page faults, how
often they were put aside."""

from __future__ import annotations

import resource
from pathlib import Path

TIME, FAULTS, SWITCHES = "cycles", "page_fault", "context_switch"


def from_usage(usage: resource.struct_rusage) -> dict[str, int]:
    """Totals of a process that has ended, as wait4 gives them; time in nanoseconds."""
    return {
        TIME: round((usage.ru_utime + usage.ru_stime) * 1e9),
        FAULTS: usage.ru_minflt + usage.ru_majflt,
        SWITCHES: usage.ru_nvcsw + usage.ru_nivcsw,
    }


class Counted:
    """Counts since the last look. What a thread did between the last look and its end is missing
    until the process has ended."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._threads: dict[str, tuple[int, int]] = {}  # time and switches, by thread
        self._gone = (0, 0)  # of threads that have ended
        self._told = dict.fromkeys((TIME, FAULTS, SWITCHES), 0)

    def read(self, totals: dict[str, int] | None = None) -> dict[str, int]:
        """`totals`: of a process that is no more."""
        now = totals if totals is not None else self._totals()
        fresh = {name: max(now[name] - told, 0) for name, told in self._told.items()}
        self._told = {name: told + fresh[name] for name, told in self._told.items()}
        return fresh

    def _totals(self) -> dict[str, int]:
        try:
            words = (self._folder / "stat").read_text().rpartition(")")[2].split()
            faults = int(words[7]) + int(words[9])
            seen = {}
            for task in (self._folder / "task").iterdir():
                seen[task.name] = _thread(task)
        except (OSError, IndexError, ValueError):
            return self._told
        for name in self._threads.keys() - seen.keys():
            gone = self._threads.pop(name)
            self._gone = (self._gone[0] + gone[0], self._gone[1] + gone[1])
        self._threads |= seen
        times, switches = zip(self._gone, *self._threads.values(), strict=True)
        return {TIME: sum(times), FAULTS: faults, SWITCHES: sum(switches)}


def _thread(task: Path) -> tuple[int, int]:
    ran = int((task / "schedstat").read_text().split()[0])
    lines = (task / "status").read_text().splitlines()
    return ran, sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
