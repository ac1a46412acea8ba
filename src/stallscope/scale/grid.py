# SPDX-License-Identifier: Apache-2.0
"""Which designs a sweep is about: a grid of values, or a list in a file.

l2.size=256K,512K,1M     these
l2.size=64K..4M*2        from 64K to 4M, each twice the one before
l2.ways=1..16            every whole number
l2.ways=4..16+4          4, 8, 12, 16
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.machines.keys import Wrong, size, size_text

Values = dict[str, str | int]  # of one design: what was set, by key

MOST = 1_000_000  # designs
_RANGE = re.compile(r"([^.*+]+)\.\.([^*+]+)(?:([*+])(.+))?")
RESERVED = ("recording", "machine", "level", "accesses", "misses", "error")


def parse(settings: Sequence[str]) -> dict[str, list[str | int]]:
    """From the words of --set to the values of each key."""
    grid: dict[str, list[str | int]] = {}
    for setting in settings:
        key, equals, values = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise StallscopeError(
                f"--set {setting}: a key and its values were expected",
                now="--set l2.size=256K,512K,1M",
            )
        if key in grid:
            raise StallscopeError(f"--set {key} is there twice", now=f"--set {key}=A,B,C")
        grid[key] = read_values(key, values.split(","))
    return grid


def read_values(key: str, given: Sequence[str | int]) -> list[str | int]:
    """Ranges written out; the same value twice is one design."""
    found: dict[str | int, None] = {}
    for value in given:
        text = str(value).strip()
        if not text:
            continue
        match = _RANGE.fullmatch(text)
        for one in _range(key, text, match) if match else [text]:
            found[int(one) if one.isascii() and one.isdigit() else one] = None
    if not found:
        raise StallscopeError(f"--set {key}: there is no value", now=f"--set {key}=A,B,C")
    return list(found)


def _range(key: str, text: str, match: re.Match[str]) -> list[str]:
    try:
        first, last = size(match[1]), size(match[2])
        step = size(match[4]) if match[3] else 1
    except Wrong:
        raise _no_range(key, text, "its ends and its step are whole numbers or sizes") from None
    if first > last:
        raise _no_range(key, text, "it ends before it begins")
    if step < (2 if match[3] == "*" else 1) or (match[3] == "*" and first == 0):
        raise _no_range(key, text, "it would never end")
    written = re.search(r"[KMG]", text, re.IGNORECASE) is not None
    values: list[str] = []
    while first <= last:
        if len(values) == MOST:
            raise _no_range(key, text, f"it has more than {MOST:,} values")
        values.append(size_text(first) if written else str(first))
        first = first * step if match[3] == "*" else first + step
    return values


def _no_range(key: str, text: str, why: str) -> StallscopeError:
    return StallscopeError(f"--set {key}={text}: no such range", why, f"--set {key}=64K..4M*2")


def designs(grid: Mapping[str, Sequence[str | int]]) -> list[Values]:
    """All combinations; the last key changes fastest."""
    for key, values in grid.items():
        _check_name(key)
        if not values:
            raise StallscopeError(f"--set {key}: there is no value", now=f"--set {key}=A,B,C")
    count = 1
    for values in grid.values():
        count *= len(values)
    if count > MOST:
        raise StallscopeError(
            f"the grid has {count:,} designs", f"a sweep takes at most {MOST:,}", "fewer values"
        )
    return [dict(zip(grid, row, strict=True)) for row in itertools.product(*grid.values())]


def read_list(path: str | Path) -> list[Values]:
    """A CSV file: keys in its first line, then a design a line; an empty field leaves a key."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror or "" if isinstance(error, OSError) else "it is no text"
        raise StallscopeError(f"cannot read the designs in {path}", why) from error
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if len(rows) < 2:
        raise StallscopeError(
            f"{path} has no designs", "a line of keys and lines of values were expected"
        )
    keys = [key.strip() for key in rows[0]]
    for key in keys:
        _check_name(key)
    found = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(keys):
            raise StallscopeError(
                f"{path}: line {number} has {len(row)} values",
                f"there are {len(keys)} keys in the first line",
            )
        found.append({key: v.strip() for key, v in zip(keys, row, strict=True) if v.strip()})
    return [
        {key: int(v) if v.isascii() and v.isdigit() else v for key, v in one.items()}
        for one in found
    ]


def _check_name(key: str) -> None:
    if not key or key in RESERVED:
        raise StallscopeError(f"{key!r} is no key of a machine", now="--set l2.size=256K,512K,1M")
