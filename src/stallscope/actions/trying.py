# SPDX-License-Identifier: Apache-2.0
"""Tries what there is for a load of a running program, and keeps what pays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stallscope.actions.running import Run
from stallscope.actions.sites import ways
from stallscope.actions.trial import Gain, Trial, measure, processor_time
from stallscope.actions.ways import InlineWay, Way

MARGIN = 1.02  # that the lower bound of the gain must exceed
UNMETERED = 1.06  # the same, where what is measured against is a loop with a counter in it
LEAST_LEFT = 100  # times a second that a loop must be left, for that to be a measure
TOLL = 2e-9  # seconds that a count costs a program: what was counted last must be stored first
MOST_TOLL = 0.1  # of a turn's time, where each turn is counted
QUICK, SURE = 6, 24  # pairs of intervals: to choose by, and to decide by
WATCHED = 2.0  # seconds between looks at what was kept
AGAIN = 4.0  # seconds of its processor time after which what did not pay is tried again, then 8


class SiteReport(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    pc: int
    function: str
    line: int | None
    kind: str
    delivery: str  # inline, assist or none
    distance: int
    slack: int
    state: str  # kept, rolled back, left alone
    reason: str
    gain: float | None
    low: float | None
    high: float | None
    pairs: int


def left_alone(pc: int, function: str, line: int | None, kind: str, reason: str) -> SiteReport:
    return SiteReport(
        pc, function, line, kind, "none", 0, 0, "left alone", reason, None, None, None, 0
    )


class Trying:
    """What was tried for the loads of one program."""

    def __init__(self, run: Run, slack: int | None, deliveries: tuple[str, ...]):
        self._run, self._slack, self._deliveries = run, slack, deliveries
        self.rows: dict[int, SiteReport] = {}
        self._again: dict[int, tuple[float, float]] = {}  # by load: when, and after how long
        self._ways: dict[int, tuple[str, list[Way], str]] = {}
        self._first: dict[tuple[int, str], int] = {}  # the load for which a loop was tried

    def _wants(self, load: int) -> bool:
        """Whether a load should be helped: a new one, or one for which something did not pay some
        time ago. Programs change, and other programs disturb."""
        if load not in self.rows:
            return True
        if self.rows[load].state == "kept":
            return False
        return load in self._again and self._run.watched.used() > self._again[load][0]

    def wanted(self, loads: Sequence[int]) -> list[int]:
        """Those of the loads to be helped, first those whose lines the program can bring itself:
        that takes no second processor, and often brings the lines of the others too."""
        found = [load for load in loads if self._wants(load)]
        return sorted(found, key=lambda load: not self._can_be_inline(load))

    def _can_be_inline(self, load: int) -> bool:
        return any(way.delivery == InlineWay.delivery for way in self._ways_of(load)[1])

    def help(self, load: int, place: dict[str, Any]) -> None:
        """Tries the ways for a load, the most promising first, and keeps the first that pays."""
        where = (load, place["function"], place["line"])
        kind, found, reason = self._ways_of(load)
        self.rows[load] = left_alone(*where, kind, reason or "no delivery is left")
        shown = later = False
        for way in found:
            reason = self._refusal(way)
            if reason:
                if not shown:
                    self.rows[load] = left_alone(*where, kind, reason)
                continue
            state, reason, gain = self._try(way)
            if not shown or state == "kept":
                self.rows[load] = _row(way, where, kind, state, reason, gain)
                shown = True
            if state == "kept":
                return
            later = later or state == "rolled back"
        if later:
            self._try_later(load)

    def _ways_of(self, load: int) -> tuple[str, list[Way], str]:
        if load not in self._ways:
            run = self._run
            kind, found, reason = ways(run.place, load, self._slack, not run.control)
            found = [way for way in found if way.delivery in self._deliveries]
            self._ways[load] = (kind, found, reason)
        return self._ways[load]

    def _refusal(self, way: Way) -> str:
        """Why it need not be tried: what is in a loop already brings this load's lines too."""
        if any(way.address == kept.address for kept in self._run.kept):
            return "its loop has a site already"
        first = self._first.setdefault((way.address, way.delivery), way.load)
        return "" if first == way.load else "the same was tried for another load of its loop"

    def _try_later(self, load: int) -> None:
        pause = 2 * self._again[load][1] if load in self._again else AGAIN
        self._again[load] = (self._run.watched.used() + pause, pause)

    def _try(self, way: Way) -> tuple[str, str, Gain | None]:
        """What became of it, why, and what it brought."""
        run = self._run
        way.set(way.settings[0])
        if not way.put_in(self._often):
            way.take_out()
            return "left alone", "its code is not what was read", None
        if run.always:
            self._keep(way)
            return "kept", "whether it pays was not asked", None
        if way.meter is None and self._is_dear(way):
            way.take_out()
            return "left alone", "its turns are too short to count them", None
        gain = self._tuned(way)
        if gain is not None and gain.low >= _margin(way):
            self._keep(way)
            return "kept", "", gain
        way.take_out()
        reason = "the program does something else now" if gain is None else "it does not pay"
        return "rolled back", reason, gain

    def _keep(self, way: Way) -> None:
        way.keep()
        self._run.kept.append(way)
        self._run.patched_since = self._run.patched_since or time.monotonic()

    def _tuned(self, way: Way) -> Gain | None:
        """The gain of the best setting."""
        trial, watched = self._trial(way), self._run.watched
        best: tuple[Gain, object] | None = None
        for setting in way.settings:
            way.switch(False)
            way.set(setting)
            gain = measure(trial, watched, QUICK, 1.0)
            if gain is None:
                return None
            if best is None or gain.ratio > best[0].ratio:
                best = (gain, setting)
        assert best is not None
        if best[0].ratio < 1.0:
            return best[0]
        way.switch(False)
        way.set(best[1])
        return measure(trial, watched, SURE, _margin(way))

    def _trial(self, way: Way) -> Trial:
        def wait() -> None:
            way.rest()
            while not self._run.budget.allows:
                self._run.let_run(0.02)
            way.resume()

        return Trial(way.switch, way.progress, self._run.budget, wait, TOLL)

    def _is_dear(self, way: Way) -> bool:
        """Whether counting would cost much of what a turn takes; what it costs is not seen when a
        loop that counts is compared with a loop that counts."""
        used = processor_time(self._run.pid)
        start, before = used(), way.progress()
        self._run.let_run(0.005)
        toll = TOLL * (way.progress() - before)
        self._run.budget.lost += toll
        return toll > MOST_TOLL * (used() - start)

    def _often(self, count: Callable[[], int]) -> bool:
        """Whether something happens often enough to measure by it."""
        used = processor_time(self._run.pid)
        start, before = used(), count()
        self._run.let_run(0.05)
        return count() - before >= LEAST_LEFT * (used() - start) > 0

    def check_kept(self) -> None:
        """What does not pay any more is taken back."""
        run = self._run
        for way in list(run.kept):
            if time.monotonic() - way.looked_at < WATCHED:
                continue
            way.looked_at = time.monotonic()
            way.resume()
            trial = Trial(way.switch, way.progress, run.budget, toll=TOLL)
            gain = measure(trial, run.watched, QUICK)
            if gain is None or gain.high >= 1.0:
                way.keep()
                continue
            way.take_out()
            run.kept.remove(way)
            self._try_later(way.load)
            self.rows[way.load] = msgspec.structs.replace(
                self.rows[way.load], state="rolled back", reason="it did not pay any more"
            )
        if not run.kept and run.patched_since is not None:
            run.patched += time.monotonic() - run.patched_since
            run.patched_since = None


def _margin(way: Way) -> float:
    return MARGIN if way.meter is not None else UNMETERED


def _row(
    way: Way,
    where: tuple[int, str, int | None],
    kind: str,
    state: str,
    reason: str,
    gain: Gain | None,
) -> SiteReport:
    return SiteReport(
        *where,
        kind,
        way.delivery,
        way.distance,
        way.slack,
        state,
        reason,
        gain=gain.ratio if gain else None,
        low=gain.low if gain else None,
        high=gain.high if gain else None,
        pairs=gain.pairs if gain else 0,
    )
