# SPDX-License-Identifier: Apache-2.0
"""Ways to run ahead of one load of a running program: code near it, ready to be patched in."""

from __future__ import annotations

import os
import re
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stallscope.actions.region import Region
from stallscope.slicing.emit import DATA_BYTES, emit
from stallscope.slicing.graph import Graph, Loop
from stallscope.slicing.image import steps_from
from stallscope.slicing.inline import Inline, inline
from stallscope.slicing.kinds import kind_of
from stallscope.slicing.site import (
    COUNT,
    JUMP,
    SHIFTS,
    SITE_BYTES,
    Site,
    handover_site,
    inline_site,
    meter_site,
)
from stallscope.slicing.slice import cut
from stallscope.slicing.step import Step, decode
from stallscope.slicing.trace import Code, Declined, Trace, connect

DISTANCES = (4, 16, 48)
PACES = ((256, 50), (64, 200), (256, 2000))  # chunk and slack
PAUSE = 20  # pause instructions between two looks at the program's progress
CODE_BYTES = 4096
NEAREST_ENTRY = 4096  # bytes from a function's entry to a load in it, at most


@dataclass
class Candidate:
    load: int
    delivery: str
    site: Site
    settings: tuple[Any, ...]
    install: Callable[[], None]
    set: Callable[[Any], None]
    switch: Callable[[bool], None]
    progress: Callable[[], int]
    meter: Site | None = None  # counts beside the site, which can then be taken out altogether
    metered: Callable[[], int] | None = None  # what the meter counted; else progress does
    distance: int = 0
    slack: int = 0
    looked_at: float = field(default_factory=time.monotonic)


class Memory:
    """Code of a running process."""

    def __init__(self, pid: int):
        self._pid = pid
        self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def read(self, address: int, count: int) -> bytes:
        try:
            return os.pread(self._file, count, address)
        except OSError:
            return b""

    def close(self) -> None:
        os.close(self._file)

    def blocks_faults(self) -> bool:
        """Whether a thread blocks the signal of a fault: then nobody could catch one."""
        try:
            for task in Path(f"/proc/{self._pid}/task").iterdir():
                lines = (task / "status").read_text().splitlines()
                masks = [line for line in lines if line.startswith("SigBlk")]
                if masks and int(masks[0].split()[1], 16) >> (signal.SIGSEGV - 1) & 1:
                    return True
        except OSError:
            return True
        return False

    def text_around(self, address: int) -> tuple[int, bytes]:
        """The executable mapping that an address lies in."""
        with open(f"/proc/{self._pid}/maps") as maps:  # noqa: PTH123
            for line in maps:
                start, end = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
                if start <= address < end:
                    return start, self.read(start, end - start)
        return address, b""


def candidates(
    pid: int, region: Region, load: int, slack: int | None, prefetch: bool = True
) -> tuple[str, list[Candidate], str]:
    """The load's class, what can be tried for it, best guess first, and why nothing can."""
    try:
        memory = Memory(pid)
    except OSError:
        return "irregular", [], "the program's code cannot be read"
    try:
        return _candidates(memory, region, load, slack, prefetch)
    finally:
        memory.close()


def _candidates(
    memory: Memory, region: Region, load: int, slack: int | None, prefetch: bool
) -> tuple[str, list[Candidate], str]:
    view = region.near(load)
    steps = steps_from(memory.read, load)
    trace = connect(Code(steps), load)
    if isinstance(trace, Declined):
        return "irregular", [], trace.reason
    kind = kind_of(trace)
    if view is None:
        return kind, [], "no memory near its code is free"
    found: list[Candidate] = []
    reasons: list[str] = []
    every = [at for at in trace.steps if trace.step(at).loads]
    for loop in trace.graph.loops_around(load):
        ahead = inline(trace.graph, loop, [load])
        if isinstance(ahead, Declined):
            reasons.append(ahead.reason)
            continue
        more = inline(trace.graph, loop, [at for at in every if at in loop.steps])
        chosen = more if isinstance(more, Inline) else ahead
        made = _inline(memory, region, view, load, chosen, prefetch)
        if isinstance(made, Declined):
            reasons.append(made.reason)
        else:
            found.append(made)
        break
    if kind in ("chase", "walk"):
        # Where the function's caller cannot be sliced, the function alone may do.
        for tried in (_with_caller(memory, steps, trace), trace):
            made = _assist(memory, region, view, load, tried, slack, prefetch)
            if not isinstance(made, Declined):
                found.append(made)
                break
            reasons.append(made.reason)
    return kind, found, "" if found else "; ".join(dict.fromkeys(reasons))


