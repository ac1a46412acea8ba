# SPDX-License-Identifier: Apache-2.0
"""A page: words, tables and pictures in Markdown, and the same numbers as JSON beside it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

Row = Sequence[Any]
WIDTH = 110


class Page:
    """Parts appear in the order in which they are added."""

    def __init__(self, folder: Path, name: str, title: str) -> None:
        self.folder, self.name, self.title = folder, name, title
        self._parts = [f"# {title}"]
        self._numbers: dict[str, Any] = {}

    def heading(self, text: str) -> None:
        self._parts.append(f"## {text}")

    def text(self, *paragraphs: str) -> None:
        self._parts.extend(wrapped(paragraph) for paragraph in paragraphs)

    def points(self, *points: str) -> None:
        self._parts.append("\n".join(wrapped(point, "- ") for point in points))

    def table(self, name: str, headings: Sequence[str], rows: Sequence[Row]) -> None:
        """`name` is the table's key in the JSON document; cells there are numbers, not text."""
        lines = [_line(headings), _line(["---"] * len(headings))]
        lines += [_line([shown(cell) for cell in row]) for row in rows]
        self._parts.append("\n".join(lines))
        self.number(
            name,
            [dict(zip(headings, [plain(cell) for cell in row], strict=True)) for row in rows],
        )

    def number(self, name: str, value: Any) -> None:
        """In the JSON document only."""
        if name in self._numbers:
            raise ValueError(f"page {self.name}: two parts are called {name}")
        self._numbers[name] = value

    def picture_file(self, name: str) -> Path:
        """Where a picture is to be put; also shows it here."""
        file = f"{self.name}-{name}.png"
        self._parts.append(f"![{name.replace('-', ' ')}]({file})")
        return self.folder / file

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        text = "\n\n".join(self._parts) + "\n"
        (self.folder / f"{self.name}.md").write_text(text, encoding="utf-8")
        document = {"schema": f"stallscope.reproduction.{self.name}/1", **self._numbers}
        text = json.dumps(document, indent=1, default=_encode) + "\n"
        (self.folder / f"{self.name}.json").write_text(text, encoding="utf-8")


class Shown:
    """A number in a cell, and how people read it."""

    def __init__(self, value: float | int | None, text: str) -> None:
        self.value, self.text = value, text


def percent(value: float | None, digits: int = 1) -> Shown:
    return Shown(value, "" if value is None else f"{value:.{digits}%}")


def change(value: float) -> Shown:
    """Of a ratio: 0.8 is 20% less."""
    return Shown(value, f"{value - 1:+.0%}".replace("-", "−"))


def points(value: float) -> Shown:
    """A difference of shares."""
    return Shown(value, f"{100 * value:+.1f}".replace("-", "−"))


def count(value: int) -> Shown:
    return Shown(value, f"{value:,}")


def decimal(value: float, digits: int = 2) -> Shown:
    return Shown(value, f"{value:.{digits}f}")


def shown(cell: Any) -> str:
    return cell.text if isinstance(cell, Shown) else str(cell)


def plain(cell: Any) -> Any:
    return cell.value if isinstance(cell, Shown) else cell


def code(text: str) -> str:
    return f"`{text}`"


def wrapped(text: str, first: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _encode(value: Any) -> Any:
    if isinstance(value, Shown):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} is no number")
