# SPDX-License-Identifier: Apache-2.0
"""Delinquent loads: the few instructions that cause most misses, and what kind each is."""

from __future__ import annotations

import collections
import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stallscope.analyses.live import LiveView, object_names
from stallscope.analyses.objects import MissView
from stallscope.errors import StallscopeError
from stallscope.showing import Shown
from stallscope.slicing.kinds import kind_of
from stallscope.slicing.step import Step
from stallscope.slicing.tables import steps_of
from stallscope.slicing.trace import LEAST, Code, Declined, Trace, connect

THRESHOLD = 500  # samples that make a load delinquent
SECONDARY = 0.5  # of it, for loads on the trace of one that is
BUFFER, READ_AT = 100, 80  # samples that a buffer holds, and at how many it is read
STORE = 1  # kind of an operation
LOOKED_AT = 64  # loads whose code is looked at; others miss too seldom
LIVE_THRESHOLD = 20  # of clock samples: 80 ms of waiting at 250 a second


class LoadRow(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    pc: int
    function: str
    file: str
    line: int | None
    object: str  # that it misses on most
    misses: int | None  # None: they were not counted
    share: float  # of the misses of all loads; of a clock's samples, of the time waited
    samples: int
    delinquent: str  # primary, secondary or empty
    identified: int | None  # misses until a reader of the buffer knew it
    kind: str
    reason: str  # why nothing is known of its loop; empty when it is


@dataclass(frozen=True)
class Loads(Shown):
    recording: str
    source: str
    machine: str
    level: str
    misses: int | None  # of all loads
    samples: int
    period: int
    threshold: int
    secondary: float
    buffer: int
    read_at: int
    covering: int  # loads that have 90% of the misses
    rows: list[LoadRow]

    @property
    def delinquent(self) -> list[LoadRow]:
        return [row for row in self.rows if row.delinquent]


@dataclass
class _Load:
    misses: int = 0
    samples: int = 0
    identified: int | None = None
    place: tuple[str, str, int | None] = ("?", "", None)
    objects: collections.Counter[str] = field(default_factory=collections.Counter)


@dataclass(frozen=True)
class Limits:
    threshold: int = THRESHOLD
    secondary: float = SECONDARY
    buffer: int = BUFFER
    read_at: int = READ_AT
    least: int = LEAST

    def check(self) -> None:
        if self.threshold < 1 or self.least < 1:
            raise StallscopeError("--threshold and --least must be at least 1")
        if not 0 < self.secondary <= 1:
            raise StallscopeError(f"--secondary {self.secondary:g}: a share from 0 to 1")
        if not 1 <= self.read_at <= self.buffer:
            raise StallscopeError(
                f"--read-at {self.read_at}: from 1 to the buffer's {self.buffer} samples"
            )


def loads(view: MissView | LiveView, limits: Limits | None = None) -> Loads:
    """Loads by misses, most first. Which are delinquent is found as a sampling monitor would:
    from the samples alone, in the order and the portions in which its buffer is read."""
    limits = limits or Limits()
    limits.check()
    if isinstance(view, LiveView):
        return _live(view, limits)
    only_one(view)
    found = _counted(view)
    operations = _addresses(view)
    order = [operations.get(sample["operation"], 0) for sample in view.samples]
    _identify(found, order, limits, view.replay.result.sample_period)
    code = recorded_code(view)
    return _result(
        found,
        limits,
        lambda address: connect(code, address, limits.least),
        recording=str(view.replay.recording.path),
        source="valgrind",
        machine=view.replay.result.machine_name,
        level=view.event_name,
        misses=sum(load.misses for load in found.values()),
        samples=len(view.samples),
        period=view.replay.result.sample_period,
    )


def only_one(view: MissView) -> None:
    if len(view.replay.images) > 1:
        raise StallscopeError(
            f"{view.replay.recording.path.name} has {len(view.replay.images)} processes",
            "each has code of its own",
            "--process NUMBER; stallscope info lists them",
        )


_codes: weakref.WeakKeyDictionary[MissView, Code] = weakref.WeakKeyDictionary()


def recorded_code(view: MissView) -> Code:
    """Decoded once for each view: large programs take long, and slices ask after loads did."""
    code = _codes.get(view)
    if code is None:
        blocks, operations = (view.replay.recording.table(n) for n in ("block", "operation"))
        code = _codes[view] = Code(steps_of(blocks.to_pylist(), operations.to_pylist()))
    return code


def _addresses(view: MissView) -> dict[int, int]:
    """Of operations that load, the address of their instruction."""
    rows = view.replay.recording.table("operation").select(["operation", "kind", "address"])
    return {row["operation"]: row["address"] for row in rows.to_pylist() if row["kind"] != STORE}


def _counted(view: MissView) -> dict[int, _Load]:
    operations = _addresses(view)
    found: dict[int, _Load] = collections.defaultdict(_Load)
    for count in view.counts():
        address = operations.get(count.operation)
        if address is None or not count.misses:
            continue
        load = found[address]
        load.misses += count.misses
        load.place = view.places.get(count.operation, load.place)
        load.objects[view.name(count.bucket)] += count.misses
    return found


def _identify(found: dict[int, _Load], order: list[int], limits: Limits, period: int) -> None:
    """Goes through the samples in the portions in which they are read. Samples between two reads
    that do not fit into the buffer cannot be: it is read before it is full."""
    for start in range(0, len(order), limits.read_at):
        portion = order[start : start + limits.read_at]
        for address in portion:
            if address in found:
                found[address].samples += 1
        for address in set(portion):
            load = found.get(address)
            if load and load.identified is None and load.samples >= limits.threshold:
                load.identified = (start + len(portion)) * period


def _result(
    found: Mapping[int, _Load],
    limits: Limits,
    trace_of: Callable[[int], Trace | Declined],
    *,
    by_samples: bool = False,
    **facts: Any,
) -> Loads:
    def weight(load: _Load) -> int:
        return load.samples if by_samples else load.misses

    ordered = sorted(found.items(), key=lambda item: (-weight(item[1]), item[0]))
    total = max(1, sum(weight(load) for load in found.values()))
    rows: list[LoadRow] = []
    hot: set[int] = set()  # steps on the traces of delinquent loads
    for number, (address, load) in enumerate(ordered):
        trace = trace_of(address) if number < LOOKED_AT else Declined("it misses too seldom")
        primary = load.samples >= limits.threshold
        if primary and isinstance(trace, Trace):
            hot |= trace.steps
        rank = "primary" if primary else ""
        if not primary and address in hot:
            enough = load.samples >= math.ceil(limits.threshold * limits.secondary)
            rank = "secondary" if enough else ""
        rows.append(
            LoadRow(
                address,
                *load.place,
                load.objects.most_common(1)[0][0] if load.objects else "?",
                None if by_samples else load.misses,
                weight(load) / total,
                load.samples,
                rank,
                load.identified,
                kind_of(trace),
                trace.reason if isinstance(trace, Declined) else "",
            )
        )
    return Loads(
        threshold=limits.threshold,
        secondary=limits.secondary,
        buffer=limits.buffer,
        read_at=limits.read_at,
        covering=_covering(rows),
        rows=rows,
        **facts,
    )


def _covering(rows: Iterable[LoadRow], share: float = 0.9) -> int:
    sum_, count = 0.0, 0
    for row in rows:
        if sum_ >= share:
            break
        sum_ += row.share
        count += 1
    return count


def _live(view: LiveView, limits: Limits) -> Loads:
    from stallscope.slicing.image import Image, steps_from

    if len(view.images) > 1:
        raise StallscopeError(
            f"{view.recording.path.name} has {len(view.images)} processes",
            "each has code of its own",
            "--process NUMBER; stallscope info lists them",
        )
    image = view.images[0]
    found = _sampled(image)
    modules = image.table("module").to_pylist()
    files: dict[str, Image] = {}

    def trace_of(address: int) -> Trace | Declined:
        for row in modules:
            if row["start"] <= address < row["end"]:
                break
        else:
            return Declined("it lies in no file")
        try:
            file = files.setdefault(row["path"], Image(row["path"]))
        except OSError:
            return Declined(f"{row['path']} cannot be read any more")
        bias = row["bias"]
        steps: dict[int, Step] = steps_from(lambda at, n: file.read(at - bias, n), address)
        return connect(Code(steps), address, limits.least)

    facts = view.common()
    return _result(
        found,
        limits,
        trace_of,
        by_samples=True,
        recording=facts["recording"],
        source=facts["source"],
        machine=facts["machine"],
        level=facts["level"],
        misses=None,
        samples=facts["waiting"],
        period=facts["period"],
    )


def _sampled(image: Any) -> dict[int, _Load]:
    """Of samples that waited for memory, the loads that they waited for."""
    operations = {row["operation"]: row for row in image.table("operation").to_pylist()}
    names = object_names(image)
    found: dict[int, _Load] = collections.defaultdict(_Load)
    for row in image.table("live_sample").to_pylist():
        operation = operations.get(row["operation"])
        if row["state"] != "memory" or operation is None or operation["kind"] == STORE:
            continue
        load = found[operation["address"]]
        load.samples += 1
        load.place = (operation["function"], operation["file"], operation["line"])
        if row["bucket"] is not None:
            load.objects[names[row["bucket"]][0]] += 1
    return found
