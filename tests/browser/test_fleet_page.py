# SPDX-License-Identifier: Apache-2.0
"""The page of a fleet: from disk and behind the server, with names that would be markup."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conftest import PATIENCE, STALLSCOPE, run
from stallscope.scale import fleet_folder
from stallscope.scale.fleet_rows import FleetRow

SCRIPT = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(1)>"
TURNED = "abc\u202edef"
WORSE = "queue (q.c) < main (q.c)"


def rows(host: int, day: int) -> list[FleetRow]:
    """The second build waits longer for one object, on every host."""
    second = day > 2
    common: dict[str, Any] = {
        "day": f"2026-11-{day:02d}",
        "program": IMAGE,
        "build": "bbbb" if second else "aaaa",
        "recording": f"{host} {day}",
        "host": SCRIPT if host == 0 else f"host-{host}",
        "source": "clock",
        "seconds": 2.0,
        "every": 1000,
    }
    counts = {SCRIPT: 100 + host, WORSE: (400 if second else 100) + host, TURNED: 10}
    counts |= {f"array{number}": 1 + number for number in range(9)}
    named = [
        FleetRow(object=name, kind="heap", samples=count, wait=count / 100, **common)
        for name, count in counts.items()
    ]
    whole = sum(counts.values())
    return [*named, FleetRow(object=None, kind="", samples=whole, wait=whole / 100, **common)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts") / "fleet"
    folder.mkdir()
    every = [row for host in range(6) for day in range(1, 5) for row in rows(host, day)]
    fleet_folder.write(folder, every)
    return folder


@pytest.fixture(scope="module")
def page(fleet: Path) -> Path:
    made = fleet.with_name("fleet.html")
    ran = run(STALLSCOPE, "report", fleet, "-o", made)
    assert ran.status == 0, ran.stderr
    assert "Worse since 2026-11-03, with build bbbb" in ran.stdout
    assert f"{WORSE} takes 40.2% of its time, 10.2% before" in ran.stdout
    return made


@pytest.fixture(scope="module")
def address(fleet: Path) -> Iterator[str]:
    words = [str(STALLSCOPE), "serve", str(fleet)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        process.wait(PATIENCE)


def check(seen: Any) -> None:
    """Nothing ran, and no element was made of a name."""
    assert seen.troubles == []
    assert seen.page.locator("main img, main script").count() == 0


def test_the_page_says_what_the_verbs_say(page: Path, visit: Callable[..., Any]) -> None:
    seen = visit(page)
    seen.page.get_by_text(f"{IMAGE} waits most").wait_for()
    assert WORSE in seen.page.locator(".verdict").inner_text()
    seen.page.locator(".plot[data-drawn=yes]").wait_for()
    seen.tab("Objects")
    assert "\\u202e" in seen.panel().inner_text()
    assert SCRIPT in seen.panel().inner_text()
    seen.tab("Changes")
    text = seen.panel().inner_text()
    assert "worse" in text
    assert "10.25%" in text
    assert "40.25%" in text
    seen.panel().get_by_role("link", name=WORSE).first.click()
    assert seen.panel().locator("tbody tr").count() == 1
    seen.tab("Builds")
    assert seen.panel().locator("tbody tr").count() == 2
    check(seen)
    assert seen.requests == [page.as_uri()]


def test_it_fits_a_phone_in_the_dark(page: Path, visit: Callable[..., Any]) -> None:
    seen = visit(page, viewport={"width": 390, "height": 780}, color_scheme="dark")
    for title in ("Verdict", "Objects", "Changes", "Builds", "About"):
        seen.tab(title)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    check(seen)


def test_the_server_compares_any_two_builds(address: str, visit: Callable[..., Any]) -> None:
    seen = visit(address)
    seen.page.get_by_text(f"{IMAGE} waits most").wait_for()
    seen.tab("Changes")
    seen.panel().locator("select[name=before]").select_option("bbbb")
    seen.panel().locator("select[name=after]").select_option("aaaa")
    seen.panel().get_by_role("button", name="Compare").click()
    seen.panel().get_by_text("better").first.wait_for()
    seen.panel().locator("select[name=after]").select_option("bbbb")
    seen.panel().get_by_role("button", name="Compare").click()
    seen.panel().get_by_text("are no two builds of one program").wait_for()
    # A refused question is an answer of the server's, and the browser's console tells of it.
    assert all("400" in trouble for trouble in seen.troubles)
    assert seen.page.locator("main img, main script").count() == 0


def test_the_document_has_what_the_verbs_have(fleet: Path) -> None:
    told = json.loads(run(STALLSCOPE, "report", fleet, "--json").stdout)
    assert told["schema"] == "stallscope.fleet/1"
    for verb, key in (("top", "programs"), ("builds", "builds")):
        words = [STALLSCOPE, "fleet", verb, "--fleet", fleet, "--json"]
        assert json.loads(run(*words).stdout)["rows"] == told[key]
    words = [STALLSCOPE, "fleet", "diff", "aaaa", "bbbb", "--fleet", fleet, "--json"]
    assert json.loads(run(*words).stdout)["rows"] == told["changes"][0]["rows"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--machine", "server"], "--machine is for recordings"),
        (["-o", "missing/x.html"], "there is no folder missing"),
    ],
)
def test_bad_words_are_told(fleet: Path, tmp_path: Path, words: list[str], said: str) -> None:
    ran = run(STALLSCOPE, "report", fleet, *words, cwd=tmp_path)
    assert ran.status == 2
    assert said in ran.stderr


def test_who_comes_from_elsewhere_is_refused(address: str) -> None:
    at = urlsplit(address)
    for path, headers in (
        ("/wrong/api/fleet", {}),
        (f"{at.path}api/fleet", {"Host": "evil.example"}),
        (f"{at.path}api/fleet", {"Sec-Fetch-Site": "cross-site"}),
    ):
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=PATIENCE)
        connection.request("GET", path, headers=headers)
        assert connection.getresponse().status == 403
        connection.close()
