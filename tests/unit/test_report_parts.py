# SPDX-License-Identifier: Apache-2.0
"""What a report is put together from: source text, tables within a budget, data in a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stallscope.analyses.crossings import CrossingRow, pivot
from stallscope.annotating import AROUND, WHOLE, read_source
from stallscope.errors import StallscopeError
from stallscope.reporting import LONGEST, _fitted, _shortened, table
from stallscope.views import html

ROWS = [
    CrossingRow("nodes", "walk", "a.c", 3, 10, 1, 1000, 0.0),
    CrossingRow("nodes", "build", "a.c", 7, 5, 0, 100, 0.0),
    CrossingRow("table", "walk", "a.c", 4, 1, 0, 900, 0.0),
]


def test_rows_come_together_by_any_field() -> None:
    assert [(row.key, row.misses, row.share) for row in pivot(ROWS, ("object",))] == [
        (("nodes",), 15, 0.55),
        (("table",), 1, 0.45),
    ]
    [row] = pivot(ROWS, ("line",), {"object": "nodes", "function": "build"})
    assert (row.key, row.latency, row.share) == ((7,), 100, 1.0)
    assert pivot(ROWS, ("line",), {"object": "none"}) == []


def test_samples_are_shared_out_by_their_number() -> None:
    rows = [CrossingRow("a", "f", "", None, None, 3, None, 0.0)]
    rows.append(CrossingRow("b", "f", "", None, None, 1, None, 0.0))
    assert [(row.key[0], row.misses, row.share) for row in pivot(rows, ("object",))] == [
        ("a", None, 0.75),
        ("b", None, 0.25),
    ]


def test_a_short_file_is_whole_and_a_long_one_is_told_around_its_lines(tmp_path: Path) -> None:
    short, long = tmp_path / "short.c", tmp_path / "long.c"
    short.write_text("one\ntwo\n")
    long.write_text("".join(f"{n}\n" for n in range(1, WHOLE + 1002)))
    found = read_source(str(short), [1])
    assert [(piece.first, piece.lines) for piece in found.pieces] == [(1, ["one", "two"])]
    found = read_source(str(long), [100, 110, 2000])
    spans = [(piece.first, piece.first + len(piece.lines) - 1) for piece in found.pieces]
    assert spans == [(100 - AROUND, 110 + AROUND), (2000 - AROUND, 2000 + AROUND)]
    assert found.pieces[0].lines[0] == str(100 - AROUND)


def test_files_are_found_below_other_folders(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.c").write_text("x\n")
    assert read_source("/build/project/lib/a.c", [], [tmp_path]).lines == 1
    assert read_source("./lib/a.c", [], [tmp_path]).lines == 1
    assert read_source("../../lib/a.c", [], [tmp_path]).lines == 1


@pytest.mark.parametrize(
    "file", ["/etc/passwd", "/proc/self/environ", "/dev/zero", "secret", "", "a\0b.c", "/"]
)
def test_what_does_not_look_like_source_is_not_read(file: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password")
    found = read_source(file, [1], [tmp_path])
    assert found.path is None
    assert found.pieces == []


def test_a_folder_or_a_huge_file_called_like_source_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "folder.c").mkdir()
    with (tmp_path / "huge.c").open("wb") as file:
        file.truncate(100_000_000)
    assert read_source(str(tmp_path / "folder.c"), [1]).path is None
    assert read_source(str(tmp_path / "huge.c"), [1]).path is None


def test_a_file_that_was_changed_since_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.c"
    file.write_text("x\n")
    changed = file.stat().st_mtime
    assert read_source(str(file), [1], made=changed - 1).newer
    assert not read_source(str(file), [1], made=changed + 1).newer


def document(rows: int, width: int) -> dict[str, Any]:
    names = [{"object": f"{n} " + "x" * width} for n in range(rows)]
    return {
        "parts": {"objects": table(names, ["object"], rows), "source": {"files": [], "total": 0}},
        "left_out": [],
    }


def test_tables_lose_rows_until_the_page_fits_and_say_so() -> None:
    found = _fitted(document(10_000, 300), 1_000_000)
    kept = len(found["parts"]["objects"]["rows"])
    assert len(json.dumps(found)) < 1_100_000
    assert 1000 < kept < 10_000
    assert found["left_out"] == [f"objects: the first {kept:,} of 10,000 rows"]
    assert _fitted(document(10, 300), 1_000_000)["left_out"] == []


def test_long_names_are_shortened_and_still_tell_apart() -> None:
    one, two = _shortened(["a" * 5000 + "1", {"name": "a" * 5000 + "2"}])
    assert len(one) <= LONGEST + 5
    assert one != two["name"]


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "<!--", "]]>", "\u2028&amp;", "\ud83d\ude00"]
)
def test_data_in_a_page_is_only_data(name: str) -> None:
    name = name.encode("utf-16", "surrogatepass").decode("utf-16")
    text = html.embedded({"name": name})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"name": name}


def test_the_policy_names_what_may_run_and_nothing_else() -> None:
    policy = html.policy()
    assert "unsafe" not in policy
    assert "connect-src 'none'" in policy
    assert policy.count("sha256-") == 2
    page = html.page({"schema": "x"}, "<title> & co")
    assert "<title>&lt;title&gt; &amp; co</title>" in page
    assert " onload=" not in page.split("<body>")[1].split("<script>")[0]


def test_a_page_goes_only_where_it_may(tmp_path: Path) -> None:
    taken = tmp_path / "taken.html"
    taken.write_text("mine")
    for path, word in (
        (taken, "is there already"),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "x.html", "there is no folder"),
    ):
        with pytest.raises(StallscopeError, match=word):
            html.check(path)
    html.write({"recording": "r", "schema": "x"}, taken, force=True)
    assert taken.read_text().startswith("<!doctype html>")
    assert taken.stat().st_mode & 0o077 == 0
