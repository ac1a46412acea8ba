# SPDX-License-Identifier: Apache-2.0
"""Threaded programs on the simulated system, with monitors beside them: small sizes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Recorder

from stallscope import StallscopeError, monitors, threaded
from stallscope.monitors import Monitor
from stallscope.monitors.assembler import assemble
from stallscope.systems import System, monitor_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("threaded")


@pytest.fixture(scope="module")
def producer(folder: Path) -> System:
    return System([threaded.record("producer", folder, (120, 64))])


@pytest.fixture(scope="module")
def ring(folder: Path) -> System:
    return System([threaded.record("ring", folder, (120,))])


def test_an_idle_monitor_changes_no_cycle(producer: System, ring: System) -> None:
    for system in (producer, ring):
        for protocol in ("moesi", "dragon"):
            plain = system.run(protocol=protocol)
            idle = system.run(["idle"], protocol=protocol)
            watching = system.run(["miss-rate", "hot-sites"], protocol=protocol)
            assert idle.cycles == plain.cycles
            assert watching.cycles == plain.cycles
            assert (idle.signals, idle.dropped) == (0, 0)
            assert watching.signals > 0
            assert idle.monitor_busy < 0.01


def test_the_same_run_twice_is_the_same(producer: System) -> None:
    first = producer.run(["adaptive-coherence"])
    assert producer.run(["adaptive-coherence"]) == first


def test_programs_differ_in_the_protocol_that_suits_them(producer: System, ring: System) -> None:
    cycles = {
        (name, protocol): system.run(protocol=protocol).cycles
        for name, system in (("producer", producer), ("ring", ring))
        for protocol in ("moesi", "dragon")
    }
    assert cycles["producer", "dragon"] < 0.95 * cycles["producer", "moesi"]
    assert cycles["ring", "moesi"] < 0.95 * cycles["ring", "dragon"]


def test_the_adaptive_monitor_leaves_the_worse_protocol(producer: System) -> None:
    worse, better = producer.run(protocol="moesi"), producer.run(protocol="dragon")
    ran = producer.run(["adaptive-coherence"], protocol="moesi", check=True)
    assert ran.switches >= 1
    assert ran.counts["illegal"] == 0
    assert ran.acts[0].feature == "coherence"
    # Most of what there is to gain, though the program is short.
    assert ran.cycles - better.cycles < 0.3 * (worse.cycles - better.cycles)


def test_a_monitor_that_changes_all_the_time_leaves_legal_states(ring: System) -> None:
    text = """
.detector often event=bus every=50 handler=go
go: pmchk r6, coherence
    xori r6, r6, 1
    pmsig coherence, r6
    pmhalt
"""
    ran = ring.run([Monitor("often", "", text, assemble(text), {})], check=True)
    assert ran.switches > 100
    assert ran.counts["illegal"] == 0


def test_what_a_monitor_does_costs_what_it_does(producer: System) -> None:
    stalling = """
.detector one event=store every=100 handler=go stall=yes priority=high
go: pmhalt
"""
    noticing = stalling.replace("stall=yes", "stall=no")
    plain = producer.run()
    late = producer.run([Monitor("late", "", noticing, assemble(noticing), {})])
    held = producer.run([Monitor("held", "", stalling, assemble(stalling), {})])
    assert late.cycles == plain.cycles
    assert held.cycles > plain.cycles


def test_a_broken_monitor_harms_nobody(producer: System) -> None:
    text = ".detector bad event=l1_miss handler=go\n.word nowhere 0\ngo: li r6, nowhere\n jr r6"
    ran = producer.run([Monitor("bad", "", text, assemble(text), {})])
    assert ran.cycles == producer.run().cycles
    assert 1 <= ran.rows[0].faults < 10  # those that were queued when its detector went off
    assert "there is no such instruction" in ran.faults[0]


def test_prefetching_is_turned_off_where_the_bus_is_full(producer: System) -> None:
    ran = producer.run(["prefetch-switch"], prefetch=True)
    assert [act.a for act in ran.acts][:1] == [0]


@pytest.fixture(scope="module")
def passes(program: Callable[..., Path], shared_record: Recorder) -> System:
    return System([shared_record(program("passes"), 30, options=["--trace"]).path])


def test_what_does_not_fit_is_kept_in_part_by_the_other_replacement(passes: System) -> None:
    lru, bimodal = passes.run(), passes.run(bimodal=True)
    # Thirty times over 3 MiB: 2 MiB of which LRU keeps nothing.
    assert bimodal.cycles < 0.7 * lru.cycles
    ran = passes.run(["replacement-switch"])
    assert [(act.feature, act.a) for act in ran.acts] == [("replacement", 1)]
    assert ran.cycles - bimodal.cycles < 0.35 * (lru.cycles - bimodal.cycles)
    back = passes.run(["replacement-switch"], bimodal=True)
    assert back.cycles < 1.35 * bimodal.cycles  # what is tried out costs something


def test_what_fits_is_left_to_lru(producer: System, ring: System) -> None:
    for system in (producer, ring):
        assert not system.run(["replacement-switch"]).acts


def written(path: Path, text: str) -> Monitor:
    path.write_text(text)
    return monitors.load(str(path))


def test_a_monitor_hears_what_the_program_says(passes: System, tmp_path: Path) -> None:
    heard = written(
        tmp_path / "heard.toml",
        """
