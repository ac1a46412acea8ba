# SPDX-License-Identifier: Apache-2.0
"""Watched memory of a program at native speed: breakpoints of the processor for up to four words,
page protection for more, protected pages behind heap blocks for what goes past them."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import mmap
import os
import signal
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.record.attached import AttachedWatch, WordHit
from stallscope.record.life import environment, has_ended
from stallscope.record.preflight import preflight
from stallscope.record.watch_spec import FIXED, condition_line, range_lines

LIBRARY = "libstallscope_watch.so"
FOLDER = b"STALLSCOPE_WATCH"
MAGIC = 0x3148435441575353
HEADER = struct.Struct("<13Q")
ENTRY = struct.Struct("<5Q4I13Q")
SNAPSHOT = struct.Struct("<18Q4096s")
_NAMED = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp")
REGISTERS = (*_NAMED, *(f"r{i}" for i in range(8, 16)), "rip")  # as watch.h has them
POLL_SECONDS = 0.005
READ = struct.Struct("<Q")  # a counter that both sides look at
ENTRIES = 20_000
LOG_BYTES = HEADER.size + ENTRIES * ENTRY.size
BOTH, KERNEL = 3, 4
MODES = ("", "breakpoints", "page protection", "pages behind blocks")
GUARDS = 3
RESTARTED = 125


@dataclass(frozen=True)
class LiveHit:
    time: int  # nanoseconds
    watch: str
    thread: int
    kind: str
    address: str
    value: int | None
    place: tuple[str, str, int | None]  # function, file, line
    path: tuple[str, ...]
    maker: str  # function that made the block that was overrun
    snapshot: str | None = None  # bytes of what is watched, in hexadecimal
    registers: dict[str, int] | None = None


@dataclass(frozen=True)
class LiveLog:
    mode: str
    ranges: int
    hits: int
    false_hits: int
    stopped: bool
    status: int
    entries: tuple[LiveHit, ...]
    lost: int = 0  # hits that the kernel had no room for


def library() -> Path:
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is not None and extension.origin is not None:
        found = Path(extension.origin).parent / "runtime" / LIBRARY
        if found.exists():
            return found
    raise StallscopeError(
        f"{LIBRARY} is missing", "it lies beside the compiled extension", "reinstall stallscope"
    )


def watch_native(
    targets: Sequence[str],
    command: Sequence[str],
    *,
    reads: bool = True,
    writes: bool = True,
    condition: str | None = None,
    stop: int = 0,
    snapshot: bool = False,
) -> LiveLog:
    """Runs `command` to its end, or to the hit number `stop`, where it is ended."""
    target = preflight(command, native=True)
    if target.is_static:
        raise StallscopeError(
            f"{target.command[0]} is linked statically", "nothing can be preloaded into it"
        )
    kind = (1 if reads else 0) | (2 if writes else 0)
    program = Path(os.fsdecode(target.argv[0]))
    lines = _lines(program, targets, kind)
    if condition is not None:
        lines.append(condition_line(condition))
    lines.append(f"stop {stop}")
    lines += ["snapshot"] if snapshot else []
    with tempfile.TemporaryDirectory(prefix="stallscope-watch-") as made:
        folder = Path(made)
        (folder / "spec").write_text("\n".join(lines) + "\n")
        status, stopped = _run(target, folder)
        return _read(folder, targets, status, stopped)


def watch_running(
    targets: Sequence[str],
    pid: int,
    *,
    kind: int,
    stop: int = 0,
    duration: float | None = None,
    snapshot: bool = False,
) -> LiveLog:
    """Process `pid`, from outside, until it ends, `duration` seconds are over, Ctrl-C, or `stop`
    hits are there; then it goes on unwatched."""
    watch = AttachedWatch(pid, targets, kind)
    maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    hits: list[WordHit] = []
    end = None if duration is None else time.monotonic() + duration
    with contextlib.suppress(KeyboardInterrupt):
        while not stop or len(hits) < stop:
            ended = has_ended(pid)
            hits += watch.take()
            if ended or (end is not None and time.monotonic() > end):
                break
            time.sleep(POLL_SECONDS)
    names, kept = _Names(maps), hits[: stop or ENTRIES]
    return LiveLog(
        "breakpoints, from outside",
        len(watch.words),
        len(kept) if stop else len(hits),
        0,
        0 < stop <= len(hits),
        0,
        tuple(_running_hit(hit, targets, kind, names, snapshot) for hit in kept),
        watch.lost,
    )


def _running_hit(
    hit: WordHit, targets: Sequence[str], kind: int, names: _Names, snapshot: bool
) -> LiveHit:
    return LiveHit(
        hit.time,
        targets[hit.word.watch],
        hit.thread,
        _kind(kind),
        f"{hit.word.start:#x}",
        None if hit.held is None else int.from_bytes(hit.held, "little"),
        names.place(hit.ip - 1),
        (),
        "",
        hit.held.hex() if snapshot and hit.held is not None else None,
        hit.registers if snapshot else None,
    )


def _lines(program: Path, targets: Sequence[str], kind: int) -> list[str]:
    if not any(text.startswith("past:") for text in targets):
        return range_lines(program, targets, kind)
    if len(targets) > 1:
        raise StallscopeError("past: is watched alone at native speed")
    return [f"past 0 {kind}"]


def start(target: Any, folder: Path) -> int:
    """The process that runs `target`, watched as folder/spec says."""
    given = environment()
    preloaded = [os.fsencode(library()), given.get(b"LD_PRELOAD", b"")]
    given = {
        **given,
        b"LD_PRELOAD": b":".join(word for word in preloaded if word),
        FOLDER: os.fsencode(folder),
    }
    return os.posix_spawn(target.argv[0], target.argv, given)


def _run(target: Any, folder: Path) -> tuple[int, bool]:
    pid = start(target, folder)
    try:
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return 0, True
            return status, False
    except BaseException:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        raise


def _read(folder: Path, targets: Sequence[str], status: int, stopped: bool) -> LiveLog:
    try:
        data = (folder / "log").read_bytes()
        maps = (folder / "maps").read_text(errors="replace")
    except OSError as error:
        raise StallscopeError(
            "nothing was watched",
            "the program ended too early, or could not be preloaded into",
            status=RESTARTED,
        ) from error
    magic, entries, hits, false_hits, ranges, _, mode, *_ = HEADER.unpack_from(data)
    if magic != MAGIC or (mode == 0 and ranges):
        raise StallscopeError(
            "this machine cannot watch it",
            "neither breakpoints nor page protection with system calls are to be had",
            "stallscope doctor",
        )
    names, snapshots = _Names(maps), _Snapshots(folder / "snapshots")
    found = []
    for i in range(entries):
        row = ENTRY.unpack_from(data, HEADER.size + i * ENTRY.size)
        when, ip, address, value, caller, watch, kind, thread, calls, *path = row
        found.append(
            LiveHit(
                when,
                targets[watch],
                thread,
                _kind(kind),
                f"{address:#x}",
                value,
                names.place(ip - (0 if mode == GUARDS else 1)),
                tuple(names.call(one - 1) for one in path[:calls]),
                names.place(caller - 1)[0] if caller else "",
                *snapshots.of(i),
            )
        )
    wanted = {text: text[5:] for text in targets if text.startswith("past:") and text != "past:*"}
    kept = tuple(hit for hit in found if wanted.get(hit.watch, "") in hit.maker)
    left = hits - (len(found) - len(kept))
    return LiveLog(MODES[mode], max(ranges, 1), left, false_hits, stopped, status, kept)


class LiveEntries:
    """The log while it is written: a ring whose writer waits for us."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "log"
        self._map: mmap.mmap | None = None
        self._next = 0

    @property
    def mode(self) -> str:
        log = self._open()
        return MODES[HEADER.unpack_from(log)[6]] if log is not None else ""

    def take(self) -> Iterator[tuple[int, int, int, int]]:
        """Time, watch, thread and value of what came since; each counts as read when the next is
        asked for."""
        log = self._open()
        while log is not None:
            at = HEADER.size + self._next % ENTRIES * ENTRY.size
            # First whether it is there, then what it holds: it may be written just now.
            if READ.unpack_from(log, at + ENTRY.size - READ.size)[0] != self._next + 1:
                return
            when, _, _, value, _, watch, _, thread, *_ = ENTRY.unpack_from(log, at)
            yield when, watch, thread, value
            self._next += 1
            READ.pack_into(log, HEADER.size - READ.size, self._next)

    def _open(self) -> mmap.mmap | None:
        if self._map is None and self._path.exists() and self._path.stat().st_size >= LOG_BYTES:
            with self._path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), LOG_BYTES)
        return self._map


