# SPDX-License-Identifier: Apache-2.0
"""What monitors watch, and which of their events and actions there are where they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stallscope import _engine
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.monitors import Monitor

SIMULATED, LIVE, BOTH = "simulated", "live", "both"
WRITES = 2
_WHERE = {SIMULATED: "on a simulated machine", LIVE: "in a live process"}


@dataclass(frozen=True)
class Watches:
    targets: tuple[str, ...] = ()  # in the words of stallscope watch
    access: int = WRITES  # 1 reads, 2 writes, 3 both
    data: bool = False  # somebody looks at what was read or written

    @classmethod
    def of(cls, monitors: Sequence[Monitor], more: Sequence[str] = ()) -> Watches:
        """Of all of them together; `more` is what they are given."""
        targets = dict.fromkeys([*more, *(text for one in monitors for text in one.watch)])
        accesses = {one.access for one in monitors if one.watch or more} or {WRITES}
        if len(accesses) > 1 and targets:
            raise StallscopeError("monitors that run together watch the same kind of access")
        looks = any(one.looks_at_data for one in monitors)
        return cls(tuple(targets), accesses.pop(), looks)


def check_place(monitors: Sequence[Monitor], place: str) -> None:
    """An error when a monitor waits for something that does not happen there."""
    known = [name for name, _, _, where in _engine.monitor_events() if where in (place, BOTH)]
    every = [name for name, *_ in _engine.monitor_events()]
    for one in monitors:
        for detector in one.image.detectors:
            if every[detector.event] not in known:
                raise StallscopeError(
                    f"{one.name}: {every[detector.event]} does not happen {_WHERE[place]}",
                    f"there is: {', '.join(known)}",
                )
