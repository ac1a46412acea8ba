# SPDX-License-Identifier: Apache-2.0
"""A screen that shows what a running process waits for, and refreshes."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from stallscope.views.terminal import live as tables
from stallscope.views.terminal.reuse import objects_table, pairs_table
from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.live import LiveObjects, LivePlaces
    from stallscope.analyses.reuse import Reuse

KEYS = "o objects · l lines · f functions · t threads · s sort · space · w write · q"
KEYS_WATCHING = "o objects · l lines · f functions · t threads · r reuse · s sort · w write · q"
SORTS = {"waiting": "share", "time": "time_share", "name": ""}
VIEWS = {"o": "objects", "l": "lines", "f": "functions", "t": "threads", "r": "reuse"}
LINES_AROUND = 8  # headline, keys, words and empty lines


@dataclass(frozen=True)
class Shown:
    """What the screen is set to."""

    view: str = "objects"
    sort: str = "waiting"
    frozen: bool = False
    words: str = ""  # that it says below


@dataclass(frozen=True)
class Answers:
    """What there is to show now."""

    objects: LiveObjects
    lines: LivePlaces
    functions: LivePlaces
    reuse: Reuse | None = None  # None: nothing is watched


def press(shown: Shown, key: str) -> Shown:
    """What a key makes of it; writing and leaving are not its business."""
    if key in VIEWS:
        return replace(shown, view=VIEWS[key], words="")
    if key == " ":
        return replace(shown, frozen=not shown.frozen, words="")
    if key == "s":
        order = list(SORTS)
        return replace(shown, sort=order[(order.index(shown.sort) + 1) % len(order)], words="")
    return shown


def picture(title: str, answers: Answers, shown: Shown, height: int) -> RenderableType:
    rows = max(3, height - LINES_AROUND)
    state = "  [frozen]" if shown.frozen else ""
    order = f", by {shown.sort}" if shown.view in ("lines", "functions") else ""
    keys = KEYS if answers.reuse is None else KEYS_WATCHING
    return Group(
        Text(f"{clean(title)}: {shown.view}{order}{state}", style="bold", no_wrap=True),
        tables.headline(answers.objects),
        Text(),
        _table(answers, shown, rows),
        tables.footline(answers.objects),
        Text(clean(shown.words) or keys, style="dim"),
    )


def _table(answers: Answers, shown: Shown, rows: int) -> RenderableType:
    if shown.view == "objects":
        return tables.objects_table(answers.objects, rows)
    if shown.view == "reuse":
        return _reuse(answers.reuse, rows)
    if shown.view == "threads":
        return tables.threads_table(answers.objects.threads, rows)
    places = answers.lines if shown.view == "lines" else answers.functions
    field = SORTS[shown.sort]
    ordered = (
        sorted(places.rows, key=lambda row: (row.function, row.line or 0))
        if not field
        else sorted(places.rows, key=lambda row: -float(getattr(row, field)))
    )
    return tables.places_table(replace(places, rows=ordered), rows)


def _reuse(reuse: Reuse | None, rows: int) -> RenderableType:
    """Objects, and below them the threads that touch the same."""
    if reuse is None:
        return Text("start with --watch to see how soon data is touched again")
    pairs = min(len(reuse.pairs), rows // 3)
    parts: list[RenderableType] = [objects_table(reuse, max(1, rows - pairs - 3))]
    if pairs:
        parts += [Text(), pairs_table(reuse, pairs)]
    return Group(*parts)


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """The terminal gives each key at once and shows none; as before at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _key(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


def run(
    title: str,
    poll: Callable[[], bool],
    answer: Callable[[], Answers],
    save: Callable[[], str],
    interval: float,
    console: Console,
) -> None:
    """Until q, Ctrl-C, or the process has ended, and then the last state stays to be read.

    `poll` is called often and says whether the process still runs; `answer` once an interval;
    `save` writes a recording and gives its name."""
    shown = Shown()
    with _single_keys(), Live(console=console, screen=True, auto_refresh=False) as screen:
        answers, runs = answer(), True
        while True:
            screen.update(picture(title, answers, shown, console.size.height), refresh=True)
            key = _wait(poll if runs else _ended, interval)
            if key in ("q", "\x03", "\x04"):
                return
            if key == "w":
                shown = replace(shown, words=f"written: {save()}")
            shown = press(shown, key)
            if runs and not poll():
                runs = False
                shown = replace(shown, words="the process has ended; w writes, q quits")
            if runs and not shown.frozen:
                answers = answer()


def _ended() -> bool:
    return True


def _wait(poll: Callable[[], bool], interval: float) -> str:
    """A key, or nothing when the interval is over or the process has ended."""
    left = interval
    while left > 0:
        step = min(0.05, left)
        try:
            if key := _key(step):
                return key
        except KeyboardInterrupt:
            return "q"
        left -= step
        if not poll():
            return ""
    return ""
