# SPDX-License-Identifier: Apache-2.0
"""Pictures of fixed results against files in tests/golden: pages letter by letter, drawings by the
parts and texts that they are made of. STALLSCOPE_GOLDEN=write makes the files anew."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from test_plots import (
    evictions_of,
    misses_of,
    object_row,
    objects_of,
    offsets_of,
    places_of,
    regions_of,
)

from stallscope.views import plots

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
RESULTS = {
    "objects": objects_of(
        object_row("make_node (list.c:17) < main (list.c:66)", 700, 1000),
        object_row("</b> & [heap]", 200, 1000, "mapping"),
        object_row("grid", 100, 1000, "global"),
    ),
    "places": places_of("walk", "operator<<(A&, B const*)"),
    "misses": misses_of(("L1D", "grid", 5, 10, 85), ("L1D", "a < b", 20, 0, 0)),
    "offsets": offsets_of(("payload[0]", 8, 90), ("next", 0, 10), object_name="a < b"),
    "regions": regions_of("solve", "<outside>"),
    "evictions": evictions_of(("a", "a", 60), ("a", "b", 20), ("b", "a", 15), ("c", "b", 5)),
}


def parts(svg: str) -> str:
    """Ids and texts in the order in which they are drawn; coordinates belong to matplotlib."""
    ET.fromstring(svg)
    found = re.findall(r'<!-- (.*?) -->|<g id="((?:bar|cell|self|label|row)-[\d-]+)"', svg)
    return "".join(f"{text or f'#{name}'}\n" for text, name in found)


def compare(name: str, found: str) -> None:
    file = GOLDEN / name
    if os.environ.get("STALLSCOPE_GOLDEN") == "write":
        file.write_text(found)
    assert found == file.read_text(), f"{file.name} differs; look, then STALLSCOPE_GOLDEN=write"


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_is_letter_by_letter_as_kept(name: str, tmp_path: Path) -> None:
    page = plots.plot(RESULTS[name], tmp_path / "p.html").read_text()
    body = page[page.index("<body>") :]
    compare(f"plot-{name}.html", body)


@pytest.mark.parametrize("name", RESULTS)
def test_a_drawing_has_the_parts_and_texts_that_are_kept(name: str, tmp_path: Path) -> None:
    compare(
        f"plot-{name}.svg.txt", parts(plots.plot(RESULTS[name], tmp_path / "p.svg").read_text())
    )
