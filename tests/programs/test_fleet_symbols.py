# SPDX-License-Identifier: Apache-2.0
"""A program without symbols, named in a fleet by the file of the same build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran

from stallscope import StallscopeError, _engine
from stallscope.scale import fleet, fleet_folder
from stallscope.scale.fleet_rows import FleetRow
from stallscope.scale.nameless import Place

PASSES = 12_000  # some hundred milliseconds


@pytest.fixture(scope="module")
def stripped(
    program: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The file as it was linked, and what a host has."""
    whole = program("passes", extra=("-Wl,--build-id",))
    bare = tmp_path_factory.mktemp("host") / "passes"
    shutil.copy(whole, bare)
    subprocess.run(["strip", bare], check=True)
    return whole, bare


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel samples for root only here")
def test_a_host_without_symbols_is_named_by_the_fleet(
    stripped: tuple[Path, Path], stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    whole, bare = stripped
    for number in range(2):
        made = tmp_path / f"host{number}" / "one.stallscope"
        made.parent.mkdir()
        ran = stallscope("record", "-q", "--source", "clock", "-o", made, "--", bare, PASSES)
        assert ran.status == 0, ran.stderr
    later, named = tmp_path / "later", tmp_path / "named"
    fleet.ingest([tmp_path / "host0", tmp_path / "host1"], later)
    assert "area" not in {row.object for row in fleet.objects("passes", later).rows}
    ran = stallscope("fleet", "symbols", whole, "--fleet", named, "--json")
    assert ran.status == 0, ran.stderr
    (kept,) = json.loads(ran.stdout)["rows"]
    assert kept["variables"] > 0
    assert fleet.ingest([tmp_path / "host0", tmp_path / "host1"], named).added == 2
    (build,) = fleet.builds(named).rows
    assert build.build == kept["build"]
    rows = {row.object: row for row in fleet.objects("passes", named).rows}
    assert rows["area"].kind == "global"
    others = sum(row.samples for row in rows.values() if row.kind and row.object != "area")
    assert others < 0.2 * rows["area"].samples
    # Adding it again changes nothing; the list says what is there.
    again = stallscope("fleet", "symbols", whole, "--fleet", named)
    assert "symbols of 1 build " in again.stdout
    assert "were named" not in again.stdout
    # What was ingested before has the same names as what came later.
    assert fleet.symbols([whole], later).renamed == 2
    assert fleet.objects("passes", later).rows == fleet.objects("passes", named).rows
    assert fleet.top(later).rows == fleet.top(named).rows
    assert fleet.symbols([whole], later).renamed == 0
    assert fleet.ingest([tmp_path / "host0"], later).known == 1


def test_variables_and_allocation_paths_are_named_after_the_ingest_and_keep_their_sums(
    stripped: tuple[Path, Path], tmp_path: Path
) -> None:
    whole, _ = stripped
    names = subprocess.run(["nm", whole], check=True, capture_output=True, text=True).stdout
    at = {
        line.split()[-1]: int(line.split()[0], 16) for line in names.splitlines() if line[0] > " "
    }
    build = str(_engine.Symbols(str(whole)).build_id)
    variable = [Place(build, at["area"] + 16, 30, "", ""), Place("beef0000", 99, 5, "", "")]
    path = [Place(build, at["main"] + 4, 0, "passes+0x1", ""), Place("", 0, 0, "run", "loop.c")]
    rows = [
        FleetRow(
            "2026-11-16", "passes", build, "one", "host", "clock", 2.0, name, kind, n, n, 90, of
        )
        for name, kind, n, of in (
            (None, "", 80, []),
            ("[mapping]", "mapping", 50, variable),
            ("passes+0x1 < run (loop.c)", "heap", 30, path),
        )
    ]
    fleet_folder.write(tmp_path, rows)
    before = fleet.top(tmp_path).rows
    assert fleet.symbols([whole], tmp_path).renamed == 1
    found = {row.object: row.samples for row in fleet.objects("passes", tmp_path).rows}
    named = {"<all memory>": 80, "area": 30, "main < run (loop.c)": 30, "[mapping]": 20}
    assert found == named
    assert fleet.top(tmp_path).rows == before


def test_files_that_name_nothing_get_their_sentence(
    stripped: tuple[Path, Path], stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    _, bare = stripped
    (tmp_path / "text").write_text("no program")
    for file, sentence in ((bare, "has no symbols"), (tmp_path / "none", "there is no file")):
        ran = stallscope("fleet", "symbols", file, "--fleet", tmp_path / "fleet")
        assert (ran.status, sentence in ran.stderr) == (2, True), ran.stderr
    assert stallscope("fleet", "symbols", tmp_path / "text").status == 2
    with pytest.raises(StallscopeError):
        fleet.symbols([tmp_path / "text"], tmp_path / "fleet")
    assert not (tmp_path / "fleet").exists()
