# SPDX-License-Identifier: Apache-2.0
"""Groups of the kernel's events that take turns while a program runs.

One event of every group at a time would be all that few counters allow; here the groups are
switched by this process, at a frequency of its choosing. The program's processor time is counted
always, and is what slices are measured in. Threads and children are included.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.record import perf_probe

SOFTWARE_EVENTS = {
    "task-clock": 1,
    "page-faults": 2,
    "context-switches": 3,
    "cpu-migrations": 4,
    "minor-faults": 5,
    "major-faults": 6,
    "alignment-faults": 7,
    "emulation-faults": 8,
}
HARDWARE_EVENTS = {
    "cpu-cycles": 0,
    "instructions": 1,
    "cache-references": 2,
    "cache-misses": 3,
    "branch-instructions": 4,
    "branch-misses": 5,
    "bus-cycles": 6,
}
PRIVILEGES = ("user", "kernel", "both")
_INHERIT, _EXCLUDE_USER, _EXCLUDE_KERNEL, _DISABLED = 1 << 1, 1 << 4, 1 << 5, 1 << 0
_ENABLE, _DISABLE = 0x2400, 0x2401
_OPEN = 298
_CLOEXEC = 8
_MANY = 60  # close names that are looked at for a hint

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Slices:
    """What was counted: of the group that had its turn, and of everything."""

    order: list[int]  # group of each slice
    clock: list[float]  # nanoseconds of the program in it
    counts: list[dict[str, float]]  # of its group's events; empty where too little was seen
    full: list[dict[str, float]]  # of all events
    seconds: float
    processor: float  # seconds of it, by the program and those of its children that it waited for
    status: int


def kind_of(event: str) -> tuple[int, int]:
    """(type, config) of an event by its name: page-faults, or sched:sched_switch."""
    if event in SOFTWARE_EVENTS:
        return perf_probe.SOFTWARE, SOFTWARE_EVENTS[event]
    if event in HARDWARE_EVENTS:
        return perf_probe.HARDWARE, HARDWARE_EVENTS[event]
    if ":" not in event:
        raise _unknown(event)
    group, name = event.split(":", 1)
    for folder in perf_probe.TRACING:
        if not (folder / "events").is_dir():
            continue
        try:
            return perf_probe.TRACEPOINT, int((folder / "events" / group / name / "id").read_text())
        except FileNotFoundError:
            raise _unknown(event, folder / "events" / group) from None
        except OSError as error:
            raise StallscopeError(
                f"the tracepoint {event} cannot be read", error.strerror or "", "run as root"
            ) from error
    raise StallscopeError(
        f"the tracepoint {event} is out of reach",
        "tracefs is not mounted, and only it knows the numbers of tracepoints",
        "mount -t tracefs nodev /sys/kernel/tracing, or software events: "
        + ", ".join(SOFTWARE_EVENTS),
    )


def _unknown(event: str, folder: Path | None = None) -> StallscopeError:
    from difflib import get_close_matches

    known = [*SOFTWARE_EVENTS, *HARDWARE_EVENTS]
    if folder is not None and folder.is_dir():
        known += [f"{folder.name}:{path.name}" for path in folder.iterdir()]
    near = get_close_matches(event, known, 3, 0.4)
    return StallscopeError(
        f"the kernel has no event {event!r}",
        f"near it: {', '.join(near)}" if near else f"there is: {', '.join(known[:_MANY])}",
        near[0] if near else "",
    )


class Event:
    """One event of a process and its children. Software and hardware alike."""

    def __init__(
        self, name: str, pid: int, privilege: str, enabled: bool, leader: Event | None = None
    ) -> None:
        kind, config = kind_of(name)
        attributes = perf_probe.Attributes(type=kind, config=config)
        attributes.size = ctypes.sizeof(attributes)
        attributes.flags = _INHERIT | (0 if enabled or leader is not None else _DISABLED)
        attributes.flags |= {"user": _EXCLUDE_KERNEL, "kernel": _EXCLUDE_USER}.get(privilege, 0)
        ctypes.set_errno(0)
        self.fd: int = _libc.syscall(
            _OPEN,
            ctypes.byref(attributes),
            pid,
            -1,
            -1 if leader is None else leader.fd,
            ctypes.c_ulong(_CLOEXEC),
        )
        if self.fd < 0:
            raise _refused(name, kind, ctypes.get_errno())
        self.last = 0

    def read(self) -> int:
        (count,) = struct.unpack("=Q", os.read(self.fd, 8))
        return int(count)

    def step(self) -> int:
        """What was counted since the last step."""
        now = self.read()
        before, self.last = self.last, now
        return now - before

    # Of a leader: the others of its group are on, and count while it does. Switched one by one they
    # would start one interrupt after the other, tens of microseconds apart.
    def enable(self) -> None:
        _libc.ioctl(self.fd, ctypes.c_ulong(_ENABLE), 0)

    def disable(self) -> None:
        _libc.ioctl(self.fd, ctypes.c_ulong(_DISABLE), 0)

    def close(self) -> None:
        os.close(self.fd)


def _refused(name: str, kind: int, number: int) -> StallscopeError:
    hidden = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
    if kind == perf_probe.HARDWARE and number in hidden:
        return StallscopeError(
            f"the event {name} cannot be counted here",
            "the processor's counters are hidden, as in most virtual machines",
            "stallscope record --trace -- PROGRAM and stallscope counters, or software events: "
            + ", ".join(SOFTWARE_EVENTS),
        )
    level = Path("/proc/sys/kernel/perf_event_paranoid")
    allowed = level.read_text().strip() if level.exists() else "unknown"
    return StallscopeError(
        f"the kernel refused to count {name}",
        f"{os.strerror(number)} (perf_event_paranoid is {allowed})",
        "run as root, or sudo sysctl kernel.perf_event_paranoid=-1",
    )


def run(
    command: Sequence[str],
    groups: Sequence[Sequence[str]],
    *,
    ratio: int,
    frequency: float,
    privilege: str = "both",
    seed: int = 1,
    full: bool = True,
    on_round: Callable[[list[int], list[dict[str, float]], list[float]], None] | None = None,
) -> Slices:
    """Runs a program to its end, its groups taking turns so many times a second. With `full`
    everything that hardware does not limit is counted all the time too, which costs an interrupt of
    the program for each event and switch."""
    if privilege not in PRIVILEGES:
        raise StallscopeError(f"there is no privilege {privilege!r}", ", ".join(PRIVILEGES))
    if not command:
        raise StallscopeError("there is no program to count", now="… --source perf -- PROGRAM")
    if frequency <= 0:
        raise StallscopeError(f"{frequency} switches a second are too few", now="--frequency 500")
    pid, go = start(command)
    opened: list[Event] = []
    try:
        made = Multiplexer(pid, groups, privilege, opened, full)
        os.write(go, b"!")
        os.close(go)
        return made.run(ratio, frequency, seed, on_round)
    except BaseException:
        end(pid)
        raise
    finally:
        for event in opened:
            event.close()


def end(pid: int) -> None:
    import contextlib
    import signal

    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def start(command: Sequence[str]) -> tuple[int, int]:
    """A child that waits for a byte, so that events are there before the program is."""
    import shutil

    path = shutil.which(command[0])
    if path is None:
        raise StallscopeError(f"there is no program {command[0]}")
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go)
            if os.read(wait, 1):
                os.execv(path, list(command))
        finally:
            os._exit(127)
    os.close(wait)
    return pid, go


class Multiplexer:
    def __init__(
        self,
        pid: int,
        groups: Sequence[Sequence[str]],
        privilege: str,
        opened: list[Event],
        full: bool,
    ) -> None:
        def event(name: str, enabled: bool, leader: Event | None = None) -> Event:
            rights = privilege if name != "task-clock" else "both"
            opened.append(Event(name, pid, rights, enabled, leader))
            return opened[-1]

        self.pid = pid
        self.clock = event("task-clock", True)
        # Each group has a clock of its own, which goes while it counts.
        self.leaders = [event("task-clock", False) for _ in groups]
        self.groups = [
            {name: event(name, False, leader) for name in group}
            for group, leader in zip(groups, self.leaders, strict=True)
        ]
        # Hardware has no room for everything at once, and so no truth to compare with.
        names = [name for group in groups for name in group]
        self.all = {
            name: event(name, True)
            for name in names
            if full and kind_of(name)[0] != perf_probe.HARDWARE
        }
        self.full = full

    def run(
        self,
        ratio: int,
        frequency: float,
        seed: int,
        on_round: Callable[[list[int], list[dict[str, float]], list[float]], None] | None,
    ) -> Slices:
        draw = random.Random(seed)
        made = Slices([], [], [], [], 0.0, 0.0, 0)
        began = time.monotonic()
        due, status, processor = began, None, 0.0
        turns = [i % len(self.groups) for i in range(ratio)]
        while status is None:
            draw.shuffle(turns)
            for group in turns:
                due = max(due, time.monotonic() - 0.5 / frequency) + 1 / frequency
                self._slice(group, due, made)
                done, code, used = os.wait4(self.pid, os.WNOHANG)
                if done:
                    status = os.waitstatus_to_exitcode(code)
                    processor = used.ru_utime + used.ru_stime
                    break
            else:
                if on_round is not None:
                    on_round(made.order[-ratio:], made.counts[-ratio:], made.clock[-ratio:])
        seconds = time.monotonic() - began
        return Slices(made.order, made.clock, made.counts, made.full, seconds, processor, status)

    def switch_for(self, seconds: float, frequency: float) -> int:
        """Groups take turns for so long; how many slices that were."""
        end = time.monotonic() + seconds
        made = Slices([], [], [], [], 0.0, 0.0, 0)
        while frequency > 0 and time.monotonic() < end:
            turn = len(made.order) % len(self.groups)
            self._slice(turn, time.monotonic() + 1 / frequency, made)
        time.sleep(max(0.0, end - time.monotonic()))
        return len(made.order)

    def _slice(self, group: int, due: float, made: Slices) -> None:
        leader = self.leaders[group]
        leader.enable()
        left = due - time.monotonic()
        if left > 0:
            time.sleep(left)
        leader.disable()
        counted = float(leader.step())
        clock = float(self.clock.step()) if self.full else counted
        steps = {name: event.step() for name, event in self.groups[group].items()}
        # Between groups nobody counts; what was seen stands for that too. What saw next to nothing
        # of its slice tells nothing about it.
        known = counted > 0.2 * clock  # not where the program did not run at all
        scale = clock / counted if counted > 0 else 0.0
        made.order.append(group)
        made.clock.append(clock)
        made.counts.append({name: step * scale for name, step in steps.items()} if known else {})
        made.full.append({name: float(event.step()) for name, event in self.all.items()})
