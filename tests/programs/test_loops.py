# SPDX-License-Identifier: Apache-2.0
"""Ten loops, against what a person computes from their source."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Made, Ran, Recorder

from stallscope import StallscopeError
from stallscope.analyses.loops import Loop, Suggestion
from stallscope.looping import loops

PIPELINED = "software pipelining"


@pytest.fixture(scope="module")
def made(program: Callable[..., Path], shared_record: Recorder) -> Made:
    return shared_record(program("ten_loops"), options=["--trace"])


@pytest.fixture(scope="module")
def found(made: Made) -> dict[str, list[Loop]]:
    by_function: dict[str, list[Loop]] = {}
    for row in loops(made.path).rows:
        if Path(row.file).name == "ten_loops.c":
            by_function.setdefault(row.function, []).append(row)
    return by_function


# entries, iterations, shortest, longest; stride of the array's access, in bytes
COMPUTED = {
    "up": (1, 1000, 1000, 1000, 8),
    "down": (1, 500, 500, 500, -8),
    "sparse": (1, 128, 128, 128, 128),
    "fields": (1, 200, 200, 200, 24),
    "short_loop": (5, 1 + 2 + 3 + 4 + 5, 1, 5, 8),
    "third": (1, 900, 900, 900, 24),
    "calling": (1, 50, 50, 50, None),
    "euclid": (1, 13, 13, 13, None),
}


@pytest.mark.parametrize("name", sorted(COMPUTED))
def test_trip_counts_and_strides_are_what_a_person_computes(
    name: str, found: dict[str, list[Loop]]
) -> None:
    entries, iterations, shortest, longest, stride = COMPUTED[name]
    (loop,) = found[name]
    assert (loop.entries, loop.iterations) == (entries, iterations)
    assert (loop.shortest, loop.longest) == (shortest, longest)
    if stride is not None:
        arrays = [one for one in loop.strides if one.stride == stride]
        assert arrays
        assert all(one.regular == 1.0 for one in arrays)


@pytest.mark.parametrize(("name", "stride"), [("rows", 8), ("columns", 512)])
def test_a_nest_has_an_inner_and_an_outer_loop(
    name: str, stride: int, found: dict[str, list[Loop]]
) -> None:
    outer, inner = sorted(found[name], key=lambda one: one.depth)
    assert (outer.entries, outer.iterations, outer.depth) == (1, 64, 0)
    assert (inner.entries, inner.iterations, inner.depth) == (64, 64 * 64, 1)
    assert inner.around == outer.number
    assert {(one.stride, one.regular) for one in inner.strides} == {(stride, 1.0)}
    assert inner.sequential == (1.0 if stride == 8 else 0.0)


def test_branches_are_counted_both_ways(found: dict[str, list[Loop]]) -> None:
    (loop,) = found["third"]
    ways = {tuple(sorted((one.taken, one.passed))): one.bias for one in loop.branches}
    assert ways[300, 600] == pytest.approx(2 / 3)
    assert (1, 899) in ways  # how it ends
    (up,) = found["up"]
    assert [(one.taken, one.passed) for one in up.branches] == [(999, 1)]


def test_calls_are_counted_and_their_code_left_out(found: dict[str, list[Loop]]) -> None:
    (loop,) = found["calling"]
    assert loop.calls == 50
    assert loop.instructions < 50 * 12
    assert not [one for one in loop.suggestions if one.optimisation == "unrolling"]


def test_suggestions_fit_the_loops(found: dict[str, list[Loop]]) -> None:
    (up,) = found["up"]
    unrolling = [one for one in up.suggestions if one.optimisation == "unrolling"]
    assert unrolling
    assert unrolling[0].gcc == "#pragma GCC unroll 4"
    assert unrolling[0].after < unrolling[0].before == up.instructions


def test_the_verb_and_its_bad_inputs(
    made: Made, stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = stallscope("loops", made.path, "--json", "--function", "up")
    document: dict[str, Any] = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.loops/1"
    assert [row["iterations"] for row in document["rows"]] == [1000]
    assert "ten_loops.c" in stallscope("loops", made.path).stdout
    ran = stallscope("loops", made.path, "--function", "nowhere")
    assert (ran.status, "no loop of a function nowhere ran" in ran.stderr) == (2, True)
    with pytest.raises(StallscopeError, match="there is no recording"):
        loops(tmp_path / "none")


def test_suggestions_followed_by_hand_do_what_they_predict(
    program: Callable[..., Path], shared_record: Recorder
) -> None:
    made = shared_record(program("followed"), options=["--trace"])
    found = {row.function: row for row in loops(made.path).rows if row.strides}

    def predicted(function: str, optimisation: str) -> Suggestion:
        return next(s for s in found[function].suggestions if s.optimisation == optimisation)

    unrolling = predicted("add", "unrolling")
    assert found["add_unrolled"].instructions == pytest.approx(unrolling.after, rel=0.02)
    tiling = predicted("columns", "tiling")
    assert found["columns_exchanged"].misses == pytest.approx(tiling.after, rel=0.05)
    conversion = predicted("odd", "if-conversion")
    assert found["odd_converted"].cycles == pytest.approx(conversion.after, rel=0.2)
    assert found["odd_converted"].stalls.get("branch_mispredict", 0) < 100
    pipelining = predicted("scale", PIPELINED)
    assert found["scale_pipelined"].cycles == pytest.approx(pipelining.after, rel=0.2)
    # Where the core itself overlaps iterations, nothing is to be gained.
    assert not [s for s in found["odd_converted"].suggestions if s.optimisation == PIPELINED]
