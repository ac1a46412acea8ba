# SPDX-License-Identifier: Apache-2.0
"""Which cells of a sweep one task computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def group(documents: Mapping[int, dict[str, Any]], exact: bool) -> Iterator[tuple[bool, list[int]]]:
    """Tasks for one recording on these machines, by their numbers: whether all of a task come from
    one pass, and which they are."""
    for number in documents:
        yield False, [number]
