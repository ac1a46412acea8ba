# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a machine, and where in its description."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from stallscope.errors import StallscopeError
from stallscope.machines.lines import Path

_SHOWN = 40  # characters of a wrong value


class Fault(Exception):
    """`path` leads to the key as tomllib has it: ("cache", 1, "ways")."""

    def __init__(self, path: Path, what: str, why: str = "", now: str = "") -> None:
        super().__init__(what)
        self.path = path
        self.what = what
        self.why = why
        self.now = now

    def error(self, where: str) -> StallscopeError:
        return StallscopeError(f"{where}: {self.what}", self.why, self.now)


def shown(value: Any) -> str:
    """A value as a machine file has it, cut when it is long."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, str):
        text = f'"{value}"'
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def nearest(given: str, known: list[str]) -> str:
    found = get_close_matches(given.lower(), [name.lower() for name in known], 1, 0.5)
    return next((name for name in known if [name.lower()] == found), "")
