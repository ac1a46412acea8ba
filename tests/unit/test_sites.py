# SPDX-License-Identifier: Apache-2.0
"""An allocation path is named by who asked for the memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stallscope.analyses.sites import forwards, site_names


def named(*frames: tuple[str, int], depth: int = 3, wrappers: tuple[str, ...] = ()) -> str:
    rows = [
        {"site": 7, "function": function, "file": "/src/a.c" if line else "", "line": line or None}
        for function, line in frames
    ]
    return site_names(pa.Table.from_pylist(rows), depth, wrappers)[7]


def test_the_innermost_functions_name_a_site_with_their_lines() -> None:
    assert named(("make", 3), ("build", 9), ("main", 20)) == (
        "make (a.c:3) < build (a.c:9) < main (a.c:20)"
    )


def test_functions_that_only_forward_are_left_out() -> None:
    assert named(("xmalloc", 1), ("make", 3), depth=1) == "make (a.c:3)"
    assert named(("get_memory", 1), ("make", 3), depth=1, wrappers=("get_memory",)) == (
        "make (a.c:3)"
    )


def test_what_starts_a_program_and_what_lies_behind_it_are_left_out() -> None:
    assert named(("main", 3), ("__libc_start_call_main", 58), ("_start", 0), ("?", 0)) == (
        "main (a.c:3)"
    )


def test_a_path_of_nothing_else_keeps_its_name() -> None:
    assert named(("_start", 0)) == "_start"
    assert named(("xmalloc", 0)) == "xmalloc"


@pytest.mark.parametrize(
    "name", ["xmalloc", "g_malloc0", "safe_realloc", "operator new(unsigned long)"]
)
def test_usual_names_of_forwarders_are_known(name: str) -> None:
    assert forwards(name, ())


@pytest.mark.parametrize("name", ["make_node", "main", "allocate_board", "malloc_stats_dump"])
def test_other_names_are_not(name: str) -> None:
    assert not forwards(name, ())
