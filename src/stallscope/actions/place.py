# SPDX-License-Identifier: Apache-2.0
"""Sets the affinity of a live process's threads, and gives back what they had before."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stallscope.errors import StallscopeError
from stallscope.record.life import check_ours


def threads_of(pid: int) -> dict[int, str]:
    """The threads of a process that is ours, and their names."""
    check_ours(pid)
    try:
        found = {int(task.name): task for task in Path(f"/proc/{pid}/task").iterdir()}
    except OSError as error:
        raise StallscopeError(f"there is no process {pid}", error.strerror or "") from error
    names = {}
    for number, task in found.items():
        try:
            names[number] = (task / "comm").read_text(errors="replace").rstrip("\n")
        except OSError:  # it ended meanwhile
            continue
    return names


def _started(pid: int) -> str:
    """When the process began: a number that comes again is another process."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return text.rpartition(")")[2].split()[19]


def _kept(pid: int) -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    return state / "stallscope" / f"affinity-{pid}.json"


def apply(rows: Sequence[Any], pid: int) -> list[str]:
    """Threads by their names, or by their order where no name fits; what was done, in sentences.
    `rows` have a name and a processor."""
    live = threads_of(pid)
    missing = sorted({row.processor for row in rows} - os.sched_getaffinity(0))
    if missing:
        raise StallscopeError(
            f"processor {missing[0]} does not exist here, or is not ours",
            f"there is: {', '.join(map(str, sorted(os.sched_getaffinity(0))))}",
            "stallscope place --host --apply PID spreads over what is here",
        )
    before: dict[int, list[int]] = {}
    for tid in live:
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            before[tid] = sorted(os.sched_getaffinity(tid))
    _keep(pid, before)
    done = []
    for tid, processor in _matched(rows, live):
        try:
            os.sched_setaffinity(tid, {processor})
        except OSError as error:
            done.append(f"thread {tid} stays where it is: {error.strerror}")
            continue
        done.append(f"thread {tid} runs on processor {processor}")
    if not done:
        _kept(pid).unlink(missing_ok=True)
        raise StallscopeError(
            f"no thread of process {pid} is named as one of the recording",
            f"it has: {', '.join(sorted(set(live.values())))}",
        )
    return done


def _matched(rows: Sequence[Any], live: dict[int, str]) -> Iterable[tuple[int, int]]:
    """Those that share a name are taken in the order in which they were started."""
    wanted: dict[str, list[int]] = {}
    for row in rows:
        wanted.setdefault(row.name.rpartition("#")[0] or row.name, []).append(row.processor)
    for tid, name in sorted(live.items()):
        if wanted.get(name):
            yield tid, wanted[name].pop(0)


def _keep(pid: int, before: dict[int, list[int]]) -> None:
    path = _kept(pid)
    if path.exists() and json.loads(path.read_text()).get("started") == _started(pid):
        return  # what it had before the first change is what undo is about
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(json.dumps({"started": _started(pid), "threads": before}))


def undo(pid: int) -> int:
    """How many threads may run where they could before."""
    path = _kept(pid)
    live = threads_of(pid)
    try:
        document = json.loads(path.read_text())
        known = {int(tid): set(cpus) for tid, cpus in document["threads"].items()}
        same = document["started"] == _started(pid)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        same, known = False, {}
    if not same:
        raise StallscopeError(
            f"nothing is known about process {pid}",
            "its threads were not placed by stallscope",
            "stallscope place --apply PID places them",
        )
    restored = 0
    everything = set().union(*known.values())
    for tid in live:
        try:
            os.sched_setaffinity(tid, known.get(tid, everything))
        except OSError:
            continue
        restored += 1
    path.unlink()
    return restored
