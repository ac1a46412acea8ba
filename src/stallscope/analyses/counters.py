# SPDX-License-Identifier: Apache-2.0
"""Many logical counters on a few physical ones, beside the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope.analyses import estimators, pmu
from stallscope.analyses.estimators import Estimate, Seen
from stallscope.analyses.pmu import FIXED, Group
from stallscope.analyses.rounds import Follower, OnRound
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

if TYPE_CHECKING:
    from stallscope.pipelines import CoreView
    from stallscope.record.multiplexing import Slices

SLICE = 200_000  # cycles
RARE_SLICE = 500_000  # of events that are rarer than one in 100 cycles
RARE = 100
TRUSTED = 0.15  # half-width of an interval, relative, up to which a count is believed
SWITCH_CYCLES = 2_000  # 2% of a slice of 100,000 cycles, as the original measured
SWITCH_LINES = 16


@dataclass(frozen=True)
class CounterRow:
    event: str
    group: int | None  # None: it always counts
    full: int | None  # in the rounds that were looked at; None where not all could be counted
    estimate: float
    low: float  # of the 95% interval
    high: float
    error: float | None  # |estimate - full| / full; None where there was nothing
    kl: float | None
    rate: float  # a cycle; of the kernel's events, a nanosecond
    covered: bool | None  # the interval has the truth
    note: str  # what to do where the count cannot be trusted


@dataclass(frozen=True)
class Context:
    """What a process or thread did, fully counted."""

    process: str
    thread: int | None  # None: all of them
    cycles: int
    instructions: int


@dataclass(frozen=True)
class Plan:
    """What would be done, before it is."""

    counters: int
    by: str
    slice: int  # the shortest; groups of rare events may have longer ones
    unit: int  # that all slices are multiples of
    ratio: int  # slices a round
    units: int  # the same in units
    round: int  # cycles or instructions
    groups: list[Group]
    expected: list[ExpectedError]

    @property
    def rows(self) -> list[Group]:
        return self.groups


@dataclass(frozen=True)
class ExpectedError:
    """Half of the 95% interval, relative, of an event that comes at random."""

    every: int  # cycles
    rounds: int
    error: float


@dataclass(frozen=True)
class Counters(Shown):
    recording: str
    machine: str
    counters: int
    by: str  # cycles or instructions: what slices are measured in
    slice: int
    ratio: int
    rounds: int
    skipped: int  # rounds at the beginning
    estimator: str
    seed: int
    switches: int
    switch_cycles: int  # that all switches took
    overhead: float  # of all cycles
    groups: list[Group]
    contexts: list[Context]
    vectors: list[dict[str, float]]  # the logical counters of every round
    rows: list[CounterRow]


def plan(
    known: Sequence[tuple[str, str, str]],
    events: Sequence[str],
    counters: int,
    *,
    slice_length: int | None = None,
    ratio: int | None = None,
    by: str = "cycles",
    rates: Mapping[str, float] | None = None,
) -> Plan:
    """`rates`: how often each event comes in a cycle, as far as an earlier run tells; rare ones
    come together, and their slices are longer unless one length or a ratio is given."""
    chosen = pmu.choose(events, [name for name, _, _ in known])
    if rates is not None:
        chosen.sort(key=lambda event: -rates[event])
    found = pmu.group(pmu.event_rows(known, counters), chosen, counters)
    length = SLICE if slice_length is None else slice_length
    if by not in FIXED:
        raise StallscopeError(f"slices cannot be measured in {by!r}", f"{' or '.join(FIXED)}")
    if length < 1:
        raise StallscopeError(f"a slice of {length} {by} is too short", now=f"--slice {SLICE}")
    slices = _ratio(ratio, len(found), length)
    spare, more = divmod(slices, max(1, len(found)))
    varied = rates is not None and slice_length is None and ratio is None
    unit = math.gcd(SLICE, RARE_SLICE) if varied else length
    spans = [_span(group, rates or {}, unit) if varied else 1 for group in found]
    groups = [
        Group(i, events, spare + (i < more), span)
        for i, (events, span) in enumerate(zip(found, spans, strict=True))
    ]
    units = sum(group.slices * group.span for group in groups) or slices
    expected = _expected(length, slices)
    return Plan(counters, by, length, unit, slices, units, units * unit, groups, expected)


def _span(group: Mapping[str, int], rates: Mapping[str, float], unit: int) -> int:
    rare = all(rates[event] * RARE < 1 for event in group)
    return (RARE_SLICE if rare else SLICE) // unit


def _ratio(ratio: int | None, groups: int, length: int) -> int:
    if ratio is None:
        return max(1, groups)
    if ratio < 1:
        raise StallscopeError(
            f"a slice of {length:,} is longer than the round",
            f"a ratio of {ratio} slices a round leaves no room for one",
            "--ratio 10",
        )
    if ratio < groups:
        raise StallscopeError(
            f"{groups} groups do not fit into a round of {ratio} slices",
            "every group counts at least once a round",
            f"--ratio {groups}, fewer events, or more counters",
        )
    return ratio


def _expected(length: int, ratio: int) -> list[ExpectedError]:
    """Of events that come independently: the count of the rest varies as that of what was seen."""
    return [
        ExpectedError(
            every, rounds, 1.96 * math.sqrt((ratio - 1) * every / (rounds * ratio * length))
        )
        for every in (10, 100, 1_000, 10_000)
        for rounds in (10, 300)
    ]


def counters(
    view: CoreView,
    events: Sequence[str] = ("all",),
    *,
    count: int | None = None,
    slice_length: int | None = None,
    ratio: int | None = None,
    by: str = "cycles",
    estimator: str = "invariants",
    seed: int = 1,
    skip: int = 0,
    on_round: OnRound | None = None,
) -> Counters:
    """Runs the core in slices, lets each group see its own, and compares with everything.
    `on_round` is called with each round's logical counters while the core runs."""
    from stallscope import _engine

    if estimator not in estimators.NAMES:
        raise StallscopeError(
            f"there is no estimator {estimator!r}", f"there is: {', '.join(estimators.NAMES)}"
        )
    number = view.machine.core.counters if count is None else count
    made = plan(
        _engine.core_events(),
        events,
        number,
        slice_length=slice_length,
        ratio=ratio,
        by=by,
        rates=_rates(view) if slice_length is None and ratio is None else None,
    )
    if by == "cycles" and made.slice <= SWITCH_CYCLES:
        raise StallscopeError(
            f"a slice of {made.slice:,} cycles is too short",
            f"switching counters takes {SWITCH_CYCLES:,}",
            f"--slice {SLICE}",
        )
    even = made.unit == made.slice  # so that the core itself can switch, and pay for it
    paid = SWITCH_CYCLES if even else 0
    told = None
    if on_round is not None:
        follower = Follower(
            made.groups, made.units, seed=seed, skip=skip, paid=paid, on_round=on_round
        )
        told = follower.on_slice
    run = view.but(
        on_slice=told,
        slice=made.unit,
        by_instructions=by == "instructions",
        switch_cycles=paid,
        switch_lines=SWITCH_LINES if even else 0,
    )
    units = [counts for one in run.runs for _, counts in one.series("slice")]
    rounds = len(units) // made.units - skip
    if rounds < 1:
        raise StallscopeError(
            "the run is shorter than one round",
            f"it has {len(units) * made.unit:,} {by}, a round {made.round:,}",
            "a smaller --slice",
        )
    units = units[skip * made.units : (skip + rounds) * made.units]
    return _counted(run, made, units, estimator, seed, skip)


