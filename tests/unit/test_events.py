# SPDX-License-Identifier: Apache-2.0
"""Events by their short names, on every machine, and the words of options that make a probe."""

from __future__ import annotations

import pytest

from stallscope import machines
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.machines.events import events, find_event
from stallscope.results import HANDLER_COST, Probe, engine_options
from stallscope.sampling import make_probe, share

PRESETS = [name for name in machines.names() if name not in ("none", "host")]


def held(machine: Machine, number: int) -> str:
    return [*machine.caches, *machine.tlbs][number].holds


@pytest.mark.parametrize("name", PRESETS)
def test_short_names_mean_the_same_whatever_a_machine_calls_its_levels(name: str) -> None:
    machine = machines.load(name)
    data = [i for i, cache in enumerate(machine.caches) if cache.holds != "instructions"]
    assert find_event(machine, "l1").level == data[0]
    assert find_event(machine, "l1") == find_event(machine, "L1D") == find_event(machine, None)
    assert find_event(machine, "llc").level == data[-1]
    for depth, number in enumerate(data, 1):
        assert find_event(machine, f"l{depth}").level == number
    tlbs = [i for i, tlb in enumerate(machine.tlbs) if tlb.holds != "instructions"]
    if tlbs:
        assert find_event(machine, "dtlb").level == len(machine.caches) + tlbs[0]
    if len(tlbs) > 1:
        assert find_event(machine, "stlb").level == len(machine.caches) + tlbs[-1]


@pytest.mark.parametrize("name", PRESETS)
def test_every_event_is_one_that_its_level_sees(name: str) -> None:
    machine = machines.load(name)
    for event in events(machine).values():
        assert held(machine, event.level) != ("data" if event.code else "instructions")
        assert find_event(machine, event.name) == event  # the name that results are kept under


def test_instructions_and_data_of_one_level_are_two_events() -> None:
    machine = machines.load("default")
    assert find_event(machine, "l2").name == "L2"
    assert find_event(machine, "l2i").name == "L2:code"
    assert find_event(machine, "l2:CODE") == find_event(machine, "l2i")
    assert find_event(machine, "l2:data") == find_event(machine, "l2")
    assert find_event(machine, "l1i").code
    assert find_event(machine, "itlb").code
    assert engine_options(machine, Probe(event="L2:code"))["event_code"] is True


def test_the_machines_own_names_come_first() -> None:
    plain = machines.parse(
        """
        memory_latency = 100
        [[cache]]
        name = "D"
        holds = "data"
        size = "1K"
        ways = 2
        latency = 1
        [[cache]]
        name = "L1"
        size = "8K"
        ways = 2
        latency = 5
        """,
        "odd",
    )
    assert find_event(plain, "l1").level == 1
    assert find_event(plain, None).level == 0
    assert find_event(plain, "l1d").level == 0
    assert find_event(plain, "l1i").level == 1  # the first that instructions meet


def test_an_unknown_event_gets_the_list_of_known_ones() -> None:
    with pytest.raises(StallscopeError) as caught:
        find_event(machines.load("power5"), "nonsense")
    assert "nonsense" in caught.value.what
    for word in ("DERAT (dtlb", "L1I", "L3", "llc"):
        assert word in caught.value.why
    with pytest.raises(StallscopeError) as caught:
        find_event(machines.load("alpha-2m"), "l1i")
    assert caught.value.why == "it has: L1D (l1, llc)"


@pytest.mark.parametrize(
    ("text", "value"), [("1%", 0.01), ("0.5 %", 0.005), ("0.25", 0.25), (0.1, 0.1), ("99%", 0.99)]
)
def test_budgets_are_shares(text: str | float, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["200%", "100%", "0", "0%", "-1%", "1", "many", "", "1%%", "nan"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(StallscopeError, match="budget"):
        share(text)


def test_options_that_mean_the_same_make_the_same_probe() -> None:
    machine = machines.load("default")
    assert make_probe(machine) == Probe()
    assert make_probe(machine, event="L1D") == make_probe(machine, event="l1") == Probe()
    assert make_probe(machine, event="llc") == make_probe(machine, event="L3")
    assert make_probe(machine, budget="1%") == make_probe(machine, budget=0.01)
    assert make_probe(machine, perturb=True).handler_cost == HANDLER_COST
    assert make_probe(machine, perturb=True, handler_cost=0).handler_cost == 0
    assert make_probe(machine, handler_cost=50).handler_cost == 50


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampling": "guess"}, "--sampling guess"),
        ({"min_latency": -1}, "--min-latency -1"),
        ({"period": -5}, "--period -5"),
        ({"seed": -1}, "--seed -1"),
        ({"handler_cost": -1}, "--handler-cost -1"),
        ({"min_latency": 2**40}, "--min-latency"),
        ({"budget": "200%"}, "--budget 200%"),
        ({"budget": "1%", "period": 100}, "--budget"),
        ({"budget": "1%", "handler_cost": 0}, "--handler-cost 0"),
        ({"event": "itlb", "sampling": "tagged"}, "tagged"),
        ({"classify": True, "min_latency": 50}, "--classify"),
        ({"event": "L7"}, "L7"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_words(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(StallscopeError) as caught:
        make_probe(machines.load("default"), **options)  # type: ignore[arg-type]
    assert words in caught.value.what
