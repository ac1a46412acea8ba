# SPDX-License-Identifier: Apache-2.0
"""The machine that the agreement of clock and simulation is measured on."""

from __future__ import annotations

import pytest
from benchmarks import host_machine
from benchmarks.agreement_bench import Compared
from benchmarks.host_machine import last_level, lines_ahead


def test_an_l3_is_as_large_as_what_is_nearer_than_half_way_to_memory() -> None:
    assert last_level({2: 20.0, 4: 25.0, 8: 140.0, 16: 150.0}, memory=160.0) == 4


def test_an_l3_of_which_nothing_is_left_has_the_least_size() -> None:
    assert last_level({2: 90.0, 4: 120.0}, memory=160.0) == 2


def test_as_many_lines_are_ahead_as_are_under_way() -> None:
    assert lines_ahead(memory=100.0, line=5.0) == 20
    assert lines_ahead(memory=100.0, line=0.5) == host_machine.MOST_AHEAD
    assert lines_ahead(memory=1.0, line=5.0) == 1


def test_a_measured_host_is_a_server_with_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nanoseconds(_: object, mebibytes: int, *words: str) -> float:
        if mebibytes == 0:
            return 0.25
        if "stream" in words:
            return 5.0
        if mebibytes == host_machine.FAR:
            return 100.0 if words else 120.0
        return 20.0 if mebibytes <= 8 else 90.0

    monkeypatch.setattr(host_machine, "_chase", lambda: None)
    monkeypatch.setattr(host_machine, "_nanoseconds", nanoseconds)
    machine = host_machine.measured()
    assert machine.memory_latency == 400
    assert machine.page_walk == 80
    assert machine.prefetcher.degree == 20
    assert machine.prefetcher.crosses_pages
    assert machine.core.bus == 20
    assert machine.core.wrong_paths
    assert machine.mapping.first_touch == "cleared"
    assert {cache.name: cache.size for cache in machine.caches}["L3"] == 8 << 20


def test_objects_are_compared_that_have_a_fifth_by_either() -> None:
    one = Compared(
        waiting=0.5,
        waited={"list": 0.9, "table": 0.1},
        stalls={"list": 0.75, "heap": 0.25},
        latency={"table": 0.6, "list": 0.4},
    )
    assert one.waits
    assert one.first_is("stalls") and not one.first_is("latency")
    by_stalls = {item: round(off) for item, off in one.points_off("stalls")}
    assert by_stalls == {"list": 15, "heap": 25}
    by_latency = {item: round(off) for item, off in one.points_off("latency")}
    assert by_latency == {"table": 50, "list": 50}


def test_a_program_that_hardly_waits_is_not_compared() -> None:
    assert not Compared(waiting=0.19, waited={}, stalls={}, latency={}).waits
