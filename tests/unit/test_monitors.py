# SPDX-License-Identifier: Apache-2.0
"""The monitor core alone: its language, its instructions, and what happens when it goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope import StallscopeError, monitors
from stallscope.monitors import Monitor
from stallscope.monitors.assembler import SIGNALS, assemble, disassemble, instructions, listing
from stallscope.monitors.compiler import compile_monitor, cover, parse
from stallscope.monitors.simulator import Simulator

TABLE, DETECTORS, DOORBELL = 0x10000, 0x20000, 0x30000


def monitor_of(assembly: str) -> Monitor:
    return Monitor("test", "", assembly, assemble(assembly), {})


def declared(text: str) -> Monitor:
    assembly = compile_monitor(parse(text, "test"))
    return Monitor("test", "", assembly, assemble(assembly), {})


def booted(monitor: Monitor, **config: int) -> Simulator:
    made = Simulator(monitor, **config)
    made.boot()
    return made


COUNTER = """
.detector misses event=l1_miss handler=on_miss
.word count 0
on_miss: ld r6, count(r0)
    addi r6, r6, 1
    st r6, count(r0)
    pmhalt
"""


def test_a_handler_runs_once_for_each_signal() -> None:
    simulator = booted(monitor_of(COUNTER))
    for cycle in range(100, 1000, 100):
        simulator.notify("l1_miss", cycle)
    simulator.advance(2000)
    assert simulator.word("count") == 9
    assert simulator.state()["account"]["tasks"] == 10  # the boot program is one


def test_every_cycle_is_accounted_for() -> None:
    simulator = booted(monitor_of(COUNTER))
    simulator.notify("l1_miss", 500)
    simulator.advance(777)
    account = simulator.state()["account"]
    spent = ("busy", "starting", "waking", "suspended", "low_power")
    assert sum(account[name] for name in spent) == 777
    before = booted(monitor_of(COUNTER)).state()["account"]
    assert account["busy"] - before["busy"] == 2 + 1 + 2 + 1  # ld, addi, st, pmhalt
    assert account["waking"] - before["waking"] == 4
    assert account["starting"] - before["starting"] == 2


def test_only_what_matches_is_let_through_and_of_that_every_nth() -> None:
    text = COUNTER.replace("event=l1_miss", "event=l1_miss every=3 address=0x1000/0xf000 core=2")
    simulator = booted(monitor_of(text))
    for i in range(9):
        simulator.notify("l1_miss", 100 * i + 100, core=2, address=0x1000 + 8 * i)
        simulator.notify("l1_miss", 100 * i + 110, core=1, address=0x1000)
        simulator.notify("l1_miss", 100 * i + 120, core=2, address=0x2000)
    simulator.advance(5000)
    assert simulator.word("count") == 3
    assert simulator.state()["detectors"][0][1:3] == (9, 3)


def test_bits_of_the_data_can_be_matched_too() -> None:
    simulator = booted(monitor_of(COUNTER.replace("l1_miss", "store data=0x80/0xf0")))
    for data in (0x80, 0x8F, 0x90, 0x180):
        simulator.notify("store", 100, data=data)
    simulator.advance(1000)
    assert simulator.word("count") == 3


def test_a_full_queue_drops_and_counts() -> None:
    simulator = booted(monitor_of(COUNTER), low_queue=4)
    for _ in range(10):
        simulator.notify("l1_miss", 100)
    simulator.advance(10_000)
    account = simulator.state()["account"]
    assert account["signals"] == 10
    assert account["dropped_low"] == 6
    assert account["longest_low"] == 4
    assert simulator.word("count") == 4


def test_high_priority_goes_first_and_is_not_dropped_for_low() -> None:
    text = """
.detector low event=load handler=on_low
.detector high event=store handler=on_high priority=high
on_low: li r6, 1
    pmsig log, r6
    pmhalt
on_high: li r6, 2
    pmsig log, r6
    pmhalt
"""
    simulator = booted(monitor_of(text), low_queue=2)
    for _ in range(5):
        simulator.notify("load", 100)
    simulator.notify("store", 100)
    simulator.advance(1000)
    assert [act[2] for act in simulator.acts] == [2, 1, 1]
    assert simulator.state()["account"]["dropped_low"] == 3
    assert simulator.state()["account"]["dropped_high"] == 0


def test_a_handler_that_never_ends_is_stopped_and_its_detector_turned_off() -> None:
    text = """
