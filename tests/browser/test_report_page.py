# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: it opens from disk, asks nobody for anything, and can be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import STALLSCOPE, Made, Recorder, run
from stallscope import workloads
from stallscope.recording import Recording
from stallscope.reporting import report
from stallscope.views.html import write

ROOT = Path(__file__).resolve().parents[2]
PAGE = "src/stallscope/views/html/page"
TITLES = [
    *("Verdict", "Time", "Objects", "Code", "Source"),
    *("Evictions", "Sharing", "Memory", "Loads", "About"),
]
# Only colours differ in the dark.
RULES = {
    "light": "{resultTypes: ['violations']}",
    "dark": "{resultTypes: ['violations'], runOnly: ['color-contrast']}",
}
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def made(shared_record: Recorder, workload: Callable[[str], Path]) -> Made:
    arguments = workloads.truth("list").command_arguments("quick")
    return shared_record(workload("list"), *arguments, options=["--trace"])


@pytest.fixture(scope="module")
def page(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    ran = run(STALLSCOPE, "report", made.path, "-o", path, "--no-advice")
    assert ran.status == 0, ran.stderr
    assert str(path) in ran.stdout
    return path


def test_the_first_screen_names_object_line_and_function(page: Path, visit: Visit) -> None:
    seen = visit(page, viewport={"width": 1280, "height": 800})
    verdict = seen.page.locator(".verdict")
    text = verdict.inner_text()
    assert "make_node (list.c:" in text
    assert "walk" in text
    line = next(
        number
        for number, words in enumerate((ROOT / "workloads/list.c").read_text().splitlines(), 1)
        if "sum = sum * 3 + node->payload[0];" in words
    )
    assert f"list.c:{line}" in text
    box = verdict.bounding_box()
    assert box["y"] + box["height"] <= 800
    assert not seen.troubles


def test_every_tab_draws_without_an_error_or_a_request(page: Path, visit: Visit) -> None:
    seen = visit(page)
    for title in TITLES:
        seen.tab(title)
        assert seen.panel().locator("h2").first.inner_text()
        for chart in seen.panel().locator(".chart, .plot").all():
            chart.locator("canvas").first.wait_for(state="visible")
            assert _painted(chart)
    assert not seen.troubles
    assert seen.requests == [page.as_uri()]


def _painted(chart: Any) -> bool:
    """A picture is there when its pixels are not all alike."""
    colours = chart.evaluate(
        """box => {
          const canvas = box.querySelector("canvas");
          const pixels = new Uint32Array(canvas.getContext("2d")
            .getImageData(0, 0, canvas.width, canvas.height).data.buffer);
          return new Set(pixels).size;
        }"""
    )
    return bool(colours > 3)


def test_tabs_work_by_arrow_keys(page: Path, visit: Visit) -> None:
    seen = visit(page)
    seen.page.get_by_role("tab", name="Verdict").focus()
    for title in [*TITLES[1:], TITLES[0]]:
        seen.page.keyboard.press("ArrowRight")
        chosen = seen.page.locator("[role=tab][aria-selected=true]")
        chosen.filter(has_text=title).wait_for()
        assert seen.page.evaluate("document.activeElement.textContent") == title
    seen.page.keyboard.press("End")
    seen.page.locator("[role=tab][aria-selected=true]").filter(has_text="About").wait_for()


def test_links_lead_from_the_object_to_its_line_and_its_evictions(page: Path, visit: Visit) -> None:
    seen = visit(page)
    seen.page.locator(".verdict a").first.click()
    detail = seen.panel().locator(".detail")
    detail.get_by_role("heading").filter(has_text="make_node").wait_for()
    detail.get_by_role("link", name="who evicts make_node").click()
    seen.panel().get_by_text("Only what has to do with").wait_for()
    seen.page.go_back()
    seen.panel().locator(".detail").get_by_role("link", name="list.c:").first.click()
    marked = seen.panel().locator("tr.marked")
    assert "payload" in marked.inner_text()
    marked.get_by_role("button").click()
    assert "make_node" in seen.panel().locator("tr.told").inner_text()
    assert not seen.troubles


def test_a_part_without_data_says_why_and_how_to_get_it(page: Path, visit: Visit) -> None:
    seen = visit(page.as_uri() + "#sharing")
    said = seen.panel().locator(".missing").inner_text()
    assert "only one thread" in said
    assert "To get it" in said


def test_tables_sort_and_filter(page: Path, visit: Visit) -> None:
    seen = visit(page.as_uri() + "#objects")
    found = seen.panel().locator(".table").last
    found.get_by_role("searchbox").fill("make_node")
    assert found.locator("tbody tr").count() == 1
    found.get_by_role("searchbox").fill("")
    found.get_by_role("button", name="misses").click()
    assert found.locator("th[aria-sort=descending]").inner_text().startswith("misses")
    numbers = [
        int(text.replace(",", ""))
        for text in found.locator("tbody tr td:nth-child(3)").all_inner_texts()
    ]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize("scheme", RULES)
def test_contrast_and_structure_pass_axe(page: Path, visit: Visit, scheme: str) -> None:
    axe = next(ROOT.glob(f"build/cp3*/{PAGE}/node_modules/axe-core/axe.min.js"))
    seen = visit(page, color_scheme=scheme, bypass_csp=True)
    seen.page.evaluate(axe.read_text())
    for title in TITLES:
        seen.tab(title)
        found = seen.page.evaluate(f"axe.run(document, {RULES[scheme]})")
        told = [
            (rule["id"], [node["html"][:200] for node in rule["nodes"]][:3])
            for rule in found["violations"]
        ]
        assert not told, title


def test_it_fits_a_phone(page: Path, visit: Visit) -> None:
    seen = visit(page, viewport={"width": 390, "height": 844}, device_scale_factor=2)
    for title in TITLES:
        seen.tab(title)
        width = seen.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, title
    assert not seen.troubles


def test_the_policy_lets_nothing_else_run(page: Path, visit: Visit) -> None:
    seen = visit(page)
    # Later, when the browser no longer works for the test, which may do what pages may not.
    ran = seen.page.evaluate(
        """() => new Promise((done) => setTimeout(() => {
          const script = document.createElement("script");
          script.textContent = "window.broken = true";
          document.body.append(script);
          let evaluated = true;
          try { new Function("return 1")(); } catch { evaluated = false; }
          done([window.broken === true, evaluated]);
        }, 0))"""
    )
    assert ran == [False, False]


def test_json_has_what_the_page_has(made: Made, page: Path) -> None:
    ran = run(STALLSCOPE, "report", made.path, "--json", "--no-advice")
    assert ran.status == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.report/1"
    assert document["verdict"]["object"].startswith("make_node (list.c:")
    text = page.read_text()
    start = text.index('id="document">') + len('id="document">')
    inside = json.loads(text[start : text.index("</script>", start)])
    assert inside["verdict"] == document["verdict"]
    assert inside["parts"].keys() == document["parts"].keys()


def test_a_page_with_many_rows_draws_few_of_them(made: Made, tmp_path: Path, visit: Visit) -> None:
    """So that it answers at once; benchmarks/large_report.py has the times."""
    document = report(Recording(made.path), advice=False)
    for name in ("objects", "functions", "lines", "evictions"):
        part = document["parts"][name]
        part["rows"] = (part["rows"] * 3000)[:3000]
        part["total"] = 1_000_000
    write(document, tmp_path / "large.html")
    seen = visit(tmp_path / "large.html")
    for title in TITLES:
        seen.tab(title)
        seen.panel().locator("h2").first.wait_for()
    assert seen.page.evaluate("document.querySelectorAll('tr').length") < 1000
    seen.tab("Objects")
    found = seen.panel().locator(".table").last
    assert "the recording has 1,000,000; the page holds the first 3,000" in found.inner_text()
    found.get_by_role("button", name="Show 200 more").click()
    assert found.locator("tbody tr").count() == 225
    assert not seen.troubles
