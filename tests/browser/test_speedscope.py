# SPDX-License-Identifier: Apache-2.0
"""What is exported for speedscope, opened by speedscope itself."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stallscope as api
from conftest import Recorder

ROOT = Path(__file__).resolve().parents[2]
SPEEDSCOPE = "build/cp3*/src/stallscope/views/html/page/node_modules/speedscope/dist/release"


def test_speedscope_shows_the_functions_by_their_cost(
    program: Callable[..., Path], record: Recorder, tmp_path: Path, visit: Callable[..., Any]
) -> None:
    folder = next(ROOT.glob(SPEEDSCOPE), None)
    if folder is None:
        pytest.skip("built without npm")
    made = record(program("hot_struct"), options=["--machine", "default"])
    exported = api.export(made.path, format="speedscope", output=tmp_path / "out.json")
    # As its own command does: the file comes as a script, which pages from disk may load.
    words = json.dumps(exported.name), json.dumps(base64.b64encode(exported.read_bytes()).decode())
    script = tmp_path / "profile.js"
    script.write_text(f"speedscope.loadFileFromBase64({', '.join(words)})")
    seen = visit(f"{(folder / 'index.html').as_uri()}#localProfilePath={script}")
    seen.page.get_by_text("Sandwich").click()
    first = seen.page.locator("tr").filter(has_text="[build (hot_struct.c:").first
    first.wait_for()
    row = api.objects(api.view(made.path)).rows[0]
    assert f"{row.latency:,} " in first.inner_text()
    seen.page.get_by_role("columnheader", name="Total", exact=True).click()
    seen.page.locator("tr").filter(has_text=re.compile(r"\bsum\b")).first.wait_for()
    assert seen.page.title() == "hot_struct - speedscope"
    assert not seen.troubles
