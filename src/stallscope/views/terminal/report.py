# SPDX-License-Identifier: Apache-2.0
"""What a report begins with, and what is worked on while it is made."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.text import clean


@contextlib.contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Names the part that is made, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda part: None
        return
    console = Console(stderr=True)
    with console.status(Text("report")) as status:
        yield lambda part: status.update(Text(f"report: {part}"))


def sentence(pieces: list[Mapping[str, Any]]) -> Text:
    return Text("".join(clean(piece["text"]) for piece in pieces))


def show_report(found: Mapping[str, Any], path: Path, size: int) -> None:
    """The verdict, what was left out, and where the page is."""
    console = Console(highlight=False, soft_wrap=True)
    verdict = found["verdict"]
    headline = sentence(verdict["headline"])
    headline.stylize("bold")
    console.print(headline)
    for pieces in verdict["sentences"]:
        console.print(sentence(pieces))
    for words in found["left_out"]:
        console.print(Text(f"left out: {words}", style="dim"))
    console.print(Text(f"The report is {clean(str(path.absolute()))} ({size / 1e6:.1f} MB)"))
