# SPDX-License-Identifier: Apache-2.0
"""Python programs as targets: memory of extension modules is named by the line of Python that asked
for it, by a library that is preloaded (runtime/python)."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

LIBRARY = "libstallscope_python.so"
_PYTHON = re.compile(r"^python3?(\.\d+)?$")


def is_python(executable: str) -> bool:
    return _PYTHON.match(Path(executable).resolve().name) is not None


def library() -> Path | None:
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is None or extension.origin is None:
        return None
    found = Path(extension.origin).parent / "runtime" / LIBRARY
    return found if found.exists() else None


def environment(before: Mapping[bytes, bytes], executable: str) -> dict[bytes, bytes]:
    """What a target is started with; others than Python, as it is. The library takes itself out of
    it again before the program looks."""
    found = library() if is_python(executable) else None
    if found is None:
        return dict(before)
    preloaded = [bytes(found), before.get(b"LD_PRELOAD", b"")]
    return {**before, b"LD_PRELOAD": b":".join(word for word in preloaded if word)}
