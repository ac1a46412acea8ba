# SPDX-License-Identifier: Apache-2.0
"""Which ways there are to run ahead of one load of a running program."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallscope.actions.region import NoRoom, Region
from stallscope.actions.ways import DISTANCES, AssistWay, InlineWay, Meter, Patch, Spot, Way
from stallscope.slicing.emit import DATA_BYTES, emit
from stallscope.slicing.graph import Graph, Loop
from stallscope.slicing.image import steps_from
from stallscope.slicing.inline import Inline, inline
from stallscope.slicing.inline_site import inline_site
from stallscope.slicing.kinds import kind_of
from stallscope.slicing.site import JUMP, Site, handover_site, meter_site
from stallscope.slicing.slice import cut
from stallscope.slicing.step import Step, decode
from stallscope.slicing.trace import Code, Declined, Trace, connect

CODE_BYTES = 4096
INLINE_BYTES = 1024
METER_BYTES = 512
MOST_LOOPS = 2
APART = 16  # bytes between two places that are patched, at least
NEAREST_ENTRY = 4096  # bytes from a function's entry to a load in it, at most

_FAULTS = sum(1 << number - 1 for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE))


class Memory:
    """Code of a running process, as it was before anything was put into it."""

    def __init__(self, pid: int, spots: Sequence[Spot] = ()):
        self._pid, self._spots = pid, spots
        self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def read(self, address: int, count: int) -> bytes:
        try:
            found = bytearray(os.pread(self._file, count, address))
        except OSError:
            return b""
        for spot in self._spots:
            for number, byte in enumerate(spot.original, spot.address - address):
                if 0 <= number < len(found):
                    found[number] = byte
        return bytes(found)

    def close(self) -> None:
        os.close(self._file)

    def blocks_faults(self) -> bool:
        """Whether a thread blocks a signal of faults: then nobody could catch one."""
        try:
            for task in Path(f"/proc/{self._pid}/task").iterdir():
                lines = (task / "status").read_text().splitlines()
                masks = [line for line in lines if line.startswith("SigBlk")]
                if masks and int(masks[0].split()[1], 16) & _FAULTS:
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


def ways(
    place: Place, load: int, slack: int | None, prefetch: bool = True
) -> tuple[str, list[Way], str]:
    """The load's class, what can be tried for it, best guess first, and why nothing can."""
    try:
        memory = Memory(place.pid, place.spots)
    except OSError:
        return "irregular", [], "the program's code cannot be read"
    try:
        return _Finder(memory, place, load, prefetch).ways(slack)
    except NoRoom:
        return "irregular", [], "no room is left for prefetch code"
    finally:
        memory.close()


@dataclass(frozen=True)
class Place:
    """A running program that code can be put into."""

    pid: int
    region: Region
    patch: Patch
    spots: Sequence[Spot] = ()  # where something was put in


