# SPDX-License-Identifier: Apache-2.0
"""Names for allocation paths: who asked for the memory, not who forwarded the request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

DEPTH = 3
# Functions that only forward to an allocator, by the names that people give them.
_FORWARDS = re.compile(
    r"^(_*(x|g|my|safe|s|e|must|checked|try|mem|util|zz?|je|tc|rpl|k|q|p?emalloc|do)_?)?"
    r"(malloc|calloc|realloc|reallocarray|memalign|strdup|strndup|alloc|zalloc|xalloc|new)"
    r"(_or_die|_or_exit|_array|_zero|0|_n|_internal|_aligned)?$"
    r"|^operator new|^std::.*(allocator|allocate|__new)|^__gnu_cxx::new_allocator"
)


# What runs a program's first function: says nothing about who asked for memory.
_STARTS = re.compile(r"^(__libc_start_.*|_start|start_thread|__?clone3?|_dl_start_user)$")


def forwards(function: str, wrappers: Iterable[str]) -> bool:
    return function in wrappers or _FORWARDS.match(function) is not None


def site_names(
    sites: pa.Table, depth: int = DEPTH, wrappers: Sequence[str] = ()
) -> Mapping[int, str]:
    """A name for each site: its innermost functions with their lines, callers to the right."""
    frames: dict[int, list[dict[str, object]]] = {}
    for row in sites.to_pylist():
        frames.setdefault(row["site"], []).append(row)
    return {site: site_name(rows, depth, wrappers) for site, rows in frames.items()}


def site_name(
    rows: list[dict[str, object]], depth: int = DEPTH, wrappers: Sequence[str] = ()
) -> str:
    """Of one path, innermost first."""
    started = (i for i, row in enumerate(rows) if _STARTS.match(str(row["function"])))
    rows = rows[: next(started, None)] or rows
    start = 0
    while start + 1 < len(rows) and forwards(str(rows[start]["function"]), wrappers):
        start += 1
    return " < ".join(_frame(row) for row in rows[start : start + depth])


def _frame(row: dict[str, object]) -> str:
    if not row["line"]:
        return str(row["function"])
    return f"{row['function']} ({PurePath(str(row['file'])).name}:{row['line']})"
