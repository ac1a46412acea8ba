# SPDX-License-Identifier: Apache-2.0
"""What only a recorder can say of a workload's truth: which object misses most, and how many heap
blocks of which size each of its sites makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import stallscope
from conftest import STALLSCOPE, run
from stallscope import workloads

CASES = [
    (name, form)
    for name in workloads.names()
    for form in [known.name for known in workloads.truth(name).forms] or [None]
    if name != "churn"  # has no object that is made one way
]
# The data cache in which the truths hold at the quick size.
MACHINE = """
[[cache]]
name = "L1D"
holds = "data"
size = "16K"
ways = 8
latency = 4
"""


def site(truth: workloads.Truth, thing: workloads.Object) -> str:
    """As tables name it with one function."""
    if thing.kind == "global":
        return thing.name
    return f"{thing.function} ({truth.source}:{truth.line_of(thing.text)})"


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_recording_finds_the_objects_of_the_truth(
    name: str, form: str | None, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    truth = workloads.truth(name)
    machine, path = tmp_path / "small.toml", tmp_path / "r.stallscope"
    machine.write_text(MACHINE)
    command = [workload(name), *truth.command_arguments("quick", form)]
    made = run(STALLSCOPE, "record", "-q", "--machine", machine, "-o", path, "--", *command)
    assert made.status == 0, made.stderr
    values = truth.values("quick", made.stdout, form)
    check_blocks(truth, values, path)

    misses = truth.misses_of(form)
    if misses is None:
        return
    view = stallscope.view(path, machine=str(machine), depth=1)
    found = stallscope.objects(view)
    by_object = Counter({row.object: row.misses for row in found.rows})
    meant = next(thing for thing in truth.objects if thing.name == misses.object)
    # Some miss equally often as others do, by design.
    assert by_object[site(truth, meant)] >= 0.98 * by_object.most_common(1)[0][1]
    place = (misses.function, truth.line_of(misses.text))
    at_line = sum(
        row.misses for row in stallscope.lines(view).rows if (row.function, row.line) == place
    )
    assert at_line >= misses.share * found.misses


def check_blocks(truth: workloads.Truth, values: dict[str, int], path: Path) -> None:
    recording = stallscope.open(path)
    callers = {
        row["site"]: (row["function"], row["line"])
        for row in recording.table("site").to_pylist()
        if row["depth"] == 0
    }
    found = Counter(
        (*callers[row["site"]], row["size"])
        for row in recording.table("object").to_pylist()
        if row["kind"] == "heap"
    )
    for thing in truth.objects:
        if thing.kind == "heap":
            size = workloads.evaluate(thing.bytes, values)
            place = (thing.function, truth.line_of(thing.text), size)
            assert found[place] == workloads.evaluate(thing.count, values), thing.name
