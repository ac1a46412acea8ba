# SPDX-License-Identifier: Apache-2.0
"""Watched memory of a program at native speed: breakpoints of the processor for up to four words,
page protection for more, protected pages behind heap blocks for what goes past them."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import os
import re
import signal
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.record.life import environment
from stallscope.record.preflight import preflight
from stallscope.watch_targets import element_ranges

LIBRARY = "libstallscope_watch.so"
FOLDER = b"STALLSCOPE_WATCH"
MAGIC = 0x3148435441575353
HEADER = struct.Struct("<10Q")
ENTRY = struct.Struct("<5Q4I12Q")
BOTH, KERNEL = 3, 4
MODES = ("", "breakpoints", "page protection", "pages behind blocks")
GUARDS = 3
RESTARTED = 125
_ADDRESS = re.compile(r"(0x[0-9a-fA-F]+|\d+)(?:\+(\d+))?")
_NAME = re.compile(r"([A-Za-z_$][\w$:]*)((?:\[(?:\*|\d+)\]|\.[A-Za-z_$][\w$]*)*)")
_CONDITION = re.compile(r"\s*value\s*(==|!=|<|>)\s*(0x[0-9a-fA-F]+|\d+)\s*")
FIXED = 2  # e_type of a program that lies where it says


@dataclass(frozen=True)
class LiveHit:
    time: int  # nanoseconds
    watch: str
    thread: int
    kind: str
    address: str
    value: int
    place: tuple[str, str, int | None]  # function, file, line
    path: tuple[str, ...]
    maker: str  # function that made the block that was overrun


@dataclass(frozen=True)
class LiveLog:
    mode: str
    ranges: int
    hits: int
    false_hits: int
    stopped: bool
    status: int
    entries: tuple[LiveHit, ...]


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
) -> LiveLog:
    """Runs `command` to its end, or to the hit number `stop`, where it is ended."""
    target = preflight(command, native=True)
    if target.is_static:
        raise StallscopeError(
            f"{target.command[0]} is linked statically", "nothing can be preloaded into it"
        )
    kind = (1 if reads else 0) | (2 if writes else 0)
    program = Path(os.fsdecode(target.argv[0]))
    lines = [line for i, text in enumerate(targets) for line in _lines(program, text, i, kind)]
    if condition is not None:
        lines.append(_condition(condition))
    lines.append(f"stop {stop}")
    if any(line.startswith("past") for line in lines) and len(targets) > 1:
        raise StallscopeError("past: is watched alone at native speed")
    with tempfile.TemporaryDirectory(prefix="stallscope-watch-") as made:
        folder = Path(made)
        (folder / "spec").write_text("\n".join(lines) + "\n")
        status, stopped = _run(target, folder)
        return _read(folder, targets, status, stopped)


def _lines(program: Path, text: str, number: int, kind: int) -> list[str]:
    if text.startswith("past:"):
        return [f"past {number} {kind}"]
    if match := _ADDRESS.fullmatch(text):
        return [f"range {int(match[1], 0):x} {match[2] or 8} {number} {kind}"]
    match = None if text.startswith("heap:") else _NAME.fullmatch(text)
    if match is None:
        raise StallscopeError(
            f"{text!r} cannot be watched at native speed",
            now="an address, a variable, table[*].count, or past:*",
        )
    known = _engine.Symbols(str(program)).variables()
    found = [row for row in known if row[0] == match[1]]
    if not found:
        raise StallscopeError(
            f"{program.name} has no variable {match[1]}",
            now=nearest(match[1], [row[0] for row in known]),
        )
    with program.open("rb") as file:
        fixed = file.read(18)[16] == FIXED
    word = "range" if fixed else "exe"
    lines = []
    for row in found:
        types = _engine.Types([(str(program), b"", 0, 0, 1 << 47)]) if match[2] else None
        for start, end in element_ranges(text, types, row[1], row[2], match[2]):
            lines.append(f"{word} {start:x} {end - start} {number} {kind}")
    return lines


def _condition(text: str) -> str:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise StallscopeError(f"--if {text}: not understood", now="--if 'value == 5'; also != < >")
    return f"if {match[1][0]} {int(match[2], 0)}"


def _run(target: Any, folder: Path) -> tuple[int, bool]:
    given = environment()
    preloaded = [os.fsencode(library()), given.get(b"LD_PRELOAD", b"")]
    given = {
        **given,
        b"LD_PRELOAD": b":".join(word for word in preloaded if word),
        FOLDER: os.fsencode(folder),
    }
    pid = os.posix_spawn(target.argv[0], target.argv, given)
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
    names = _Names(maps)
    found = []
    for i in range(entries):
        row = ENTRY.unpack_from(data, HEADER.size + i * ENTRY.size)
        time, ip, address, value, caller, watch, kind, thread, calls, *path = row
        found.append(
            LiveHit(
                time,
                targets[watch],
                thread,
                _kind(kind),
                f"{address:#x}",
                value,
                names.place(ip - (0 if mode == GUARDS else 1)),
                tuple(names.call(one - 1) for one in path[:calls]),
                names.place(caller - 1)[0] if caller else "",
            )
        )
    wanted = {text: text[5:] for text in targets if text.startswith("past:") and text != "past:*"}
    kept = tuple(hit for hit in found if wanted.get(hit.watch, "") in hit.maker)
    left = hits - (len(found) - len(kept))
    return LiveLog(MODES[mode], max(ranges, 1), left, false_hits, stopped, status, kept)


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