class _Snapshots:
    def __init__(self, path: Path) -> None:
        self._file = path.open("rb") if path.exists() else None

    def of(self, number: int) -> tuple[str | None, dict[str, int] | None]:
        """Bytes and registers at an entry of the log."""
        if self._file is None:
            return None, None
        self._file.seek(number * SNAPSHOT.size)
        kept, *registers, data = SNAPSHOT.unpack(self._file.read(SNAPSHOT.size))
        if kept == 0:
            return None, None
        return data[:kept].hex(), dict(zip(REGISTERS, registers, strict=True))


def _kind(bits: int) -> str:
    """A breakpoint that watches both cannot tell which it was."""
    words = {1: "reads", 2: "writes", 3: "reads or writes"}[bits & BOTH]
    return f"{words}, by a call" if bits & KERNEL else words


class _Names:
    """Functions and lines of addresses, by the map of the process."""

    def __init__(self, maps: str) -> None:
        self._modules: list[tuple[int, int, str]] = []
        self._bases: dict[str, int] = {}
        self._symbols: dict[str, Any] = {}
        self._known: dict[int, tuple[str, str, int | None]] = {}
        for line in maps.splitlines():
            words = line.split(None, 5)
            if len(words) < 6 or not words[5].startswith("/"):
                continue
            start, end = (int(word, 16) for word in words[0].split("-"))
            self._modules.append((start, end, words[5]))
            self._bases.setdefault(words[5], start - int(words[2], 16))

    def place(self, address: int) -> tuple[str, str, int | None]:
        if address not in self._known:
            self._known[address] = self._look_up(address)
        return self._known[address]

    def call(self, address: int) -> str:
        function, file, line = self.place(address)
        return f"{function} ({Path(file).name}:{line})" if line else function

    def _look_up(self, address: int) -> tuple[str, str, int | None]:
        inside = [one for one in self._modules if one[0] <= address < one[1]]
        if not inside:
            return f"{address:#x}", "", None
        start, _, path = inside[0]
        if path not in self._symbols:
            try:
                fixed = Path(path).read_bytes()[:18][16] == FIXED
                self._symbols[path] = (_engine.Symbols(path), 0 if fixed else self._bases[path])
            except (OSError, IndexError, _engine.EngineError):
                self._symbols[path] = None
        if self._symbols[path] is None:
            return f"{Path(path).name}+{address - start:#x}", "", None
        symbols, bias = self._symbols[path]
        return first_frame(symbols, address - bias) or (Path(path).name, "", None)


def first_frame(symbols: Any, address: int) -> tuple[str, str, int | None] | None:
    frames = symbols.frames(address)
    if not frames:
        return None
    function, file, line = frames[0][:3]
    return str(function), str(file), line or None


def by_place(log: LiveLog) -> collections.Counter[tuple[str, str, str, str, int | None]]:
    """Hits by watch, kind, function, file and line."""
    counted: collections.Counter[tuple[str, str, str, str, int | None]] = collections.Counter()
    for hit in log.entries:
        counted[hit.watch, hit.kind, *hit.place] += 1
    return counted