.detector misses event=l1_miss handler=forever
forever: jmp forever
"""
    simulator = booted(monitor_of(text), task_limit=1000)
    simulator.notify("l1_miss", 100)
    simulator.advance(5000)
    state = simulator.state()
    assert state["account"]["runaways"] == 1
    assert state["detectors"][0][0] == 0
    assert "longer than 1000 cycles" in state["faults"][0][0]
    simulator.notify("l1_miss", 6000)
    simulator.advance(9000)
    assert simulator.state()["account"]["runaways"] == 1


def test_a_bad_instruction_ends_the_task_and_no_other() -> None:
    text = (
        COUNTER
        + """
.detector bad event=load handler=nothing
.word nothing_here 0
nothing: li r6, nothing_here
    jr r6
"""
    )
    simulator = booted(monitor_of(text))
    simulator.notify("load", 100)
    simulator.notify("l1_miss", 200)
    simulator.advance(1000)
    state = simulator.state()
    assert state["account"]["faults"] == 1
    assert state["faults"][0][0] == "there is no such instruction"
    assert state["faults"][0][3] == 1  # the signal
    assert state["detectors"][1][0] == 0
    assert simulator.word("count") == 1


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("ld r6, 4(r0)", "it reads where nothing is"),
        ("st r6, 65528(r0)", "it writes where nothing is"),
        ("wcmpm 0, r0", "a mask of 0 lets nothing through"),
        ("wepm 64, r0", "there is no such signal"),
        ("pmsig 99, r0", "the machine has no such feature"),
        ("pmchk r6, 99", "the machine has no such feature"),
    ],
)
def test_what_an_instruction_must_not_do_is_a_fault(instruction: str, why: str) -> None:
    text = f".detector one event=load handler=go\ngo: {instruction}\n pmhalt"
    simulator = booted(monitor_of(text))
    simulator.notify("load", 100)
    simulator.advance(500)
    assert [fault[0] for fault in simulator.state()["faults"]] == [why]


def test_a_table_full_of_signals_works_and_one_more_is_refused() -> None:
    lines = [f".detector d{i} event=load handler=go" for i in range(SIGNALS)]
    body = "\n.word count 0\ngo: ld r6, count(r0)\n addi r6, r6, 1\n st r6, count(r0)\n pmhalt"
    simulator = booted(monitor_of("\n".join(lines) + body), low_queue=SIGNALS)
    simulator.notify("load", 5000)
    simulator.advance(50_000)
    assert simulator.word("count") == SIGNALS
    with pytest.raises(StallscopeError, match="room for 64"):
        assemble("\n".join([*lines, lines[0].replace("d0", "more")]) + body)


def test_a_null_entry_turns_the_detector_off_and_a_write_suspends() -> None:
    simulator = booted(monitor_of(COUNTER))
    assert simulator.write(TABLE, 0, 200)
    simulator.notify("l1_miss", 300)
    simulator.advance(1000)
    assert simulator.word("count") == 0
    assert simulator.state()["account"]["suspended"] == 2
    on_miss = simulator.monitors[0].image.labels["on_miss"]
    assert simulator.write(TABLE, on_miss, 2000)
    assert simulator.write(DETECTORS + 40, 2, 2000)  # every second
    for _ in range(4):
        simulator.notify("l1_miss", 3000)
    simulator.advance(4000)
    assert simulator.word("count") == 2
    assert not simulator.write(0x7FFF_0000, 1, 5000)


def test_cpm_clears_tasks_and_detectors() -> None:
    simulator = booted(
        monitor_of(COUNTER + ".detector c event=store handler=wipe\nwipe: cpm\n pmhalt")
    )
    simulator.notify("store", 100)
    simulator.notify("l1_miss", 100)
    simulator.advance(1000)
    assert simulator.word("count") == 0
    assert all(row[0] == 0 for row in simulator.state()["detectors"])


def test_a_handler_queues_a_task() -> None:
    text = COUNTER + ".detector first event=load handler=go\ngo: pmtask misses, r0\n pmhalt"
    simulator = booted(monitor_of(text))
    simulator.notify("load", 100)
    simulator.advance(1000)
    assert simulator.word("count") == 1


def test_a_stalling_detector_holds_the_core_until_the_task_has_ended() -> None:
    simulator = booted(monitor_of(COUNTER.replace("handler", "stall=yes priority=high handler")))
    assert simulator.notify("l1_miss", 1000) == 1000 + 4 + 2 + 6  # waking, starting, four to run
    plain = booted(monitor_of(COUNTER))
    assert plain.notify("l1_miss", 1000) == 1000


def test_monitors_send_to_each_other_without_ever_waiting() -> None:
    sender, receiver = monitors.load("rate-sender"), monitors.load("rate-receiver")
    both = Simulator(sender, receiver)
    both.boot()
    for window in range(1, 4):
        for i in range(100):
            both.notify("l1_miss", 10_000 * window + 50 * i)
        both.notify("cycles", 10_000 * window + 9000, count=10_000)
    both.advance(100_000)
    assert both.word("messages", number=1) == 3
    rate = 0
    for _ in range(3):
        rate = (rate + 100) // 2
    assert both.word("rate", number=1) == rate


def test_a_full_send_buffer_drops_and_counts() -> None:
    text = """
