# SPDX-License-Identifier: Apache-2.0
"""Pictures of results: `plot(result, "FILE.png")`, also .svg and .html.

A file of this folder draws one kind of result: it names the result's class in DRAWS, and its
`picture(result, most)` says what is to be seen. How that becomes a file is the business of `media`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stallscope.errors import StallscopeError
from stallscope.views.plots.picture import Picture

# How each kind of file is made, and what that needs besides Stallscope.
MEDIA = {
    ".png": ("stallscope.views.plots.media.static", "matplotlib"),
    ".svg": ("stallscope.views.plots.media.static", "matplotlib"),
    ".html": ("stallscope.views.plots.media.page", None),
}


def plot(result: Any, path: str | Path, limit: int | None = None) -> Path:
    """Draws `result` into a file whose suffix says how. `limit` rows, the rest added up; 0: all
    that a picture has room for."""
    file = check(path)
    draw = importlib.import_module(MEDIA[file.suffix.lower()][0]).draw
    data = draw(picture_of(result, limit), file.suffix.lower())
    try:
        file.write_bytes(data)
    except OSError as error:
        raise StallscopeError(f"cannot write {file}", error.strerror or "") from error
    return file


def picture_of(result: Any, limit: int | None = None) -> Picture:
    """What there is to see in a result, before it becomes a file."""
    name = type(result).__name__
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            continue
        found = importlib.import_module(f"{__name__}.{module.name}")
        if getattr(found, "DRAWS", None) == name:
            draw: Callable[[Any, int | None], Picture] = found.picture
            return draw(result, limit)
    raise StallscopeError(f"there is no picture of {name}")


def check(path: str | Path) -> Path:
    """The path, if a picture can be put there: it is better to know before a long replay."""
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in MEDIA:
        raise StallscopeError(
            f"--plot {file}: the name does not say which kind of picture",
            f"it must end in {', '.join(MEDIA)}",
        )
    folder = file.parent
    if not folder.is_dir():
        raise StallscopeError(f"cannot write {file}", f"there is no folder {folder}")
    if file.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise StallscopeError(f"cannot write {file}", "it is a folder or not ours to write")
    needed = MEDIA[suffix][1]
    if needed is not None and importlib.util.find_spec(needed) is None:
        raise StallscopeError(
            f"cannot draw {file}",
            f"{needed} is not installed",
            f"pip install {needed}, or --plot {file.with_suffix('.html')}, which does without",
        )
    return file
