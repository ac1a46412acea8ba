# SPDX-License-Identifier: Apache-2.0
"""Monitor cores alone: told what happens, and stepped through one instruction after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.monitors import Monitor
from stallscope.monitors.assembler import disassemble, events, features


class Simulator:
    """One or several connected monitors without a machine around them."""

    def __init__(self, *monitors: Monitor, **config: int) -> None:
        self.monitors = monitors
        self._cores = _engine.Monitors()
        for monitor in monitors:
            try:
                self._cores.add(monitor.image.to_engine(), {**monitor.config, **config})
            except _engine.EngineError as error:
                raise StallscopeError(*error.args) from error

    def boot(self) -> None:
        """Runs until nothing is left to do."""
        for number in range(len(self.monitors)):
            while self._cores.step(number):
                pass

    def notify(
        self,
        event: str,
        cycle: int,
        *,
        core: int = 0,
        address: int = 0,
        data: int = 0,
        count: int = 1,
    ) -> int:
        """Something happens; the cycle at which the core that did it goes on."""
        if event not in events():
            raise StallscopeError(f"there is no event {event!r}", now=nearest(event, events()))
        number = events().index(event)
        resumed: int = self._cores.notify(number, cycle, core, address, data, count)
        return resumed

    def advance(self, cycle: int) -> None:
        self._cores.advance(cycle)

    def steps(self, number: int = 0) -> Iterator[tuple[int, int, str]]:
        """(cycle, address, instruction) for each instruction, until nothing is left to do."""
        while True:
            before = self.state(number)
            if not self._cores.step(number):
                return
            if before["running"]:
                yield before["now"], before["pc"], disassemble(before["next_word"], before["pc"])

    def word(self, name: str, index: int = 0, number: int = 0) -> int:
        image = self.monitors[number].image
        if name not in image.words:
            raise StallscopeError(
                f"there is no word {name!r}", now=nearest(name, list(image.words))
            )
        value: int = self._cores.read(number, image.words[name] + 8 * index)
        return value

    def write(self, address: int, value: int, cycle: int, number: int = 0) -> bool:
        """As an execution core writes to the monitor's memory."""
        done: bool = self._cores.write(number, address, value, cycle)
        return done

    def set_feature(self, name: str, value: int) -> None:
        self._cores.set_feature(features().index(name), value)

    def state(self, number: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self._cores.state(number)
        return found

    @property
    def acts(self) -> list[tuple[int, str, int, int, int]]:
        """(monitor, feature, ra, rb, cycle) of what they did to the machine."""
        return self.acts_from(0)

    def acts_from(self, first: int) -> list[tuple[int, str, int, int, int]]:
        found: list[tuple[int, str, int, int, int]] = self._cores.acts(first)
        return found
