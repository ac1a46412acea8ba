# SPDX-License-Identifier: Apache-2.0
"""A copy of /proc/PID/maps: what was mapped where."""

from __future__ import annotations

import re
from pathlib import Path

from stallscope.errors import StallscopeError

_LINE = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-])([w-])([x-])[ps] ([0-9a-f]{1,16}) \S+ \d+ *(.*)"
)
MOST_LINES = 1 << 20


def read_maps(path: Path) -> list[tuple[int, int, int, int, str]]:
    """(start, end, offset, access, path) for each line; access is 1 read, 2 write, 4 execute."""
    try:
        with path.open(errors="surrogateescape") as file:
            lines = [line.rstrip("\n") for line, _ in zip(file, range(MOST_LINES), strict=False)]
    except OSError as error:
        raise StallscopeError(f"cannot read {path}", error.strerror or "") from error
    found = []
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None or int(match[1], 16) >= int(match[2], 16):
            raise StallscopeError(
                f"{path} cannot be read at line {number}",
                "it is no line of /proc/PID/maps",
                "cp /proc/PID/maps FILE while the program runs",
            )
        start, end, offset = (int(match[i], 16) for i in (1, 2, 6))
        access = sum(bit for bit, i in ((1, 3), (2, 4), (4, 5)) if match[i] != "-")
        found.append((start, end, offset, access, match[7]))
    return found