.detector go event=load handler=go
go: li r7, 0
    pmsend 1, r2, r7
    pmsend 1, r2, r7
    pmsend 1, r2, r7
    pmsend 1, r2, r7
    pmhalt
"""
    busy = ".detector take event=message handler=take\ntake: jmp take"
    both = Simulator(monitor_of(text), monitor_of(busy), send_buffer=2, low_queue=1)
    both.boot()
    both.notify("load", 100)
    both.notify("load", 200)
    both.advance(1000)
    account = both.state()["account"]
    assert account["dropped_sends"] > 0
    assert not both.state()["running"]  # it went on


def test_locks_are_granted_one_at_a_time() -> None:
    simulator = booted(monitors.load("locks"))
    for cycle, core, asks in ((100, 0, 1), (200, 1, 1), (300, 0, 0), (400, 1, 1)):
        simulator.notify("software", cycle, core=core, data=asks)
    simulator.advance(1000)
    granted = [(core, given) for _, name, core, given, _ in simulator.acts if name == "grant"]
    assert granted == [(0, 1), (1, 0), (1, 1)]


def test_the_declarative_form_averages_counts_and_acts_when_it_lasts() -> None:
    simulator = booted(monitors.load("miss-rate"))
    cycle = 10_000
    for misses in (2000, 2000, 2000, 2000, 0, 0, 0, 0):
        simulator.notify("l1_miss", cycle, count=misses) if misses else None
        cycle += 5000
        simulator.advance(cycle)
        cycle += 5000
        simulator.notify("cycles", cycle, count=10_000)
        simulator.advance(cycle + 500)
    rate, rates = 0, []
    # The queue holds 64 of the 250 signals of a window: the rest is dropped, and counted.
    for misses in (64 * 8,) * 4 + (0,) * 4:
        rate = (rate + misses) // 2
        rates.append(rate)
    assert simulator.word("rate") == rates[-1]
    assert simulator.state()["account"]["dropped_low"] == 4 * (250 - 64)


def test_a_rule_acts_when_its_condition_held_often_enough_in_a_row() -> None:
    text = """
words = { n = 0 }
[[when]]
event = "cycles"
every = 100
if = ["n above 5"]
for = 3
do = ["log n"]
[[when]]
event = "store"
do = ["set n to data"]
"""
    simulator = booted(declared(text))
    cycle = 1000
    for value in (9, 9, 1, 9, 9, 9, 9, 9, 9):
        simulator.notify("store", cycle, data=value)
        simulator.advance(cycle + 90)
        simulator.notify("cycles", cycle + 100, count=100)
        simulator.advance(cycle + 190)
        cycle += 200
    # Two, broken off; then three in a row, twice.
    assert len(simulator.acts) == 2


def test_a_range_is_matched_by_the_hardware_and_checked_by_the_handler() -> None:
    text = """
