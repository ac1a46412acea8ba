# SPDX-License-Identifier: Apache-2.0
"""The server's own pages in a real browser: the list, a recording that is being made, what-if. What
they share with the report is tested there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import PATIENCE, STALLSCOPE, Made, Recorder
from stallscope import workloads

ROOT = Path(__file__).resolve().parents[2]
AXE = "build/cp3*/src/stallscope/views/html/page/node_modules/axe-core/axe.min.js"
LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}},
}
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def made(shared_record: Recorder, workload: Callable[[str], Path]) -> Made:
    arguments = workloads.truth("list").command_arguments("quick")
    return shared_record(workload("list"), *arguments, options=["--trace"])


@pytest.fixture(scope="module")
def address(made: Made) -> Iterator[str]:
    words = [str(STALLSCOPE), "serve", str(made.path.parent)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture(scope="module")
def running(made: Made, workload: Callable[[str], Path]) -> Iterator[str]:
    """A recording at native speed that does not end by itself."""
    path = made.path.parent / "running.stallscope"
    words = [STALLSCOPE, "record", "-q", "--source", "clock", "-o", path, "--"]
    words += [workload("list"), "20000", "100000000", "shuffled"]
    recorder = subprocess.Popen([str(word) for word in words])
    try:
        yield path.name
        assert recorder.poll() is None
    finally:
        recorder.terminate()
        recorder.wait(PATIENCE)
    assert {"so-far", "looked-at"}.isdisjoint(file.name for file in path.iterdir())


def accessible(seen: Any) -> None:
    """No complaint of axe, and nothing that is wider than the screen."""
    seen.page.evaluate(next(ROOT.glob(AXE)).read_text())
    found = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [
        (rule["id"], [node["html"][:200] for node in rule["nodes"]][:3])
        for rule in found["violations"]
    ]
    assert not told
    assert seen.page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    assert not seen.troubles


@pytest.mark.parametrize("look", LOOKS)
def test_the_list_can_be_read_and_followed(
    address: str, made: Made, visit: Visit, look: str
) -> None:
    seen = visit(address, bypass_csp=True, **LOOKS[look])
    link = seen.page.get_by_role("link", name=made.path.name)
    link.wait_for()
    accessible(seen)
    link.focus()
    seen.page.keyboard.press("Enter")
    seen.page.locator(".verdict").wait_for()


@pytest.mark.parametrize("look", LOOKS)
def test_another_machine_is_asked_for_by_keyboard(
    address: str, made: Made, visit: Visit, look: str
) -> None:
    seen = visit(f"{address}?recording={made.path.name}#what-if", bypass_csp=True, **LOOKS[look])
    l1d = seen.page.get_by_role("group", name="L1D")
    l1d.get_by_label("size").focus()
    seen.page.keyboard.press("Control+A")
    seen.page.keyboard.type("64K")
    seen.page.keyboard.press("Enter")
    seen.panel().locator(".answer").filter(has_text="cycles").wait_for()
    accessible(seen)


@pytest.mark.real_time
@pytest.mark.parametrize("look", LOOKS)
def test_samples_states_and_objects_fill_up_while_a_program_runs(
    address: str, running: str, visit: Visit, look: str
) -> None:
    seen = visit(f"{address}?recording={running}", bypass_csp=True, **LOOKS[look])
    seen.page.get_by_role("cell", name="make_node (list.c:").first.wait_for()
    cards = seen.page.locator(".cards").inner_text()
    assert "waiting for memory" in cards
    assert "samples" in cards
    assert "of trace" not in cards
    accessible(seen)