def _inline(
    memory: Memory, region: Region, view: int, load: int, ahead: Inline, prefetch: bool
) -> Candidate | Declined:
    offset, words = region.room(CODE_BYTES), region.room(SITE_BYTES)
    site = inline_site(ahead, view + offset, view + words, prefetch, memory.blocks_faults())
    if isinstance(site, Declined):
        return site
    if len(site.code) > CODE_BYTES or SHIFTS + 8 * len(ahead.stepping) > SITE_BYTES:
        return Declined("its code is too long")
    meter = _meter(memory, region, view, ahead.graph, ahead.loop)
    if isinstance(meter, Declined):
        return meter
    count = region.word(meter[1] + COUNT)

    def install() -> None:
        region.write(offset, site.code)
        region.write(meter[2], meter[0].code)
        if site.net is not None:
            region.add_net(site.net)

    def set_distance(distance: int) -> None:
        candidate.distance = distance
        for number, one in enumerate(ahead.stepping):
            region.word(words + SHIFTS + 8 * number).value = distance * one.amount

    candidate = Candidate(
        load, "inline", site, DISTANCES, install, set_distance, lambda on: None,
        lambda: count.value, meter[0],
    )  # fmt: skip
    return candidate


def _meter(
    memory: Memory, region: Region, view: int, graph: Graph, loop: Loop
) -> tuple[Site, int, int] | Declined:
    """A place where the loop is left: what happens there says how fast the loop is with nothing
    changed in it. The site, the offsets of its words and of its code."""
    steps = graph.steps
    ends = sorted(
        {
            end
            for at in loop.steps
            for end in graph.after[at]
            if end in steps and end not in loop.steps
        }
    )
    for end in ends:
        words, offset = region.room(SITE_BYTES), region.room(512)
        made = meter_site(_padded(memory, steps, end), end, view + offset, view + words)
        apart = abs(end - loop.head) >= 16
        if not isinstance(made, Declined) and apart and len(made.code) <= 512:
            return made, words, offset
    return Declined("where its loop is left nothing can be counted")


def _padded(memory: Memory, steps: dict[int, Step], end: int) -> dict[int, Step]:
    """With what lies behind a return that is near: nothing, most often."""
    found = dict(steps)
    at = end
    while at < end + JUMP:
        step = found.get(at) or decode(memory.read(at, 15), at)
        if step is None:
            break
        found[at] = step
        at = step.next
    return found


def _assist(
    memory: Memory,
    region: Region,
    view: int,
    load: int,
    trace: Trace,
    slack: int | None,
    prefetch: bool,
) -> Candidate | Declined:
    slice_ = cut(trace)
    if isinstance(slice_, Declined):
        return slice_
    if (os.cpu_count() or 1) < 2:
        return Declined("there is no second processor for an assist thread")
    head = trace.inner.head
    offset, data = region.room(CODE_BYTES), region.room(DATA_BYTES)
    made = emit(slice_, view + offset, view + data, prefetch, head)
    if isinstance(made, Declined):
        return made
    number = region.take_slot()
    if number is None:
        return Declined("all slots of the assist thread are taken")
    patch = region.room(CODE_BYTES)
    address = region.slot_address(view, number)
    site = handover_site(trace.graph.steps, head, view + patch, address)
    if isinstance(site, Declined):
        return site
    slot = region.header.slots[number]
    meter = _meter(memory, region, view, trace.graph, trace.inner)

    def install() -> None:
        region.write(offset, made.code)
        if not isinstance(meter, Declined):
            region.write(meter[2], meter[0].code)
        region.write(patch, site.code)
        slot.enter, slot.start, slot.leave = view + offset, made.start, made.leave
        slot.data = view + data
        region.set_cells(slot, [(cell, view + data + place) for cell, place in made.cells])

    def set_pace(pace: tuple[int, int]) -> None:
        slot.chunk, slot.slack = pace
        slot.pause = PAUSE
        candidate.slack = pace[1]

    def switch(on: bool) -> None:
        slot.armed = int(on)
        if on and not slot.handed:
            slot.want = 1
        if not on:
            slot.want = 0
        region.call()

    paces = PACES if slack is None else ((min(256, max(1, slack)), slack),)
    candidate = Candidate(
        load, "assist", site, paces, install, set_pace, switch, lambda: int(slot.runs)
    )
    if not isinstance(meter, Declined):
        candidate.meter = meter[0]
        left = region.word(meter[1] + COUNT)
        candidate.metered = lambda: left.value
    return candidate


def _with_caller(memory: Memory, steps: dict[int, Step], trace: Trace) -> Trace:
    """The trace grown into the only place that calls its function, if that has a loop as well."""
    start, text = memory.text_around(trace.load)
    calls: list[tuple[int, int]] = []  # place and target
    for match in re.finditer(b"\xe8", text):
        at = match.start()
        if at + 5 > len(text):
            continue
        (away,) = struct.unpack_from("<i", text, at + 1)
        target = start + at + 5 + away
        if trace.load - NEAREST_ENTRY < target <= min(trace.steps):
            calls.append((start + at, target))
    if not calls:
        return trace
    entry = max(target for _, target in calls)
    places = [place for place, target in calls if target == entry]
    body = steps_from(memory.read, entry)
    if len(places) != 1 or trace.load not in body:
        return trace
    caller = steps_from(memory.read, places[0])
    grown = connect(Code({**steps, **body, **caller}), trace.load)
    return grown if isinstance(grown, Trace) else trace