words = { said = 0, last = 0 }
[[when]]
event = "software"
named = "tenth pass"
do = ["count said", "set last to data", "log said last"]
[[when]]
event = "software"
named = "never"
do = ["log cycle"]
""",
    )
    ran = passes.run([heard])
    assert ran.signals == 3
    assert [(act.a, act.b) for act in ran.acts] == [(1, 9), (2, 19), (3, 29)]
    assert ran.cycles == passes.run().cycles
    with pytest.raises(StallscopeError, match="named is for conditions of a program"):
        written(tmp_path / "bad.toml", '[[when]]\nevent = "load"\nnamed = "x"\ndo = ["off"]')


def test_programs_share_the_cores_by_slices(folder: Path) -> None:
    ocean = threaded.record("ocean", folder, (98, 1))
    water = threaded.record("water", folder, (48, 4))
    both = System([ocean, water])
    plain = both.run(["memory-bound"], slice=20_000)
    kept = both.run(["memory-bound"], slice=20_000, memory_bound=True)
    alone = [System([one]).run().cycles for one in (ocean, water)]
    for ran in (plain, kept):
        assert max(alone) < ran.cycles < 1.2 * sum(alone)
        assert len(ran.ended) == 2
    one_by_one = both.run(sequential=True)
    assert one_by_one.ended[0] < one_by_one.ended[1] == one_by_one.cycles


def test_bad_input_is_a_sentence(producer: System, tmp_path: Path) -> None:
    with pytest.raises(StallscopeError, match="there is no protocol 'mesy'"):
        producer.run(protocol="mesy")
    with pytest.raises(StallscopeError, match="there is no monitor nothing"):
        producer.run(["nothing"])
    with pytest.raises(StallscopeError, match="between 1 and 64"):
        producer.run(cores=0)
    with pytest.raises(StallscopeError, match="there is no recording"):
        System([tmp_path / "none"])
    with pytest.raises(StallscopeError, match="there is no threaded workload"):
        threaded.record("sun", tmp_path)


def test_the_verb_and_its_document(folder: Path) -> None:
    from click.testing import CliRunner

    from stallscope.cli.monitor import command

    path = str(threaded.record("producer", folder, (120, 64)))
    words = ["run", "adaptive-coherence", path, "--protocol", "moesi"]
    ran = CliRunner().invoke(command, [*words, "--json"], catch_exceptions=False)
    document = json.loads(ran.output)
    assert document["schema"] == "stallscope.monitor-run/1"
    keys = {"cycles", "switches", "signals", "dropped", "monitor_busy"}
    assert keys <= set(document)
    shown = CliRunner().invoke(command, words, catch_exceptions=False).output
    assert "adaptive-coherence" in shown
    assert monitor_run(monitors.load("idle"), path).cycles > 0


def test_a_program_is_run_for_a_monitor(folder: Path) -> None:
    from stallscope.systems import recorded

    program = threaded.build("producer", folder)
    system = recorded([str(program), "10", "8"])
    assert system.run(["idle"]).cycles == system.run().cycles
    with pytest.raises(StallscopeError):
        recorded([str(folder / "nothing")])
