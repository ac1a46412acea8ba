# SPDX-License-Identifier: Apache-2.0
"""A recording on the whole screen. Names are always Text: nothing in them is markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from stallscope.views.terminal.text import clean

MOST = 2000  # rows on the screen; a filter finds the others
NEXT = {"objects": "lines", "functions": "objects", "lines": "source"}


class Row(Protocol):
    @property
    def key(self) -> tuple[Any, ...]: ...
    @property
    def misses(self) -> int | None: ...
    @property
    def sampled(self) -> int: ...
    @property
    def latency(self) -> int | None: ...
    @property
    def share(self) -> float: ...


class Explored(Protocol):
    live: bool
    title: str
    subtitle: str

    def rows(self, kind: str, where: Mapping[str, object]) -> Any: ...
    def source(self, file: str, line: int) -> Any: ...


@dataclass(frozen=True)
class Place:
    """Where one is: a kind of rows, of which part, how ordered."""

    kind: str = "objects"
    where: Mapping[str, Any] = field(default_factory=dict)
    word: str = ""  # of the filter
    order: int = 0  # column; 0 is by cost
    row: int = 0


class Explorer(App[None]):
    CSS = """
    #path { height: auto; padding: 0 1; text-style: bold; }
    #filter { display: none; }
    #filter.shown { display: block; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "all('objects')", "objects"),
        Binding("f", "all('functions')", "functions"),
        Binding("l", "all('lines')", "lines"),
        Binding("enter", "into", "into", show=True),
        Binding("backspace,left,escape", "out", "back"),
        Binding("s", "sort", "sort"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("y", "copy", "copy"),
        Binding("q", "quit", "quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, explored: Explored) -> None:
        super().__init__()
        self.explored = explored
        self.place = Place()
        self.behind: list[Place] = []
        self.shown: list[Row] = []

    def compose(self) -> ComposeResult:
        yield Vertical(
            Static(id="path", markup=False),
            Input(placeholder="filter", id="filter"),
            DataTable(id="rows", cursor_type="row", zebra_stripes=True),
        )
        yield Footer()

    def on_mount(self) -> None:
        self.draw()
        self.query_one(DataTable).focus()

    # What is shown

    def draw(self) -> None:
        place = self.place
        self.query_one("#path", Static).update(self.path())
        table: DataTable[Text] = self.query_one(DataTable)
        table.clear(columns=True)
        if place.kind == "source":
            self.draw_source(table)
        else:
            self.draw_rows(table)
        if table.row_count:
            table.move_cursor(row=min(self.place.row, table.row_count - 1))

    def path(self) -> Text:
        words = [clean(self.explored.title), clean(self.explored.subtitle)]
        words += [f"{name} {clean(str(value))}" for name, value in self.place.where.items()]
        words.append(self.place.kind)
        if self.place.word:
            words.append(f"with {clean(self.place.word)!r}")
        return Text(" › ".join(words))

    def draw_rows(self, table: DataTable[Text]) -> None:
        live, place = self.explored.live, self.place
        for title in ("share", "samples" if live else "misses", "cycles", place.kind[:-1]):
            table.add_column(Text(title))
        rows = [r for r in self.explored.rows(place.kind, place.where) if self.matches(r)]
        self.shown = sorted(rows, key=self.order)[:MOST] if place.order else rows[:MOST]
        for row in self.shown:
            count = row.sampled if live else row.misses
            cycles = "" if row.latency is None else f"{row.latency:,}"
            table.add_row(
                Text(f"{row.share:6.1%}", justify="right"),
                Text(f"{count or 0:,}", justify="right"),
                Text(cycles, justify="right"),
                Text(clean(self.called(row))),
            )

    def draw_source(self, table: DataTable[Text]) -> None:
        where = self.place.where
        source, costs = self.explored.source(where["file"], where["line"])
        for title in ("share", "samples" if self.explored.live else "misses", "line", "source"):
            table.add_column(Text(title))
        self.shown = []
        if not source.pieces:
            table.add_row(Text(""), Text(""), Text(""), Text("the file is not where it was"))
            return
        for piece in source.pieces:
            for number, text in enumerate(piece.lines, piece.first):
                row = costs.get(number)
                count = "" if row is None else f"{row.misses or row.sampled:,}"
                style = "bold" if number == where["line"] else ""
                table.add_row(
                    Text("" if row is None else f"{row.share:6.1%}", justify="right"),
                    Text(count, justify="right"),
                    Text(str(number), justify="right"),
                    Text(clean(text.expandtabs(4)), style=style),
                )
                if number == where["line"]:
                    self.place = replace(self.place, row=table.row_count - 1)

    def called(self, row: Row) -> str:
        if self.place.kind == "lines":
            file, line, function = row.key
            place = f"{PurePath(file).name}:{line}" if file and line else "?"
            return f"{place} {function}"
        return str(row.key[0])

    def matches(self, row: Row) -> bool:
        return self.place.word.lower() in self.called(row).lower()

    def order(self, row: Row) -> Any:
        count = row.sampled if self.explored.live else row.misses
        return (-(count or 0), -(row.latency or 0), self.called(row).lower())[self.place.order - 1]

    # What keys do

    def current(self) -> Row | None:
        number = self.query_one(DataTable).cursor_row
        return self.shown[number] if 0 <= number < len(self.shown) else None

    def go(self, place: Place) -> None:
        self.behind.append(replace(self.place, row=self.query_one(DataTable).cursor_row))
        self.place = place
        self.draw()

    def action_all(self, kind: str) -> None:
        self.go(Place(kind))

    def action_into(self) -> None:
        row = self.current()
        if row is None:
            return
        kind, where = self.place.kind, dict(self.place.where)
        if kind == "objects":
            where["object"] = row.key[0]
        elif kind == "functions":
            where["function"] = row.key[0]
        elif not row.key[0] or row.key[1] is None:
            self.notify("its line is not known", markup=False)
            return
        else:
            where = {"file": row.key[0], "line": row.key[1]}
        self.go(Place("lines" if kind == "objects" else NEXT[kind], where))

    def on_data_table_row_selected(self) -> None:
        self.action_into()

    def action_out(self) -> None:
        found = self.query_one("#filter", Input)
        if found.has_class("shown"):
            found.remove_class("shown")
            self.query_one(DataTable).focus()
        elif self.behind:
            self.place = self.behind.pop()
            self.draw()

    def action_sort(self) -> None:
        self.place = replace(self.place, order=(self.place.order + 1) % 4, row=0)
        self.draw()

    def action_filter(self) -> None:
        found = self.query_one("#filter", Input)
        found.add_class("shown")
        found.value = self.place.word
        found.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.has_class("shown"):
            self.place = replace(self.place, word=event.value, row=0)
            self.draw()

    def on_input_submitted(self) -> None:
        self.query_one("#filter", Input).remove_class("shown")
        self.query_one(DataTable).focus()

    def action_copy(self) -> None:
        row = self.current()
        if row is not None:
            self.copy_to_clipboard(self.called(row))
            self.notify(f"copied {clean(self.called(row))}", markup=False)
