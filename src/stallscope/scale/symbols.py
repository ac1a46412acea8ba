# SPDX-License-Identifier: Apache-2.0
"""Files with symbols in a fleet, FLEET/symbols/BUILDID: hosts often have programs without any, and
then only the address is known that a program waited at. A build is the same wherever it runs, so
one file names what all hosts recorded of it, whenever they did."""

from __future__ import annotations

import bisect
import functools
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import _engine
from stallscope.errors import StallscopeError

FOLDER = "symbols"
_BUILD = re.compile(r"[0-9a-f]{8,128}")
OPEN = 32  # files that a worker keeps open


@dataclass(frozen=True)
class SymbolsRow:
    build: str
    variables: int
    bytes: int
    file: str  # that was added; empty for those that were there


@dataclass(frozen=True)
class FleetSymbols:
    fleet: str
    added: int
    renamed: int  # recordings that were in the fleet and have other names now
    rows: list[SymbolsRow]


def keep(files: Sequence[str | Path], fleet: Path) -> dict[str, str]:
    """Adds files with symbols, each under its build id: the files by these ids."""
    folder = fleet / FOLDER
    checked = [(Path(path), _build_of(Path(path))) for path in files]
    try:
        if checked:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, build in checked:
            _copy(path, folder / build)
    except OSError as error:
        raise StallscopeError(
            f"symbols cannot be kept in {folder}", error.strerror or ""
        ) from error
    return {build: str(path) for path, build in checked}


def kept(fleet: Path, origins: Mapping[str, str]) -> list[SymbolsRow]:
    """All that the fleet has."""
    folder = fleet / FOLDER
    names = folder.iterdir() if folder.is_dir() else ()
    return [
        SymbolsRow(
            path.name,
            len(_opened(str(path))[0]),
            path.stat().st_size,
            origins.get(path.name, ""),
        )
        for path in sorted(p for p in names if _BUILD.fullmatch(p.name))
    ]


def _build_of(path: Path) -> str:
    if not path.is_file():
        raise StallscopeError(f"there is no file {path}")
    try:
        found = _engine.Symbols(str(path))
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    build = str(found.build_id)
    if not _BUILD.fullmatch(build):
        raise StallscopeError(
            f"{path.name} has no build id", now="link it with -Wl,--build-id, and record it again"
        )
    if not found.has_symtab and not found.has_dwarf:
        raise StallscopeError(
            f"{path.name} has no symbols",
            "it is stripped",
            "the file as it was linked, or its .debug",
        )
    return build


def _copy(path: Path, to: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=".new-", dir=to.parent)
    os.close(handle)
    try:
        shutil.copyfile(path, name)
        Path(name).replace(to)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


Variables = tuple[tuple[int, int, str], ...]  # address, end, name; by address


@functools.lru_cache(OPEN)
def _opened(path: str) -> tuple[Variables, Any]:
    found = _engine.Symbols(path)
    rows = sorted((row[1], row[1] + row[2], str(row[0])) for row in found.variables() if row[2])
    return tuple(rows), found


class Names:
    """What lies where in the files that the fleet has."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _of(self, build: str) -> tuple[Variables, Any] | None:
        path = self._folder / build
        if not _BUILD.fullmatch(build) or not path.exists():
            return None
        try:
            return _opened(str(path))
        except _engine.EngineError:
            return None  # damaged: as if it were not there

    def variable(self, build: str, at: int) -> str | None:
        found = self._of(build)
        if found is None:
            return None
        number = bisect.bisect_right(found[0], at, key=lambda one: one[0]) - 1
        return found[0][number][2] if number >= 0 and at < found[0][number][1] else None

    def function(self, build: str, at: int) -> str | None:
        found = self._of(build)
        frames = found[1].frames(at) if found else None
        return str(frames[-1][0]) if frames else None
