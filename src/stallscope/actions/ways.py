# SPDX-License-Identifier: Apache-2.0
"""Ways to run ahead of one load of a running program: code near it that can be put in, switched on
and off while it is tried, kept, and taken out again."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stallscope.actions.region import Region, Slot
from stallscope.slicing.site import Site

DISTANCES = (4, 16, 48)
PACES = ((256, 50), (64, 200), (256, 2000))  # chunk and slack
PAUSE = 20  # pause instructions between two looks at the program's progress

Patch = Callable[[list[tuple[int, bytes, bytes]]], list[bool]]  # address, what is there, what comes


class Spot:
    """A few bytes of the program's code, and what lies there now."""

    def __init__(self, patch: Patch, site: Site):
        self._patch = patch
        self.address, self.original, self.there = site.address, site.original, site.original

    def put(self, content: bytes) -> bool:
        if content == self.there:
            return True
        done = self._patch([(self.address, self.there, content)])[0]
        if done:
            self.there = content
        return done

    def restore(self) -> None:
        self.put(self.original)


@dataclass(frozen=True)
class Meter:
    """Counts beside a loop how often it is left: with that, what is tried can be taken out of the
    loop altogether."""

    site: Site
    count: Callable[[], int]


class Way(abc.ABC):
    """One way for one load. After `put_in`, what `switch` changes is measured by `progress`."""

    delivery = ""
    settings: Sequence[object] = ()
    distance = 0
    slack = 0

    def __init__(self, load: int, site: Site, patch: Patch, meter: Meter | None):
        self.load, self.spot = load, Spot(patch, site)
        self.meter = meter
        self._beside = Spot(patch, meter.site) if meter is not None else None
        self.looked_at = time.monotonic()

    @property
    def address(self) -> int:
        return self.spot.address

    @property
    def spots(self) -> list[Spot]:
        return [self.spot] if self._beside is None else [self.spot, self._beside]

    def put_in(self, often: Callable[[Callable[[], int]], bool]) -> bool:
        """Ready to be tried; False when the code is not what was read. `often` says whether
        something is counted often enough to measure by it."""
        if self.meter is not None and self._beside is not None:
            if not self._beside.put(self.meter.site.patch):
                return False
            if not often(self.meter.count):
                self._beside.restore()
                self.meter = None
        return self.resume()

    @abc.abstractmethod
    def resume(self) -> bool:
        """Ready to be tried, after `put_in` or `rest`."""

    @abc.abstractmethod
    def set(self, setting: object) -> None: ...

    @abc.abstractmethod
    def switch(self, on: bool) -> None: ...

    @abc.abstractmethod
    def progress(self) -> int: ...

    def keep(self) -> None:
        """As it stays while nothing is measured."""
        self.switch(True)

    def rest(self) -> None:
        """Nothing of it is in the loop."""
        self.switch(False)
        self.spot.restore()

    def take_out(self) -> None:
        self.rest()
        if self._beside is not None:
            self._beside.restore()


class InlineWay(Way):
    """Prefetches in the loop itself. Where the loop is hardly ever left, it is tried with a count
    in it, both when switched on and when not."""

    delivery = "inline"
    settings = DISTANCES

    def __init__(
        self,
        load: int,
        patch: Patch,
        meter: Meter | None,
        bare: Mapping[int, Site],
        counting: Mapping[int, Site],
        plain: Meter,
    ):
        """`bare` and `counting` by distance; `plain` only counts."""
        super().__init__(load, next(iter(bare.values())), patch, meter)
        self._bare, self._counting, self._plain = bare, counting, plain
        self.distance = next(iter(bare))

    def resume(self) -> bool:
        return self.spot.put(self.spot.original if self.meter else self._plain.site.patch)

    def set(self, setting: object) -> None:
        assert isinstance(setting, int)
        self.distance = setting

    def switch(self, on: bool) -> None:
        if not on:
            self.resume()
        else:
            sites = self._bare if self.meter else self._counting
            self.spot.put(sites[self.distance].patch)

    def keep(self) -> None:
        self.spot.put(self._bare[self.distance].patch)

    def progress(self) -> int:
        return (self.meter or self._plain).count()


class AssistWay(Way):
    """A slice in the assist thread. Its site counts, so that it can be tried without a meter."""

    delivery = "assist"

    def __init__(
        self,
        load: int,
        patch: Patch,
        meter: Meter | None,
        site: Site,
        region: Region,
        slot: Slot,
        slack: int | None,
    ):
        super().__init__(load, site, patch, meter)
        self._site, self._region, self._slot = site, region, slot
        self.settings = PACES if slack is None else ((min(256, max(1, slack)), slack),)

    def resume(self) -> bool:
        return self.spot.put(self.spot.original if self.meter else self._site.patch)

    def set(self, setting: object) -> None:
        assert isinstance(setting, tuple)
        slot = self._slot
        slot.chunk, slot.slack = setting
        slot.pause = PAUSE
        self.slack = setting[1]

    def switch(self, on: bool) -> None:
        if on or self.meter is None:
            self.spot.put(self._site.patch)
        else:
            self.spot.restore()
        slot = self._slot
        slot.armed = int(on)
        if on and not slot.handed:
            slot.want = 1
        if not on:
            slot.want = 0
        self._region.call()

    def progress(self) -> int:
        return self.meter.count() if self.meter is not None else int(self._slot.runs)
