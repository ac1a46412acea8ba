# SPDX-License-Identifier: Apache-2.0
"""Beyond the original: blocks placed by a policy that a recording gave, predicted and confirmed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import stallscope
from benchmarks.reproduce.lab import Lab, timed
from benchmarks.reproduce.page import Page, Row, change, code, count, decimal, percent
from stallscope.analyses.layout import Layout

NAME, TITLE = "allocator", "Blocks placed by a policy: predicted and confirmed"
MACHINE = "default"
ARRAYS = Path("tests/unit/near/arrays.c")
# Long enough that the library's own start is nothing beside them.
PROGRAMS = {
    "list": ("30000", "20", "shuffled"),
    "bst": ("50000", "100000"),
    "placement": ("20000", "100000", "slow"),
    "hashjoin": ("40000", "200000", "10000"),
}


def _command(lab: Lab, name: str) -> list[str]:
    if name != "arrays":
        return [lab.program(name), *PROGRAMS[name]]
    program = lab.folder / "arrays"
    subprocess.run(["cc", "-O2", "-g", str(ARRAYS), "-o", str(program)], check=True)
    return [str(program.resolve()), "100000", "10"]


def measure(lab: Lab, name: str) -> Layout:
    lab.folder.mkdir(parents=True, exist_ok=True)
    path = lab.folder / f"allocator-{name}.stallscope"
    lab.record(path, _command(lab, name))
    with timed(f"predicts and confirms a layout of {name}"):
        view = stallscope.view(path, machine=MACHINE, evictions=True)
        return stallscope.layout(view, predict=True, confirm=True, runs=lab.runs)


def _row(name: str, result: Layout) -> Row:
    level = next(row for row in result.levels if row.level == "L1D")
    placed = [row for row in result.objects if row.placed]
    off = max((abs(row.error) for row in placed if row.error is not None), default=0.0)
    assert level.confirmed is not None
    assert level.error is not None
    assert result.native is not None
    return [
        code(name),
        count(result.moved_blocks or 0),
        count(level.before),
        count(level.predicted),
        count(level.confirmed),
        change(level.predicted / level.before),
        percent(level.error),
        percent(off),
        decimal(result.native.ratio),
        f"{result.native.low:.2f} to {result.native.high:.2f}",
    ]


def make(lab: Lab, page: Page) -> None:
    page.text(
        """The original's allocator had to be called by the program. A preloaded form needs no
        change: [`stallscope layout`](../layout.md) finds in a recording which blocks evict each
        other or lie loosely, and places them by the place that asks for them. Replay predicts what
        that does: the kept trace runs through the machine once more, with every access to a placed
        block moved to where the allocator would have put it. A recording made with the library
        preloaded confirms it, and native runs tell what it is worth.""",
    )
    names = ("arrays", *PROGRAMS)
    page.table(
        "layouts",
        [
            *("program", "blocks placed", "L1D misses", "predicted", "confirmed", "change"),
            *("prediction off by", "placed objects, at most"),
            *("native time, placed over plain", "quartiles"),
        ],
        [_row(name, measure(lab, name)) for name in names],
    )
    page.text(
        f"""Machine `{MACHINE}`; times are of the processor, medians over {lab.runs} pairs of
        neighbouring runs. What a prediction leaves out is told on the page of
        [`layout`](../layout.md): above all the library's own code and data, which the native times
        include."""
    )