def _slices(view: CoreView) -> int:
    return sum(len(list(run.series("slice"))) for run in view.runs)


def _rates(view: CoreView) -> dict[str, float]:
    """How often each event comes in a cycle, from a run without slices."""
    totals = view.runs[0].totals
    return {name: value / max(1, totals["cycles"]) for name, value in totals.items()}


def _counted(
    view: CoreView,
    made: Plan,
    slices: list[dict[str, int]],
    estimator: str,
    seed: int,
    skip: int,
) -> Counters:
    rounds = len(slices) // made.units
    orders = [group for order in pmu.orders(made.groups, rounds, seed) for group in order]
    seen = {
        event: _seen(event, group.group, orders, slices)
        for group in made.groups
        for event in group.events
    }
    exposures = {name: [float(counts[name]) for counts in slices] for name in FIXED}
    # The handler knows what it took itself; those cycles belong to nothing that is counted.
    paid = sum(run.result.switch_cycles for run in view.runs) / max(1, _slices(view))
    exposures["cycles"] = [max(1.0, cycles - paid) for cycles in exposures["cycles"]]
    found = estimators.estimate(estimator, seen, exposures, made.units)
    truths = {
        event: _by_round([counts[event] for counts in slices], made.units)
        for event in (*FIXED, *found)
    }
    homes = {event: group.group for group in made.groups for event in group.events}
    switches = rounds * sum(group.slices for group in made.groups)
    switched = sum(run.result.switch_cycles for run in view.runs) or switches * SWITCH_CYCLES
    cycles = sum(run.totals["cycles"] for run in view.runs)
    return Counters(
        recording=str(view.recording.path),
        machine=view.machine_name,
        counters=made.counters,
        by=made.by,
        slice=made.slice,
        ratio=made.ratio,
        rounds=rounds,
        skipped=skip,
        estimator=estimator,
        seed=seed,
        switches=switches,
        switch_cycles=switched,
        overhead=switched / max(1, cycles - switched),
        groups=made.groups,
        contexts=_contexts(view),
        vectors=[
            {name: float(truths[name][i]) for name in FIXED}
            | {event: one.rounds[i] for event, one in found.items()}
            for i in range(rounds)
        ],
        rows=[_always(name, truths[name], sum(truths["cycles"])) for name in FIXED]
        + [
            _row(event, homes[event], one, truths[event], sum(truths["cycles"]))
            for event, one in found.items()
        ],
    )


