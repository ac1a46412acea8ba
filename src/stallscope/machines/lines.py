# SPDX-License-Identifier: Apache-2.0
"""On which line of a TOML text each key stands, which tomllib does not tell.

Only for text that tomllib has accepted, so nothing is checked here. Positions are given for all
keys or for none: when what was found is not exactly what tomllib found, there are no positions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]

_BLANK = re.compile(r"[ \t]*+")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*+)*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_SCALAR = re.compile(r"[^,\]}\n#]++")
# A multi-line string may end in up to two quotes of its own before the closing three.
_STRINGS = (
    re.compile(r'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"),
    re.compile(r'"(?:[^"\\\n]++|\\.)*+"'),
    re.compile(r"'[^'\n]*+'"),
)


def lines(text: str, document: dict[str, Any]) -> dict[Path, int]:
    """The line, counted from 1, of every key, table and array element of `document`."""
    scanner = _Scanner(text)
    try:
        scanner.scan()
    except (ValueError, KeyError, IndexError, RecursionError):
        return {}
    return scanner.found if set(scanner.found) == set(_paths(document, ())) else {}


def _paths(value: Any, path: Path) -> Iterator[Path]:
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else ()
    for key, below in enumerate(value) if isinstance(value, list) else inside:
        yield from _paths(below, (*path, key))


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self.elements: dict[Path, int] = {}  # how many [[tables]] each array of tables has
        self.ends = [match.start() for match in re.finditer("\n", text)]

    def scan(self) -> None:
        table: Path = ()
        self.skip(_SPACE)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_SPACE)

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match
        self.at = match.end()

    def take(self, wanted: str) -> bool:
        if self.text.startswith(wanted, self.at):
            self.at += len(wanted)
            return True
        return False

    def line(self) -> int:
        return bisect_right(self.ends, self.at - 1) + 1

    def note(self, path: Path, line: int) -> None:
        """Tables that a dotted name implies stand where they are first named."""
        for length in range(1, len(path)):
            self.found.setdefault(path[:length], line)
        self.found.setdefault(path, line)

    def header(self) -> Path:
        line = self.line()
        repeated = self.take("[[")
        self.at += not repeated
        *above, last = self.keys()
        self.at += 2 if repeated else 1
        path: Path = (*self.resolve(above), last)
        if repeated:
            count = self.elements.get(path, 0)
            self.elements[path] = count + 1
            path = (*path, count)
        else:
            path = self.resolve([*above, last])
        self.note(path, line)
        return path

    def resolve(self, keys: list[str]) -> Path:
        """Where a header leads: through arrays of tables to their newest element."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in self.elements:
                path = (*path, self.elements[path] - 1)
        return path

    def keys(self) -> list[str]:
        keys = []
        while True:
            self.skip(_BLANK)
            keys.append(self.key())
            self.skip(_BLANK)
            if not self.take("."):
                return keys

    def key(self) -> str:
        start = self.at
        if self.text[start] in "\"'":
            self.string()
            return _plain(self.text[start : self.at])
        self.skip(_BARE)
        return self.text[start : self.at]

    def string(self) -> None:
        for pattern in _STRINGS:
            if match := pattern.match(self.text, self.at):
                self.at = match.end()
                return
        raise ValueError("not a string")

    def pair(self, table: Path) -> None:
        line = self.line()
        path = (*table, *self.keys())
        if not self.take("="):
            raise ValueError("not a key")
        self.note(path, line)
        self.skip(_BLANK)
        self.value(path)

    def value(self, path: Path) -> None:
        if self.take("["):
            self.array(path)
        elif self.take("{"):
            self.inline(path)
        elif self.text[self.at] in "\"'":
            self.string()
        else:
            self.skip(_SCALAR)

    def array(self, path: Path) -> None:
        count = 0
        self.skip(_SPACE)
        while not self.take("]"):
            self.found[(*path, count)] = self.line()
            self.value((*path, count))
            self.skip(_SPACE)
            self.take(",")
            self.skip(_SPACE)
            count += 1

    def inline(self, path: Path) -> None:
        self.skip(_SPACE)
        while not self.take("}"):
            self.pair(path)
            self.skip(_SPACE)
            self.take(",")
            self.skip(_SPACE)


def _plain(quoted: str) -> str:
    import tomllib

    (key,) = tomllib.loads(f"{quoted} = 0")
    return key
