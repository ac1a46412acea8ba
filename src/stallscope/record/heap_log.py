# SPDX-License-Identifier: Apache-2.0
"""The allocation log of native runs: how a program is started with it, and where its logs are."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

from stallscope.errors import StallscopeError

LIBRARY = "libstallscope_heap.so"
FOLDER = "STALLSCOPE_HEAP_LOG"
_NAME = re.compile(r"(\d+)\.(\d+)")


def library() -> Path:
    """The preload library, which lies beside the compiled extension."""
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is not None and extension.origin is not None:
        found = Path(extension.origin).parent / "runtime" / LIBRARY
        if found.exists():
            return found
    raise StallscopeError(
        f"{LIBRARY} is missing", "it lies beside the compiled extension", "reinstall stallscope"
    )


def environment(folder: Path, before: Mapping[str, str]) -> dict[str, str]:
    """What a program is started with so that it and its children leave their logs in `folder`, a
    private folder that exists. What else is preloaded stays, behind the log."""
    preloaded = [str(library()), before.get("LD_PRELOAD", "")]
    return {
        **before,
        "LD_PRELOAD": ":".join(word for word in preloaded if word),
        FOLDER: str(folder.resolve()),
    }


def logs(folder: Path) -> dict[tuple[int, int], Path]:
    """Every log in a folder, by process and the number of its image; oldest image first."""
    found = {
        (int(name[1]), int(name[2])): path
        for path in folder.iterdir()
        if (name := _NAME.fullmatch(path.name))
    }
    return dict(sorted(found.items()))
