# SPDX-License-Identifier: Apache-2.0
"""Events on a few physical counters: which may sit where, and the fewest groups that hold them all.

Cycles and instructions sit on counters of their own in every group, as on POWER5. Every other event
belongs to an area of the core, and an area is wired to two of every three counters, the next one to
other two; where there are fewer than three, to all.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stallscope.errors import StallscopeError

FIXED = ("cycles", "instructions")
LANES = 3


@dataclass(frozen=True)
class EventRow:
    event: str
    area: str
    meaning: str
    counters: list[int]  # on which it may sit; empty: it has one of its own


@dataclass(frozen=True)
class Group:
    group: int
    events: dict[str, int]  # and the counter that each is on
    slices: int  # in a round
    span: int = 1  # units that a slice of it lasts


def event_rows(known: Sequence[tuple[str, str, str]], counters: int) -> list[EventRow]:
    """Every event, with the counters that it may sit on."""
    areas = list(dict.fromkeys(area for _, area, _ in known))
    free = programmable(counters)
    rows = []
    for name, area, meaning in known:
        left_out = areas.index(area) % LANES if free >= LANES else None
        where = [] if name in FIXED else [c for c in range(free) if c % LANES != left_out]
        rows.append(EventRow(name, area, meaning, where))
    return rows


def programmable(counters: int) -> int:
    """Counters that are left for events, of so many."""
    if counters < 1:
        raise StallscopeError(
            f"{counters} counters cannot count", "at least 3 are needed", "--counters 8"
        )
    if counters <= len(FIXED):
        raise StallscopeError(
            f"{counters} counters leave none for events",
            "every group holds a counter of cycles and one of instructions",
            f"--counters {len(FIXED) + 1} or more",
        )
    return counters - len(FIXED)


def choose(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The events that were asked for, without those that always count. `all` is all."""
    from difflib import get_close_matches

    wanted: list[str] = []
    for name in (part for text in names for part in text.split(",") if part):
        if name == "all":
            wanted += known
        elif name in known:
            wanted.append(name)
        else:
            near = get_close_matches(name, known, 3, 0.4)
            raise StallscopeError(
                f"there is no event {name!r}",
                f"near it: {', '.join(near)}" if near else "stallscope events lists them",
                near[0] if near else "stallscope events",
            )
    return [name for name in dict.fromkeys(wanted) if name not in FIXED]


def assign(allowed: dict[str, Sequence[int]], counters: int, most: int) -> dict[str, int] | None:
    """A counter for each event, none with more than `most`; None where there is no such way."""
    holds: list[list[str]] = [[] for _ in range(counters)]

    def place(event: str, tried: set[int]) -> bool:
        for counter in sorted(allowed[event], key=lambda c: len(holds[c])):
            if counter in tried:
                continue
            tried.add(counter)
            if len(holds[counter]) < most:
                holds[counter].append(event)
                return True
            for other in list(holds[counter]):
                if place(other, tried):
                    holds[counter].remove(other)
                    holds[counter].append(event)
                    return True
        return False

    for event in allowed:
        if not place(event, set()):
            return None
    return {event: counter for counter, events in enumerate(holds) for event in events}


def group(rows: Sequence[EventRow], events: Sequence[str], counters: int) -> list[dict[str, int]]:
    """The fewest groups in which no two events need one counter. So many groups suffice exactly
    when every event finds a counter and none gets more events than there are groups."""
    if not events:
        return []
    free = programmable(counters)
    allowed = {row.event: row.counters for row in rows if row.event in set(events)}
    fewest = -(-len(allowed) // free)
    for count in range(fewest, len(allowed) + 1):
        placed = assign({event: allowed[event] for event in events}, free, count)
        if placed is not None:
            groups: list[dict[str, int]] = [{} for _ in range(count)]
            used = [0] * free
            for event in events:
                counter = placed[event]
                groups[used[counter]][event] = counter
                used[counter] += 1
            return groups
    raise StallscopeError("some event fits on no counter")  # no such event is declared


def turns(groups: Sequence[Group], seed: int) -> Iterator[list[int]]:
    """Which group counts in each unit of a round, redrawn for every round, without end."""
    draw = random.Random(seed)
    slices = [group for group in groups for _ in range(group.slices)]
    while True:
        draw.shuffle(slices)
        yield [group.group for group in slices for _ in range(group.span)]


def orders(groups: Sequence[Group], rounds: int, seed: int) -> list[list[int]]:
    return list(itertools.islice(turns(groups, seed), rounds))