class _Finder:
    """Looks for ways, for one load."""

    def __init__(self, memory: Memory, place: Place, load: int, prefetch: bool):
        self.memory, self.place, self.load, self.prefetch = memory, place, load, prefetch
        self.region = place.region
        self.steps = steps_from(memory.read, load)

    def ways(self, slack: int | None) -> tuple[str, list[Way], str]:
        view = self.region.near(self.load)
        trace = connect(Code(self.steps), self.load)
        if isinstance(trace, Declined):
            return "irregular", [], trace.reason
        kind = kind_of(trace)
        if view is None:
            return kind, [], "no memory near its code is free"
        self.view = view
        tried: list[Way | Declined] = [*self._inlines(trace)]
        if kind in ("chase", "walk"):
            # Where the function's caller cannot be sliced, the function alone may do.
            for one in (_with_caller(self.memory, self.steps, trace), trace):
                tried.append(self._assist(one, slack))
                if isinstance(tried[-1], Way):
                    break
        found = [one for one in tried if isinstance(one, Way)]
        reasons = dict.fromkeys(one.reason for one in tried if isinstance(one, Declined))
        return kind, found, "" if found else "; ".join(reasons)

    def _inlines(self, trace: Trace) -> Iterator[Way | Declined]:
        """In the loops around it in which its address can be told, the innermost first: where that
        one has few turns, what lies ahead is known in the next."""
        every = [at for at in trace.steps if trace.step(at).loads]
        found = 0
        for loop in trace.graph.loops_around(self.load):
            ahead = inline(trace.graph, loop, [self.load], every)
            if isinstance(ahead, Declined):
                yield ahead
                continue
            yield self._inline(ahead)
            found += 1
            if found == MOST_LOOPS:
                return

    def _inline(self, ahead: Inline) -> Way | Declined:
        guard = self.memory.blocks_faults()
        plain = self._counter(ahead.graph.steps, ahead.head)
        if isinstance(plain, Declined):
            return plain
        counted = self._word
        bare: dict[int, Site] = {}
        counting: dict[int, Site] = {}
        for distance in DISTANCES:
            for sites, count in ((bare, None), (counting, counted)):
                offset = self.region.room(INLINE_BYTES)
                site = inline_site(
                    ahead, self.view + offset, distance,
                    prefetch=self.prefetch, guard=guard, count=count,
                )  # fmt: skip
                site = self._written(offset, INLINE_BYTES, site)
                if isinstance(site, Declined):
                    return site
                sites[distance] = site
        meter = self._meter(ahead.graph, ahead.loop)
        return InlineWay(self.load, self.place.patch, meter, bare, counting, plain)

    def _written(self, offset: int, room: int, site: Site | Declined) -> Site | Declined:
        """With the bytes that are really there: instructions can be written in several ways."""
        if isinstance(site, Declined):
            return site
        if len(site.code) > room:
            return Declined("its code is too long")
        if not self.region.add_nets(site.nets):
            return Declined("too much code runs ahead already")
        self.region.write(offset, site.code)
        there = self.memory.read(site.address, len(site.patch))
        return dataclasses.replace(site, original=there)

    def _counter(self, steps: Mapping[int, Step], address: int) -> Meter | Declined:
        """Counts how often control comes to an address."""
        word, offset = self.region.room(8), self.region.room(METER_BYTES)
        self._word = self.view + word
        site = meter_site(steps, address, self.view + offset, self._word)
        site = self._written(offset, METER_BYTES, site)
        if isinstance(site, Declined):
            return site
        count = self.region.word(word)
        return Meter(site, lambda: count.value)

    def _meter(self, graph: Graph, loop: Loop) -> Meter | None:
        """At a place where the loop is left: what happens there says how fast the loop is with
        nothing changed in it."""
        steps = graph.steps
        ends = {
            end
            for at in loop.steps
            for end in graph.after[at]
            if end in steps and end not in loop.steps
        }
        for end in sorted(ends):
            if abs(end - loop.head) < APART:
                continue
            made = self._counter(_padded(self.memory, steps, end), end)
            if isinstance(made, Meter):
                return made
        return None

    def _assist(self, trace: Trace, slack: int | None) -> Way | Declined:
        slice_ = cut(trace)
        if isinstance(slice_, Declined):
            return slice_
        if (os.cpu_count() or 1) < 2:
            return Declined("there is no second processor for an assist thread")
        head, region, view = trace.inner.head, self.region, self.view
        offset, data = region.room(CODE_BYTES), region.room(DATA_BYTES)
        made = emit(slice_, view + offset, view + data, self.prefetch, head)
        if isinstance(made, Declined):
            return made
        number = region.take_slot()
        if number is None:
            return Declined("all slots of the assist thread are taken")
        at = region.room(CODE_BYTES)
        address = region.slot_address(view, number)
        site = handover_site(trace.graph.steps, head, view + at, address)
        site = self._written(at, CODE_BYTES, site)
        if isinstance(site, Declined):
            return site
        region.write(offset, made.code)
        slot = region.header.slots[number]
        slot.enter, slot.start, slot.leave = view + offset, made.start, made.leave
        slot.data = view + data
        region.set_cells(slot, [(cell, view + data + where) for cell, where in made.cells])
        meter = self._meter(trace.graph, trace.inner)
        return AssistWay(self.load, self.place.patch, meter, site, region, slot, slack)


def _padded(memory: Memory, steps: Mapping[int, Step], end: int) -> dict[int, Step]:
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
