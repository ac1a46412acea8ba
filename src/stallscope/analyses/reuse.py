# SPDX-License-Identifier: Apache-2.0
"""How long data goes untouched: from granules that were watched at native speed, or from a trace.

Watched granules were chosen by samples of a clock, which falls on accesses that are waited for. So
what is said at first is about those. With the counts of another recording of the program each
instruction gets the weight of its accesses instead, and the result speaks for all that it covers.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stallscope.analyses.live import object_names
from stallscope.analyses.sites import DEPTH
from stallscope.analyses.survival import (
    Interval,
    Survival,
    evicted_after,
    filled_after,
    inverse_chances,
    mixture,
    product_limit,
)
from stallscope.errors import StallscopeError
from stallscope.showing import Shown

if TYPE_CHECKING:
    from stallscope.analyses.live import Recorded

WITHIN = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10)  # nanoseconds
STEPS = 4  # sizes from one power of two to the next
WAITING = "accesses that are waited for"
COUNTED = "accesses of instructions that were watched, as often as they happen"
EVERY = "every access"
Code = tuple[str, int]  # a file by its build id, and an address in it


@dataclass(frozen=True)
class ReuseRow:
    object: str
    kind: str
    watches: int
    share: float  # of all watches
    reuses: int  # that were seen to their end
    median: float | None  # nanoseconds; None: longer than was waited
    p90: float | None
    never: float  # share that was not touched again while it was watched
    threads: int  # that touched it


@dataclass(frozen=True)
class PairRow:
    object: str
    thread: str
    other: str
    touches: int  # by one, with the next by the other
    granules: int


@dataclass(frozen=True)
class TimeRow:
    within: float  # nanoseconds; touches for a trace
    share: float  # of reuses


@dataclass(frozen=True)
class CurveRow:
    bytes: int
    misses: float  # share of the touches it speaks for that miss in a cache of that size
    waiting: float | None  # the same of those that are waited for
    of_all: float | None  # of all touches, if all of the others hit


@dataclass(frozen=True)
class Reuse(Shown):
    recording: str
    source: str
    unit: str  # of reuse times
    speaks_for: str
    covered: float | None  # share of all accesses for which it speaks
    granule: int  # bytes
    watches: int
    reuses: int
    touch_cost: int | None  # nanoseconds, taken off each reuse time; shorter ones cannot be told
    rate: float | None  # touches that it speaks for, a second of processor time
    footprint: int | None  # granules, of a trace
    times: list[TimeRow]
    curve: list[CurveRow]
    pairs: list[PairRow]
    rows: list[ReuseRow]


@dataclass(frozen=True)
class Counts:
    """How often the instructions of a program touch memory, by another recording of it."""

    touches: dict[Code, float]
    whole: float

    @staticmethod
    def of(images: Sequence[Recorded], granule: int) -> Counts:
        touches: dict[Code, float] = collections.defaultdict(float)
        whole = 0.0
        for image in images:
            code = code_of(image)
            for row in image.table("operation").to_pylist():
                # An access that is not aligned to granules touches one more now and then.
                per = max(1, math.ceil(row["size"] / granule))
                touches[code[row["operation"]]] += row["executions"] * per
                whole += row["executions"] * per
        if not whole:
            raise StallscopeError(
                "there is nothing to count by",
                "the recording has no counts of instructions",
                "stallscope record -- PROGRAM, and give that",
            )
        return Counts(touches, whole)


def code_of(image: Recorded) -> dict[int, Code]:
    """Where each operation of an image is in its file."""
    modules = {row["module"]: row for row in image.table("module").to_pylist()}
    block_module = {
        row["block"]: row["module"]
        for row in image.table("block").select(["block", "module"]).to_pylist()
    }
    found = {}
    for row in image.table("operation").select(["operation", "block", "address"]).to_pylist():
        module = modules.get(block_module[row["block"]])
        key = "" if module is None else module["build_id"] or module["path"]
        found[row["operation"]] = (key, row["address"] - (module["bias"] if module else 0))
    return found


def speaks_of(images: Sequence[Recorded], counts: Counts) -> bool:
    """Whether the file that waited most is counted. Libraries are the same in many programs."""
    waits: collections.Counter[str] = collections.Counter()
    for image in images:
        code = code_of(image)
        for row in image.table("watch").select(["operation"]).to_pylist():
            if row["operation"] in code:
                waits[code[row["operation"]][0]] += 1
    most = waits.most_common(1)
    return bool(most) and most[0][0] in {file for file, _ in counts.touches}


@dataclass
class _Seen:
    """What was watched of the images of a recording, with names."""

    watches: list[dict[str, Any]]
    reuses: list[dict[str, Any]]
    waits: dict[Code, float]  # samples that waited there
    cost: int


def _seen(images: Sequence[Recorded], depth: int, wrappers: Sequence[str]) -> _Seen:
    seen = _Seen([], [], collections.defaultdict(float), 0)
    for image in images:
        names = object_names(image, depth, wrappers)
        code = code_of(image)
        threads = {row["thread"]: row["name"] for row in image.table("thread").to_pylist()}
        several = len(set(threads.values())) < len(threads)
        called = {
            number: f"{name} ({number})" if several or not name else name
            for number, name in threads.items()
        }
        seen.cost = max(seen.cost, image.meta.options.get("touch_cost_ns", 0))
        for row in image.table("live_sample").select(["operation", "address"]).to_pylist():
            if row["address"] is not None and row["operation"] in code:
                seen.waits[code[row["operation"]]] += 1
        first = len(seen.watches)
        end = (image.meta.seconds or 0) * 1e9
        for row in image.table("watch").to_pylist():
            row["object"] = names[row["bucket"]] if row["bucket"] is not None else ("", "unknown")
            row["code"] = code.get(row["operation"])
            row["allowed"] = min(row["allowed"], max(0.0, end - row["armed"]))
            seen.watches.append(row)
        for row in image.table("reuse").to_pylist():
            row["watch"] += first
            row["code"] = code.get(row["operation"])
            row["thread"] = called.get(row["thread"], "")
            row["by"] = called.get(row["by"])
            seen.reuses.append(row)
    return seen


def _weigh(seen: _Seen) -> None:
    """Every watch stands for those like it that gave up before their touch."""
    touched = [w for w in seen.watches if w["waited"] is not None]
    allowed = [max(w["allowed"], w["waited"] or 0) for w in seen.watches]
    for watch in seen.watches:
        watch["weight"] = 0.0
    weights = inverse_chances([w["waited"] for w in touched], allowed)
    for watch, weight in zip(touched, weights, strict=True):
        watch["weight"] = weight


def _interval(reuse: dict[str, Any], weight: float, cost: int) -> Interval:
    if reuse["after"] is None:
        return Interval(max(0.0, reuse["allowed"] - cost), True, weight)
    lasted = reuse["after"] if reuse["ran"] is None else reuse["ran"]
    return Interval(max(0.0, lasted - cost), False, weight)


def _never(watches: Sequence[dict[str, Any]]) -> float:
    """The share of watches that no waiting would have brought a touch."""
    if not watches:
        return 0.0
    return max(0.0, 1 - math.fsum(w["weight"] for w in watches) / len(watches))


def _survival(
    watches: Sequence[dict[str, Any]], reuses: Sequence[dict[str, Any]], seen: _Seen
) -> Survival:
    intervals = [_interval(r, seen.watches[r["watch"]]["weight"], seen.cost) for r in reuses]
    return product_limit(intervals, _never(watches))


def _by(rows: Sequence[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    groups: dict[Any, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups


def _mixed(seen: _Seen, weights: dict[Code, float]) -> Survival | None:
    watches, reuses = _by(seen.watches, "code"), _by(seen.reuses, "code")
    parts = []
    for code, weight in weights.items():
        if weight and (watches.get(code) or reuses.get(code)):
            parts.append((weight, _survival(watches.get(code, []), reuses.get(code, []), seen)))
    return mixture(parts) if parts else None


def watched_reuse(
    images: Sequence[Recorded],
    counts: Counts | None = None,
    *,
    per_second: float | None = None,
    depth: int = DEPTH,
    wrappers: Sequence[str] = (),
) -> Reuse:
    """Of granules that were watched. `counts` and `per_second` (touches for each second of
    processor time) make a miss curve of it; the first brings the second with it."""
    seen = _seen(images, depth, wrappers)
    _weigh(seen)
    known = {row["code"] for row in (*seen.reuses, *seen.watches) if row["code"]}
    waiting = _mixed(seen, {code: seen.waits[code] for code in known})
    counted = counts and {code: counts.touches.get(code, 0.0) for code in known}
    every = _mixed(seen, counted) if counted else waiting
    covered = math.fsum(counted.values()) / counts.whole if counts and counted else None
    rate = per_second
    if counts is not None and counted:
        rate = math.fsum(counted.values()) / _processor_time(images)
    main = images[0].meta
    return Reuse(
        recording=str(images[0].path),
        source=main.source,
        unit="nanoseconds",
        speaks_for=COUNTED if counted else WAITING,
        covered=covered,
        granule=main.options.get("watch", 0),
        watches=len(seen.watches),
        reuses=sum(r["after"] is not None for r in seen.reuses),
        touch_cost=seen.cost,
        rate=rate,
        footprint=None,
        times=_times(every, seen.cost),
        curve=_curve(every, waiting, rate, seen, main.options.get("watch", 0), covered),
        pairs=_pairs(seen),
        rows=_rows(seen),
    )


def _processor_time(images: Sequence[Recorded]) -> float:
    """Seconds: as the kernel says, or as many as there are samples."""
    main = images[0].meta
    if main.cpu_seconds:
        return main.cpu_seconds
    return max(1e-9, sum(i.meta.samples for i in images) * main.sample_period / 1e9)


def _times(survival: Survival | None, cost: int) -> list[TimeRow]:
    told = [time for time in WITHIN if time >= cost]
    return [TimeRow(time, 1 - survival.at(time)) for time in told] if survival else []


def _curve(
    every: Survival | None,
    waiting: Survival | None,
    rate: float | None,
    seen: _Seen,
    granule: int,
    covered: float | None,
) -> list[CurveRow]:
    """What the others touch is taken to be touched again at once, so that it fills no cache."""
    if not every or not waiting or not rate:
        return []
    longest = max(max(every.times, default=0.0), max(w["allowed"] for w in seen.watches))
    points = filled_after(every, rate / 1e9, longest)
    rows = []
    for size in sizes(granule, points[-1][0] * granule):
        kept = evicted_after(points, size / granule)
        if kept is not None:
            missed = every.at(kept)
            of_all = None if covered is None else missed * covered
            rows.append(CurveRow(size, missed, waiting.at(kept), of_all))
    return rows


def sizes(granule: int, most: float) -> list[int]:
    """Of caches: powers of two with steps between, from 16 granules on."""
    found, size = [], 16.0 * granule
    while size <= most:
        found.append(int(size) // granule * granule)
        size *= 2 ** (1 / STEPS)
    return found


def _pairs(seen: _Seen) -> list[PairRow]:
    touches: dict[tuple[str, str, str], int] = collections.Counter()
    granules: dict[tuple[str, str, str], set[int]] = collections.defaultdict(set)
    for reuse in seen.reuses:
        if reuse["by"] is None or reuse["by"] == reuse["thread"]:
            continue
        watch = seen.watches[reuse["watch"]]
        one, other = sorted((reuse["thread"], reuse["by"]))
        key = (watch["object"][0], one, other)
        touches[key] += 1
        granules[key].add(watch["address"])
    rows = [PairRow(*key, count, len(granules[key])) for key, count in touches.items()]
    return sorted(rows, key=lambda row: (-row.touches, row.object, row.thread, row.other))


def _rows(seen: _Seen) -> list[ReuseRow]:
    by_watch = _by(seen.reuses, "watch")
    numbered = list(enumerate(seen.watches))
    rows = []
    for name, kind in dict.fromkeys(w["object"] for w in seen.watches):
        numbers = [n for n, w in numbered if w["object"] == (name, kind)]
        watches = [seen.watches[n] for n in numbers]
        reuses = [r for n in numbers for r in by_watch.get(n, [])]
        survival = _survival(watches, reuses, seen)
        rows.append(
            ReuseRow(
                object=name,
                kind=kind,
                watches=len(watches),
                share=len(watches) / len(seen.watches),
                reuses=sum(r["after"] is not None for r in reuses),
                median=survival.shortest(0.5),
                p90=survival.shortest(0.9),
                never=_never(watches),
                threads=len({r[k] for r in reuses for k in ("thread", "by") if r[k]}),
            )
        )
    return sorted(rows, key=lambda row: (-row.watches, row.object))


def exact_reuse(recording: str, source: str, granule: int, found: dict[str, Any]) -> Reuse:
    """Of every granule that a trace touches, as the engine counts them."""
    touches, granules = found["touches"], found["granules"]
    reuses = touches - granules
    within, times, seen = 1.0, [], 0
    for shortest, count in zip(found["shortest"], found["times"], strict=True):
        while shortest >= within:
            times.append(TimeRow(within, seen / max(1, reuses)))
            within *= 10
        seen += count
    times.append(TimeRow(within, seen / max(1, reuses)))
    curve = found["curve"]
    rows = [
        CurveRow(size, missed, None, missed)
        for size in sizes(granule, (len(curve) - 1) * granule)
        for missed in (curve[size // granule] / touches,)
    ]
    return Reuse(
        recording=recording,
        source=source,
        unit="touches",
        speaks_for=EVERY,
        covered=1.0,
        granule=granule,
        watches=0,
        reuses=reuses,
        touch_cost=None,
        rate=None,
        footprint=granules,
        times=times,
        curve=rows,
        pairs=[],
        rows=[],
    )
