# SPDX-License-Identifier: Apache-2.0
"""The one exception that a user can cause. Only cli/main.py prints it."""

from __future__ import annotations


class StallscopeError(Exception):
    """What is wrong, why, and what to do now; `status` is the exit status it asks for."""

    def __init__(self, what: str, why: str = "", now: str = "", *, status: int = 2) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.now = now
        self.status = status

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.what, self.why, self.now and f"try: {self.now}")))
