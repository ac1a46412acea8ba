# SPDX-License-Identifier: Apache-2.0
"""docs/reproduction/ is whole: every page that the command makes, with its numbers; and these
keep what sampling promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.reproduce import index
from benchmarks.reproduce.__main__ import pages
from benchmarks.reproduce.page import Page, change, count, percent

FOLDER = Path(__file__).resolve().parents[2] / "docs/reproduction"


def numbers(page: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{page}.json").read_text())
    return document


def test_every_page_is_there_and_in_the_index() -> None:
    assert list(pages()) == list(index.ORDER) == list(index.ABOUT)
    listed = (FOLDER / "README.md").read_text()
    for name in index.ORDER:
        assert f"]({name}.md)" in listed
        assert numbers(name)["schema"] == f"stallscope.reproduction.{name}/1"


@pytest.mark.parametrize("table", ["table_1", "table_11"])
def test_sampled_shares_of_large_objects_are_within_a_point_and_a_half(table: str) -> None:
    rows = [row for row in numbers("shares")[table] if row["exact"] >= 0.1]
    assert len(rows) >= 10
    assert all(abs(row["error, points"]) <= 0.015 for row in rows)


def test_sampled_evictions_are_within_five_points() -> None:
    assert numbers("matrices")["worst_points"] <= 5


def test_cured_forms_have_fewer_misses_where_the_original_had() -> None:
    for page in ("quake", "placement"):
        assert all(row["change"] < 1 for row in numbers(page)["levels"] if row["in the original"])


def test_a_table_is_text_for_people_and_numbers_for_programs(tmp_path: Path) -> None:
    page = Page(tmp_path, "small", "A page")
    page.text("Words\n   that   wrap.")
    page.table(
        "t",
        ["name", "misses", "share", "change"],
        [["a|b", count(1234), percent(0.5), change(0.8)]],
    )
    page.write()
    assert "| a\\|b | 1,234 | 50.0% | −20% |" in (tmp_path / "small.md").read_text()
    row = {"name": "a|b", "misses": 1234, "share": 0.5, "change": 0.8}
    assert json.loads((tmp_path / "small.json").read_text())["t"] == [row]


def test_two_parts_of_a_page_cannot_have_one_name(tmp_path: Path) -> None:
    page = Page(tmp_path, "small", "A page")
    page.number("right", 3)
    with pytest.raises(ValueError, match="two parts are called right"):
        page.table("right", ["a"], [[1]])


def test_pages_keep_what_they_promise() -> None:
    found = numbers("paging")
    for row in found["curves"]:
        if row["within 2%, departures"] is not None:
            assert row["within 2%, departures"] == 1
            assert row["worst, departures"] <= 0.02
    gains = {(row["sharing"], row["sized"]): row["gain of time"] for row in found["sharings"]}
    assert gains["throughput", "once"] >= 0.15
    one, two = (
        row["per million cycles"]
        for row in found["allocation"]
        if (row["sharing"], row["sized"]) == ("equal", "once")
    )
    assert abs(one - two) <= 0.1 * max(one, two)
    removed = {
        row["prefetcher"]: row["removed"]
        for row in found["prefetching"]
        if (row["program"], row["memory"]) == ("`lu scattered`", "25%")
    }
    assert removed["proximity"] >= 0.5 > removed["spatial"]
    everywhere = found["every_workload"]
    assert found["below_three_percent"] > len(everywhere) / 2
    assert all(row["overhead"] < 0.06 for row in everywhere)
    small = [row for row in found["overhead"] if row["2,048"] < 0.06]
    assert len(small) >= len(found["overhead"]) / 2
    assert all(row["below 6% from"] is not None for row in found["overhead"])


def test_most_sampled_counts_are_near_the_full_ones() -> None:
    page = numbers("counters")
    assert page["nine_cells"] >= 40
    assert page["nine_within"] >= 0.9
    by = {
        row["estimator"].strip("`"): row
        for row in page["estimators"]
        if row["events"] == "of the table above"
    }
    best, linear = by["invariants"], by["linear"]
    assert best["median KL"] < linear["median KL"]
    assert best["mean error"] <= 0.076
    assert best["covered"] >= 0.9


def test_switching_costs_about_two_percent_at_twenty_thousand_a_second() -> None:
    rows = {row["switches a second"]: row["here"] for row in numbers("counters")["overhead"]}
    assert 0.01 < rows[20_000] < 0.04


def test_clusters_are_the_true_groups_and_placing_by_them_removes_remote_misses() -> None:
    page = numbers("clusters")
    cells = [row[f"1 in {rate}"] for row in page["found"] for rate in (1, 3, 10)]
    assert cells == ["20/20"] * 72 and page["strangers"] == 0
    kinds = ("`scoreboards`", "`warehouses`", "`auction`")
    rows = [r for r in page["placed"] if r["groups"] == "equal" and r["program"] in kinds]
    assert len(rows) == 9 and all(row["removed"] >= 0.7 for row in rows)
    costs = [row["overhead"] for row in page["figure"]]
    times = [row["instructions until the verdict"] for row in page["figure"]]
    assert costs == sorted(costs, reverse=True) and times[-1] > times[0]


def test_connections_of_a_database_server_are_clustered_by_their_schema() -> None:
    page = numbers("database")
    assert page["right"] and page["stable"]
    removed = {row[""]: row["removed"] for row in page["placed"]}
    assert removed["remote misses"] > 0.2
