# SPDX-License-Identifier: Apache-2.0
"""The explorer in the terminal: from an object to its line and back, by keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import STALLSCOPE, Made, Recorder, run
from stallscope import workloads
from stallscope.analyses.crossings import PivotRow
from stallscope.exploring import Exploration, explore
from stallscope.views.terminal.explore import Explorer

Act = Callable[[Explorer, Any], Awaitable[None]]


@pytest.fixture(scope="module")
def made(shared_record: Recorder, workload: Callable[[str], Path]) -> Made:
    arguments = workloads.truth("list").command_arguments("quick")
    return shared_record(workload("list"), *arguments, options=["--trace"])


@pytest.fixture(scope="module")
def explored(made: Made) -> Exploration:
    return explore(made.path)


def on_screen(explored: Any, act: Act) -> None:
    async def go() -> None:
        app = Explorer(explored)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(go())


def cells(app: Explorer) -> list[list[str]]:
    table = app.query_one("DataTable")
    return [[cell.plain for cell in table.get_row_at(i)] for i in range(table.row_count)]


def test_from_the_object_to_its_line_to_the_source_and_back(explored: Exploration) -> None:
    async def act(app: Explorer, pilot: Any) -> None:
        assert cells(app)[0][3].startswith("make_node (list.c:")
        await pilot.press("enter")
        assert app.place.kind == "lines"
        assert "walk" in cells(app)[0][3]
        await pilot.press("enter")
        assert app.place.kind == "source"
        row = app.query_one("DataTable").cursor_row
        assert "node->payload[0]" in cells(app)[row][3]
        await pilot.press("backspace", "backspace")
        assert app.place.kind == "objects"
        assert app.place.where == {}

    on_screen(explored, act)


def test_functions_lead_to_objects_and_those_to_lines_of_both(explored: Exploration) -> None:
    async def act(app: Explorer, pilot: Any) -> None:
        await pilot.press("f")
        assert cells(app)[0][3] == "walk"
        await pilot.press("enter")
        assert app.place.kind == "objects"
        assert cells(app)[0][3].startswith("make_node")
        await pilot.press("enter")
        assert all(cell[3].endswith(" walk") for cell in cells(app))

    on_screen(explored, act)


def test_rows_are_sorted_filtered_and_copied(explored: Exploration) -> None:
    async def act(app: Explorer, pilot: Any) -> None:
        await pilot.press("l", "s")
        counts = [int(row[1].replace(",", "")) for row in cells(app)]
        assert counts == sorted(counts, reverse=True)
        await pilot.press("slash", *"walk")
        assert cells(app)
        assert all("walk" in row[3] for row in cells(app))
        await pilot.press("enter", "y")
        assert app.clipboard == cells(app)[0][3]
        await pilot.press("slash", *"no such thing")
        assert cells(app) == []
        await pilot.press("enter", "enter", "y")  # of nothing there is nothing to see
        assert cells(app) == []

    on_screen(explored, act)


class Hostile:
    """Names as a program may have them."""

    live = False
    title = "[bold red]x[/bold red] \x1b[31m"
    subtitle = "[/nothing]"
    name = "[link=file:///etc]f[/link] \x1b]0;t\x07 \u202eabc [/"

    def rows(self, kind: str, where: Any) -> list[PivotRow]:
        key = {"objects": (self.name,), "functions": (self.name, ""), "lines": ("", None, "f")}
        return [PivotRow(key[kind], 1, 1, 1, 1.0)]

    def source(self, file: str, line: int) -> Any:
        raise AssertionError("there is no line")


def test_names_stay_text() -> None:
    async def act(app: Explorer, pilot: Any) -> None:
        shown = cells(app)[0][3]
        assert shown.startswith("[link=file:///etc]f[/link] \\x1b]0;t\\x07 \\u202eabc [/")
        await pilot.press("y")
        await pilot.press("enter", "enter")  # its line is not known
        assert app.place.kind == "lines"
        path = str(app.query_one("#path").content)
        assert "[bold red]x[/bold red]" in path
        assert "\x1b" not in path

    on_screen(Hostile(), act)


def test_without_a_terminal_it_says_so(made: Made) -> None:
    ran = run(STALLSCOPE, "explore", made.path)
    assert ran.status == 2
    assert "explore needs a terminal" in ran.stderr