def _seen(event: str, group: int, orders: list[int], slices: list[dict[str, int]]) -> Seen:
    at = [i for i, one in enumerate(orders) if one == group]
    return Seen(at, [float(slices[i][event]) for i in at])


def _by_round(counts: Sequence[int], ratio: int) -> list[int]:
    return [sum(counts[i : i + ratio]) for i in range(0, len(counts), ratio)]


def _always(event: str, truth: Sequence[int], cycles: int) -> CounterRow:
    full = sum(truth)
    rate = full / max(1, cycles)
    return CounterRow(
        event, None, full, float(full), float(full), float(full), 0.0, 0.0, rate, True, ""
    )


def _row(
    event: str, group: int, one: Estimate, truth: Sequence[int] | None, time: int
) -> CounterRow:
    total, half = one.total(), one.half_width()
    # What was never seen may still have happened a few times in between.
    low, high = max(0.0, total - half), total + max(half, 3.0)
    full = None if truth is None else sum(truth)
    return CounterRow(
        event=event,
        group=group,
        full=full,
        estimate=total,
        low=low,
        high=high,
        error=abs(total - full) / full if full else None,
        kl=None if truth is None else estimators.kl(truth, one.rounds),
        rate=(total if full is None else full) / max(1, time),
        covered=None if full is None else low <= full <= high,
        note=trust(total, half),
    )


def trust(total: float, half: float) -> str:
    """Empty, or how much longer to run: intervals shrink with the root of the time."""
    if total < 1:
        return "never seen"
    wide = half / total
    if wide <= TRUSTED:
        return ""
    return f"±{wide:.0%}: run {math.ceil((wide / TRUSTED) ** 2)} times as long"


def live(
    command: Sequence[str],
    groups: Sequence[Sequence[str]],
    slices: Slices,
    *,
    counters: int,
    ratio: int,
    estimator: str,
    seed: int,
) -> Counters:
    """Of the kernel's events, from what was counted while a program ran."""
    rounds = len(slices.order) // ratio
    if rounds < 1:
        raise StallscopeError(
            "the program ended before the first round",
            f"it had {len(slices.order)} slices, a round has {ratio}",
            "a higher --frequency",
        )
    used = rounds * ratio
    seen = {
        event: _live_seen(event, number, slices, used)
        for number, group in enumerate(groups)
        for event in group
    }
    clock = slices.clock[:used]
    found = estimators.estimate(estimator, seen, {"cycles": clock, "instructions": clock}, ratio)
    homes = {event: number for number, group in enumerate(groups) for event in group}
    truths = {
        event: _by_round([int(full[event]) for full in slices.full[:used]], ratio)
        if event in slices.full[0]
        else None
        for event in found
    }
    nanoseconds = sum(clock)
    length = round(nanoseconds / max(1, used))
    return Counters(
        recording=" ".join(command),
        machine="this machine",
        counters=counters,
        by="nanoseconds",
        slice=length,
        ratio=ratio,
        rounds=rounds,
        skipped=0,
        estimator=estimator,
        seed=seed,
        switches=used,
        switch_cycles=0,
        overhead=0.0,
        groups=[
            Group(number, dict(zip(group, range(len(group)), strict=True)), ratio // len(groups))
            for number, group in enumerate(groups)
        ],
        contexts=[],
        vectors=[{event: one.rounds[i] for event, one in found.items()} for i in range(rounds)],
        rows=[
            _row(event, homes[event], one, truths[event], round(nanoseconds))
            for event, one in found.items()
        ],
    )


def _live_seen(event: str, group: int, slices: Slices, used: int) -> Seen:
    at = [i for i in range(used) if slices.order[i] == group and slices.counts[i]]
    return Seen(at, [slices.counts[i][event] for i in at])


def split(events: Sequence[str], counters: int, ratio: int | None) -> tuple[list[list[str]], int]:
    """Groups of the kernel's events, any of which may sit anywhere, and the slices of a round."""
    if counters < 1:
        raise StallscopeError(f"{counters} counters cannot count", now="--counters 4")
    groups = [list(events[i : i + counters]) for i in range(0, len(events), counters)]
    return groups, _ratio(ratio, len(groups), 1)


def _contexts(view: CoreView) -> list[Context]:
    found = []
    for run in view.runs:
        name = run.recording.meta.name
        totals: dict[str, Any] = run.totals
        found.append(Context(name, None, totals["cycles"], totals["instructions"]))
        threads = run.series("thread")
        if len(threads) > 1:
            found += [
                Context(name, thread, counts["cycles"], counts["instructions"])
                for thread, counts in threads
            ]
    return found