words = { hits = 0 }
[[when]]
name = "near"
event = "store"
in = "0x1010-0x1031"
do = ["count hits"]
"""
    match, care = cover(0x1010, 0x1031)
    assert (match, care & 0xFF) == (0x1000, 0xC0)
    simulator = booted(declared(text))
    for i, address in enumerate((0x1000, 0x100F, 0x1010, 0x1030, 0x1031, 0x1040)):
        simulator.notify("store", 1000 + 100 * i, address=address)
    simulator.advance(5000)
    assert simulator.word("hits") == 2
    assert simulator.word("near_false") == 3  # 0x1000, 0x100f, 0x1031; 0x1040 does not match


def test_every_instruction_survives_being_taken_apart() -> None:
    samples = {
        "three": "r1, r2, r3",
        "literal": "r1, r2, -5",
        "memory": "r1, 16(r2)",
        "reg": "r4",
        "none": "",
        "signal": "3, r4",
        "check": "r4, prefetch",
    }
    for name, (form, _) in instructions().items():
        if form in samples:
            text = f"{name} {samples[form]}".strip()
            image = assemble(f".boot b\nb: {text}\npmhalt")
            assert listing(image)[0].text == text
    acts = assemble(".boot b\nb: pmsig coherence, r1, r2\npmsend 1, r3, r4\nbne r1, r2, b\njmp b")
    shown = [row.text for row in listing(acts)]
    assert shown == [
        "pmsig coherence, r1, r2",
        "pmsend 1, r3, r4",
        "bne r1, r2, 0x8",
        "jal r0, 0x8",
    ]
    assert disassemble(0) == ".bad 0x00000000"


def test_any_number_can_be_loaded() -> None:
    for number in (0, 1, -1, 131071, 131072, -131072, 1 << 40, (1 << 64) - 1, 0x123456789ABCDEF0):
        head = ".detector g event=load handler=g\n.word out 0\n"
        text = f"{head}g: li r6, {number}\nst r6, out(r0)\npmhalt"
        simulator = booted(monitor_of(text))
        simulator.notify("load", 100)
        simulator.advance(1000)
        assert simulator.word("out") == number % (1 << 64)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("on: foo r1", "line 1 of the monitor: there is no instruction foo"),
        ("on: add r1, r2", "takes 3 operands, not 2"),
        ("on: addi r1, r2, 999999", "does not fit into 18 bits"),
        ("on: add r1, r2, r16", "r16 is no register"),
        ("on: jmp there", "there is no label there"),
        ("on: pmhalt\non: pmhalt", "line 2 of the monitor: on is there twice"),
        (".detector d event=nothing", "there is no event nothing"),
        (".detector d event=load every=0", "every: at least 1"),
        (".detector d event=load", "has no label d"),
        (".detector d every=2", "has no event"),
        (".what 1", "is no directive"),
        (".word x y", "y is no number"),
    ],
)
def test_a_mistake_in_assembly_is_named_with_its_line(text: str, why: str) -> None:
    with pytest.raises(StallscopeError, match=why.replace("(", r"\(")):
        assemble(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no rule"),
        ("[[when]]\nevent='lod'", "there is no event"),
        ("[[when]]\nevent='load'\ndo=['jump']", "is no action"),
        ("[[when]]\nevent='load'\ndo=['count x']", "there is no word"),
        ("[[when]]\nevent='load'\nin='5'", "write FIRST-BEHIND"),
        ("[[when]]\nevent='load'\nif=['x >> 3']", "write WORD"),
        ("[[when]]\nevent='load'\nfoo=1", "is no monitor"),
        ("[core]\nspeed=3\n[[when]]\nevent='load'", "has no speed"),
        ("[[when]]\nevent='load'\neach_core=65", "room for 64"),
        ("when = 3", "is no monitor"),
        ("]", "is no monitor"),
    ],
)
def test_a_mistake_in_a_declaration_is_one_sentence(text: str, why: str) -> None:
    with pytest.raises(StallscopeError, match=why):
        declared(text)


def test_every_bundled_monitor_boots() -> None:
    for name in monitors.bundled():
        monitor = monitors.load(name)
        assert monitor.about
        assert booted(monitor).state()["faults"] == []


def test_an_unknown_monitor_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StallscopeError, match="there is no monitor miss-rat"):
        monitors.load("miss-rat")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StallscopeError, match="there is no monitor"):
        monitors.load(str(tmp_path / "bytes.toml"))


def test_the_image_must_fit() -> None:
    with pytest.raises(StallscopeError, match="does not fit into the scratch-pad"):
        Simulator(monitor_of(COUNTER + ".space big 4000"))
    with pytest.raises(StallscopeError, match="queue holds at least one"):
        Simulator(monitor_of(COUNTER), low_queue=0)


def test_the_verb_lists_assembles_and_steps() -> None:
    import json

    from click.testing import CliRunner

    from stallscope.cli.monitor import command

    def shown(*words: str) -> str:
        ran = CliRunner().invoke(command, words, catch_exceptions=False)
        assert ran.exit_code == 0
        return ran.output

    listed = json.loads(shown("list", "--json"))
    assert {row["monitor"] for row in listed["rows"]} == set(monitors.bundled())
    assert "write_invalidate" in shown("list")
    assert "pmsig grant, r3, r6" in shown("asm", "locks")
    assert ".detector when1 event=l1_miss" in shown("asm", "miss-rate", "--source")
    found = json.loads(shown("step", "locks", "--event", "software@500:0:1:2", "--json"))
    # Waking 4, starting 2, then beq, ld, bne, addi, st, ld, addi, st and pmsig.
    assert found["acts"] == [
        {
            "cycle": 500 + 4 + 2 + 1 + 2 + 1 + 1 + 2 + 2 + 1 + 2 + 2,
            "feature": "grant",
            "a": 2,
            "b": 1,
        }
    ]
    assert found["words"] == {"taken": 1, "granted": 1, "refused": 0}
    with pytest.raises(StallscopeError, match="not understood"):
        shown("step", "locks", "--event", "soft ware")
