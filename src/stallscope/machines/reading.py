# SPDX-License-Identifier: Apache-2.0
"""Machine files: text in, Machine out; an error names the file and the line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.machines.building import build
from stallscope.machines.fault import Fault
from stallscope.machines.lines import Path as KeyPath
from stallscope.machines.lines import lines
from stallscope.machines.model import Machine

MOST_BYTES = 1 << 20
_EXAMPLE = "stallscope machines default --toml shows a whole machine file"


def parse(text: str, path: str | Path, name: str | None = None) -> Machine:
    """The machine that a file describes. `path` is for messages, nothing is read from it."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(str(error), text, path) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets without end
        raise StallscopeError(f"{path} is no machine file", "it cannot be read", _EXAMPLE) from None
    try:
        return build(document, name or Path(path).stem)
    except Fault as fault:
        raise fault.error(_where(path, fault.path, lines(text, document))) from None


def read(path: Path) -> Machine:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise StallscopeError(
            f"the machine file {path} cannot be read", error.strerror or "", _EXAMPLE
        ) from error
    if len(data) > MOST_BYTES:
        raise StallscopeError(f"{path} is no machine file", "it is larger than 1 MiB", _EXAMPLE)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StallscopeError(
            f"{path}, line {line}: not UTF-8 text", f"byte {error.start} cannot be read", _EXAMPLE
        ) from None
    return parse(text, path)


def _syntax(message: str, text: str, path: str | Path) -> StallscopeError:
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    line, what = text.count("\n") + 1, message
    if found:
        what = message[: found.start()]
        line = int(found[1]) if found[1] else line
    # A bracket or quote that is never closed is noticed on the line after the last.
    line = min(line, max(1, len(text.splitlines())))
    return StallscopeError(f"{path}, line {line}: {what}", "this is not TOML", _EXAMPLE)


def _where(path: str | Path, key: KeyPath, found: dict[KeyPath, int]) -> str:
    """The key's own line, or that of the table which should have it."""
    if found:
        near = next((key[:n] for n in range(len(key), 0, -1) if key[:n] in found), None)
        return f"{path}, line {found[near]}" if near else str(path)
    if len(key) > 1 and isinstance(key[1], int):
        return f"{path}, in [[{key[0]}]] number {key[1] + 1}"
    return f"{path}, in [{key[0]}]" if len(key) > 1 else str(path)
