# SPDX-License-Identifier: Apache-2.0
"""What programs wait for on many hosts: the answers to questions about a fleet. What counts as a
change between two builds is in fleet_changes.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TopRow:
    program: str
    object: str | None  # None: by program
    hosts: int
    builds: int
    recordings: int
    samples: int
    wait: float  # seconds of processor time, in the recordings
    share: float  # of all waiting
    of_time: float  # of the time of the programs


@dataclass(frozen=True)
class FleetTop:
    fleet: str
    by: str
    hosts: int
    recordings: int
    first_day: str | None
    last_day: str | None
    rows: list[TopRow]


@dataclass(frozen=True)
class BuildRow:
    program: str
    build: str
    first_day: str
    last_day: str
    hosts: int
    recordings: int


@dataclass(frozen=True)
class FleetBuilds:
    fleet: str
    rows: list[BuildRow]


@dataclass(frozen=True)
class FleetObjectRow:
    program: str
    object: str
    kind: str
    hosts: int
    samples: int
    share: float  # of the program's time, over all hosts
    low: float  # of the mean over hosts, 95%
    high: float


@dataclass(frozen=True)
class FleetObjects:
    fleet: str
    program: str
    build: str | None
    recordings: int
    rows: list[FleetObjectRow]


@dataclass(frozen=True)
class DiffRow:
    program: str
    object: str
    kind: str
    verdict: str  # worse or better
    before: float  # share of time, mean over hosts
    after: float
    change: float
    low: float  # of the change, 95%
    high: float
    hosts: int  # that the comparison is about
    changed: int  # of them, that stand out; a twentieth of those by chance
    ratio_there: float | None  # after over before on those
    probability: float  # of seeing this where nothing changed, corrected
    since: str | None  # first day of the second build on the hosts that changed


@dataclass(frozen=True)
class FleetDiff:
    fleet: str
    program: str
    before: str  # build ids
    after: str
    paired: bool  # the same hosts ran both
    hosts: int
    recordings: int
    alpha: float
    compared: int  # objects
    rows: list[DiffRow]
