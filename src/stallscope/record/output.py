# SPDX-License-Identifier: Apache-2.0
"""The folder that a recording goes to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from stallscope import meta
from stallscope.errors import StallscopeError
from stallscope.record.writer import make_folder
from stallscope.recording import SUFFIX


def new_folder(given: str | Path | None, program: str, force: bool) -> Path:
    if given is None:
        stem = Path(program).name
        folder, number = Path(f"{stem}{SUFFIX}"), 2
        while folder.exists() and not force:
            folder, number = Path(f"{stem}-{number}{SUFFIX}"), number + 1
    else:
        folder = Path(given)
    try:
        taken = folder.exists() or folder.is_symlink()
    except OSError as error:
        raise StallscopeError(f"cannot make {folder}", error.strerror or "", status=125) from error
    if taken:
        _make_way(folder, force)
    make_folder(folder)
    return folder.absolute()


def _make_way(folder: Path, force: bool) -> None:
    """Only a recording is ever deleted, never some other folder that -f happened to name."""
    if not force:
        raise StallscopeError(
            f"{folder} exists already", now="give another name with -o, or overwrite it with -f"
        )
    is_folder = folder.is_dir() and not folder.is_symlink()
    if not is_folder or (any(folder.iterdir()) and not _is_recording(folder)):
        raise StallscopeError(f"{folder} is no recording, so -f does not overwrite it")
    shutil.rmtree(folder)


def _is_recording(folder: Path) -> bool:
    """Of any version: it says so in its meta.json."""
    try:
        facts = json.loads((folder / meta.NAME).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"format_version", "stallscope", "command"} <= facts.keys()
