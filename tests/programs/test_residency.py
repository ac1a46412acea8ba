# SPDX-License-Identifier: Apache-2.0
"""How much of each object stays in the caches, on a program whose answer is known: it looks up
random places of a table of 6,250 lines, of which L1D holds 512 and L2 all."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import STALLSCOPE, Made, Recorder, run

Build = Callable[..., Path]
LINES = 6250
L1D, L2 = 512, 16384  # lines of machine default


def evictions(made: Made, *words: object) -> Any:
    ran = run(STALLSCOPE, "evictions", made.path, "--machine", "default", "--json", *words)
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def kept(shared_record: Recorder, program: Build) -> Made:
    return shared_record(program("howto_marks"), options=["--trace"])


@pytest.fixture(scope="module")
def live(shared_record: Recorder, program: Build) -> Made:
    options = ["--machine", "default", "--probe", "evictions"]
    return shared_record(program("howto_marks"), options=options)


def test_a_table_fills_the_small_cache_and_fits_the_large_one(kept: Made) -> None:
    rows = evictions(kept, "--region", "total")["objects"]
    table = {row["level"]: row for row in rows if row["object"] == "prices"}
    small, large = table["L1D"], table["L2"]
    assert 0.97 * L1D < small["resident_lines"] <= L1D
    assert small["resident_share"] == pytest.approx(small["resident_bytes"] / 400_000)
    assert small["resident_share"] == pytest.approx(small["resident_lines"] / LINES, rel=0.01)
    assert small["self_share"] > 0.99  # nothing else is used
    assert large["resident_share"] > 0.9
    assert large["evictions"] == 0
    assert large["self_share"] is None


def test_no_cache_holds_more_than_it_can(kept: Made) -> None:
    taken: collections.Counter[str] = collections.Counter()
    for row in evictions(kept)["objects"]:
        taken[row["level"]] += row["resident_lines"]
        assert row["resident_share"] is None or 0 <= row["resident_share"] <= 1
    assert 0 < taken["L1D"] <= L1D
    assert taken["L1D"] < taken["L2"] <= L2
    assert evictions(kept, "--level", "L2")["objects"][0]["level"] == "L2"


def test_a_machine_beside_the_program_finds_what_a_replay_finds(kept: Made, live: Made) -> None:
    """A replay takes variables, mappings and stacks for there from the beginning to the end."""
    found = [
        [row for row in evictions(made)["objects"] if row["kind"] in ("heap", "named", "global")]
        for made in (kept, live)
    ]
    assert len(found[0]) > 20
    for rows in found:
        for row in rows:
            if row["kind"] == "global":
                del row["resident_share"]
    assert found[0] == found[1]
