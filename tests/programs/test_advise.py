# SPDX-License-Identifier: Apache-2.0
"""What to change: what is advised is what a replay confirms, and what the changed program shows.
`python -m benchmarks advise` has all pairs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope as api
from conftest import Made, Ran, Recorder
from stallscope import _engine, clustering, pipelines, tables
from stallscope.analyses import tiling
from stallscope.errors import StallscopeError
from stallscope.recording import STREAM
from stallscope.slicing.tables import steps_of
from stallscope.viewing import page_view

PAIRS = Path(__file__).resolve().parents[2] / "workloads" / "pairs"
ROW = [
    *("rank", "kind", "object", "where", "evidence"),
    *("predicted_cycles_saved", "predicted_share", "how"),
]


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, shared_record: Recorder
) -> Callable[[str, str], Made]:
    folder = tmp_path_factory.mktemp("pairs")
    known: dict[tuple[str, str], Made] = {}

    def made(name: str, form: str) -> Made:
        if (name, form) not in known:
            path = folder / name
            words = ["gcc", "-O2", "-g", PAIRS / f"{name}.c", "-o", path, "-pthread"]
            subprocess.run(words, check=True)
            known[name, form] = shared_record(path, form, options=["--trace"])
        return known[name, form]

    return made


def cycles(made: Made) -> int:
    return pipelines.core_view(made.path).runs[0].totals["cycles"]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("split_array", "split fields", "number, balance of struct account"),
        ("reorder_nodes", "reorder fields", "declare owner, score of struct user"),
        ("near_arrays", "near allocation", "stallscope layout -o near.policy"),
        ("prefetch_index", "prefetch", "__builtin_prefetch(&table[index[(i + 64)]])"),
        ("tile_turn", "tile loops", "the inner loop into tiles of 8 turns"),
    ],
)
def test_a_change_is_advised_and_the_changed_program_saves_as_much(
    pair: Callable[[str, str], Made], name: str, kind: str, words: str
) -> None:
    before, after = pair(name, "before"), pair(name, "after")
    found = api.advise(before.path, kinds=[kind])
    [row] = found.rows
    assert row.kind == kind
    assert words in row.how
    assert name in row.object
    saved = cycles(before) - cycles(after)
    assert found.cycles == cycles(before)
    assert 0.8 * saved <= row.predicted_cycles_saved <= 1.2 * saved


@pytest.fixture(scope="module")
def tilings(program: Callable[..., Path], shared_record: Recorder) -> Made:
    return shared_record(program("tilings"), options=["--trace"])


def nest_of(made: Made, function: str, depth: int) -> list[Any]:
    found = _engine.loops(str(made.path / STREAM))["tables"]["loop"]
    loops = tables.to_arrow("loop", found).to_pylist()
    own = {row["address"] for row in made.rows("operation") if row["function"] == function}
    [inner] = [
        one
        for one in tiling.innermost(loops)
        if any(one["header"] <= address <= one["end"] for address in own)
    ]
    [nest] = [one for one in tiling.nests(loops, inner) if len(one) == depth]
    return nest


def in_tiles(made: Made, nest: list[Any], size: int) -> dict[str, int]:
    core = pipelines.core_view(made.path)
    probe = pipelines.CoreProbe(tiled=tuple(map(tiling.range_of, nest)), tile=size)
    return pipelines.run(api.open(made.path), core.machine, "default", probe).totals


@pytest.mark.parametrize(("function", "depth"), [("turns", 2), ("multiplies", 3)])
def test_a_nest_in_tiles_does_all_that_it_did(tilings: Made, function: str, depth: int) -> None:
    nest = nest_of(tilings, function, depth)
    plain = pipelines.core_view(tilings.path).runs[0].totals
    tiled = in_tiles(tilings, nest, 8)
    for event in ("instructions", "loads", "stores"):
        assert tiled[event] == plain[event]
    assert tiled["cycles"] != plain["cycles"]
    # One tile that holds everything is the nest as it was.
    assert in_tiles(tilings, nest, 1000)["cycles"] == plain["cycles"]
    assert tiling.carried(steps(tilings), nest) == ""


def steps(made: Made) -> dict[int, Any]:
    return steps_of(made.rows("block"), made.rows("operation"))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("leans", "accesses to the same bytes would change places"),
        ("half", "do not always run equally often"),
        ("jumps", "not evenly spaced"),
    ],
)
def test_a_nest_whose_turns_cannot_change_places_is_refused(
    tilings: Made, function: str, why: str
) -> None:
    with pytest.raises(StallscopeError, match="cannot be tiled") as refused:
        in_tiles(tilings, nest_of(tilings, function, 2), 8)
    assert why in str(refused.value)


def test_what_registers_carry_around_a_nest_keeps_its_turns_in_place(tilings: Made) -> None:
    nest = nest_of(tilings, "goes_on", 2)
    assert "goes from turn to turn" in tiling.carried(steps(tilings), nest)
    # What the innermost carries, a sum, may stay.
    assert tiling.carried(steps(tilings), nest_of(tilings, "multiplies", 2)) == ""


def test_a_table_on_many_pages_is_to_be_put_on_huge_ones(pair: Callable[[str, str], Made]) -> None:
    before, after = pair("huge_table", "before"), pair("huge_table", "after")
    [row] = api.advise(before.path, kinds=["huge pages"]).rows
    assert row.object.startswith("make_table (huge_table.c:")
    assert "aligned_alloc(2 MiB)" in row.how
    core = pipelines.core_view(after.path)
    tlbs = [tlb.name.lower() for tlb in core.machine.tlbs if tlb.holds != "instructions"]
    machine = core.machine.with_values({f"{name}.page": "2M" for name in tlbs})
    changed = pipelines.run(api.open(after.path), machine, "huge", pipelines.CoreProbe())
    saved = cycles(before) - changed.totals["cycles"]
    assert 0.8 * saved <= row.predicted_cycles_saved <= 1.2 * saved


def test_threads_that_share_are_to_run_on_one_chip(pair: Callable[[str, str], Made]) -> None:
    before, after = pair("place_threads", "before"), pair("place_threads", "after")
    found = api.advise(before.path, kinds=["place threads"])
    [row] = found.rows
    groups = [range(2, 6), range(6, 10)]
    for group in groups:
        assert " ".join(f"place_threads#{number}" for number in group) in row.how
    was = clustering.open_threads(before.path).base.cycles
    pinned = ",".join(f"place_threads#{number + 2}={number}" for number in range(8))
    saved = was - api.place(after.path, placement=pinned).cycles_placed
    assert 0.8 * saved <= row.predicted_share * was <= 1.2 * saved


def test_falsely_shared_counters_are_to_be_padded(pair: Callable[[str, str], Made]) -> None:
    found = api.advise(pair("pad_counters", "before").path, kinds=["pad shared fields"])
    assert [row.object for row in found.rows] == ["beside"]
    assert "_Alignas(128)" in found.rows[0].how


PAGES = r"[\d,]+(?= pages that| faults more)"
MUCH = """
#include <stdlib.h>
int main(void) {
  enum { MANY = 32 << 20, FEW = 256 << 10, PAGE = 4096 };
  volatile char* block = malloc(MANY);
  for (int i = 0; i < MANY; i += PAGE) block[i] = 1;
  for (int pass = 0; pass < 50; pass++)
    for (int i = 0; i < FEW; i += PAGE) block[i] += 1;
}
"""


def test_memory_that_is_not_needed_any_more_can_be_limited(
    tmp_path: Path, record: Recorder
) -> None:
    (tmp_path / "much.c").write_text(MUCH)
    subprocess.run(["gcc", "-g", tmp_path / "much.c", "-o", tmp_path / "much"], check=True)
    made = record(tmp_path / "much", options=["--trace"])
    [row] = api.advise(made.path, kinds=["memory limit"]).rows
    assert row.predicted_cycles_saved == 0
    limit = int(row.how.rpartition("=")[2])
    assert 256 << 10 <= limit <= 8 << 20
    # The curve against a memory of that size, page by page.
    touched, more = (int(re.sub(",", "", text)) for text in re.findall(PAGES, row.evidence))
    memory = api.page_replacement(page_view(api.open(made.path)), limit // 4096, policies=["lru"])
    assert memory.rows[0].misses == touched + more


def test_rows_have_exactly_what_programs_rely_on(
    pair: Callable[[str, str], Made], stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("advise", pair("split_array", "before").path, "--json")
    assert ran.status == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.advise/1"
    assert all(list(row) == ROW for row in document["rows"])
    assert [row["rank"] for row in document["rows"]] == list(range(1, len(document["rows"]) + 1))
    saved = [row["predicted_cycles_saved"] for row in document["rows"]]
    assert saved == sorted(saved, reverse=True)
    least = document["cycles"] // 100
    assert all(number >= least for number in saved)


def test_nothing_is_advised_for_what_is_well_laid_out(pair: Callable[[str, str], Made]) -> None:
    found = api.advise(pair("split_array", "after").path, kinds=["split fields", "pack blocks"])
    assert found.rows == []


def test_what_cannot_be_advised_gets_one_sentence(
    pair: Callable[[str, str], Made], record: Recorder
) -> None:
    with pytest.raises(StallscopeError, match="there is no such kind"):
        api.advise(pair("split_array", "before").path, kinds=["split field"])
    made = record("/bin/true", options=["--machine", "default"])
    with pytest.raises(StallscopeError, match="has no trace"):
        api.advise(made.path)
