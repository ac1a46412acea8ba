# SPDX-License-Identifier: Apache-2.0
"""Whether a monitor looks at what was read or written, which its code says."""

from __future__ import annotations

import pytest

from stallscope.monitors import bundled, load
from stallscope.monitors.assembler import assemble
from stallscope.monitors.compiler import looks_at_data

STORES = ".detector stores event=store handler=on_store\n.word held 0\n"


@pytest.mark.parametrize(
    ("code", "looks"),
    [
        ("on_store: st r2, held(r0)\n pmhalt", True),
        ("on_store: add r6, r0, r2\n pmhalt", True),
        ("on_store: addi r2, r0, 1\n st r2, held(r0)\n pmhalt", False),  # a register as any other
        ("on_store: ld r2, held(r0)\n st r2, held(r0)\n pmhalt", False),
        ("on_store: st r1, held(r0)\n pmhalt\nother: st r2, held(r0)\n pmhalt", False),
        ("on_store: beq r1, r0, over\n addi r2, r0, 1\nover: st r2, held(r0)\n pmhalt", True),
        ("on_store: jmp there\n addi r2, r0, 1\nthere: pmsig log, r2\n pmhalt", True),
        ("on_store: jal r15, sub\n pmhalt\nsub: st r2, held(r0)\n jr r15", True),
        ("on_store: jal r15, sub\n st r2, held(r0)\n pmhalt\nsub: jr r15", True),
        ("on_store: jal r15, sub\n pmhalt\nsub: jr r15", False),
        ("on_store: pmtask stores, r2\n pmhalt", True),
        # It chooses handlers itself: any of its code may be one.
        (
            "on_store: li r6, other\n wepm stores, r6\n pmhalt\nother: st r2, held(r0)\n pmhalt",
            True,
        ),
        ("on_store: wepm stores, r0\n pmhalt\nother: st r2, held(r0)\n pmhalt", False),
    ],
)
def test_data_is_looked_at_when_it_is_read_before_it_is_written(code: str, looks: bool) -> None:
    assert looks_at_data(assemble(STORES + code)) is looks


def test_a_boot_program_of_its_own_may_choose_any_handler() -> None:
    code = ".boot start\nstart: li r6, {}\n wepm stores, r6\n pmhalt\n"
    handlers = "on_store: pmhalt\nother: st r2, held(r0)\n pmhalt"
    assert looks_at_data(assemble(STORES + code.format("other") + handlers))


def test_a_detector_that_compares_data_looks_at_it() -> None:
    text = ".detector stores event=store data=5/0xff handler=on_store\non_store: pmhalt"
    assert looks_at_data(assemble(text))


def test_what_other_events_carry_is_always_known() -> None:
    text = ".detector told event=software handler=on\n.word held 0\non: st r2, held(r0)\n pmhalt"
    assert not looks_at_data(assemble(text))
    assert assemble(text).detectors[0].needs_data


def test_of_the_bundled_monitors_only_those_that_say_so_look_at_data() -> None:
    assert [name for name in bundled() if load(name).looks_at_data] == ["every-hundredth"]
