# SPDX-License-Identifier: Apache-2.0
"""Pictures: what they are made of, whatever the names in them are. Pixels are for people."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stallscope.analyses.evictions import EvictionRow, Evictions, ResidentRow
from stallscope.analyses.misses import Misses, MissLevelRow, MissRow
from stallscope.analyses.objects import LevelRow, ObjectRow, Objects, PlaceRow, Places
from stallscope.analyses.offsets import OffsetRow, Offsets
from stallscope.analyses.regions import RegionRow, Regions
from stallscope.errors import StallscopeError
from stallscope.views import plots
from stallscope.views.plots import picture as seen
from stallscope.views.plots.media.scale import scale

LEVELS = [LevelRow("L1D", "cache", 10_000, 1000, 0.9, 800)]
LONG = "std::map<" + "std::pair<std::vector<int>, unsigned long>, " * 40 + "void>::operator[]"
HOSTILE = [
    "</script><script>alert(1)</script>",
    "[/bold][link=x]",
    "\x1b[31mred\x1b]0;title\x07",
    "abc\u202edef\u2066ghi\u200f",
    "$\\frac{1}{0}$ and $unclosed",
    "--><!-- & \"quoted\" 'too' ]]>",
    "漢字 \U0001f600 \ud800",
    "one\ntwo\r\tthree\0",
    LONG,
]
STEERING = set("\x1b\x07\0\r\t\u202e\u2066\u200f")


def object_row(name: str, misses: int, of: int, kind: str = "heap") -> ObjectRow:
    share = misses / of
    return ObjectRow(
        object=name,
        kind=kind,
        type="",
        type_confidence=None,
        site=1,
        blocks=2,
        bytes=64,
        misses=misses,
        sampled=misses // 10,
        share=share,
        sampled_share=share,
        latency=misses * 20,
        latency_share=share,
        latency_per_miss=20.0,
    )


def objects_of(*rows: ObjectRow, recording: str = "r.stallscope") -> Objects:
    return Objects(
        recording=recording,
        machine="risc-64k",
        level="L1D",
        misses=sum(row.misses for row in rows),
        samples=sum(row.sampled for row in rows),
        period=10,
        seed=1,
        average_latency=20.0,
        function=None,
        processes=[],
        levels=LEVELS,
        rows=list(rows),
    )


def many(count: int) -> Objects:
    total = count * (count + 1) // 2
    return objects_of(*(object_row(f"object {n}", n, total) for n in range(count, 0, -1)))


def evictions_of(*cells: tuple[str, str, int], level: str = "L1D") -> Evictions:
    total = sum(count for *_, count in cells)
    rows = [
        EvictionRow(level, victim, culprit, None, None, count, 0.5, count / total, None, None)
        for victim, culprit, count in cells
    ]
    return Evictions("r.stallscope", "risc-64k", 100, 10, [], LEVELS, rows)


def misses_of(*rows: tuple[str, str, int, int, int], by: str = "object") -> Misses:
    """Rows are level, object, cold, capacity, conflict."""
    levels: list[MissLevelRow] = []
    for name in dict.fromkeys(level for level, *_ in rows):
        group = [sum(row[i] for row in rows if row[0] == name) for i in (2, 3, 4)]
        total = sum(group)
        shares = [count / max(1, total) for count in group]
        levels.append(MissLevelRow(*group, *shares, name, "cache", 10 * total, total, 0.1))
    total_of = {level.level: level.misses for level in levels}
    found = []
    for level, name, *kinds in rows:
        misses = sum(kinds)
        shares = [count / max(1, misses) for count in kinds]
        share = misses / max(1, total_of[level])
        found.append(MissRow(*kinds, *shares, level, name, "heap", None, None, None, misses, share))
    return Misses("r.stallscope", "risc-64k", None, by, True, None, [], levels, found)


def regions_of(*names: str) -> Regions:
    rows = [RegionRow(name, ["all"], 3, 500, 0.5, 90, 10, 0.25, 200, 0.2) for name in names]
    return Regions("r.stallscope", "risc-64k", [], "L1D", 1000, 180, 40, rows)


def places_of(*names: str) -> Places:
    rows = [PlaceRow(name, "/src/a.c", 7, 10, 1, 0.1, 0.1, 200, 0.1) for name in names]
    return Places("r.stallscope", "risc-64k", "L1D", 100, 10, "line", None, [], LEVELS, rows)


def offsets_of(*fields: tuple[str, int, int], object_name: str | None = None) -> Offsets:
    """Fields are name, offset, misses."""
    total = max(1, sum(misses for *_, misses in fields))
    rows = [
        OffsetRow("a < b", offset, 8, name, "long", None, n, n / total, 20 * n, n / total, 20.0)
        for name, offset, n in fields
    ]
    return Offsets(
        *("r.stallscope", "risc-64k", "L1D", None, object_name),
        *(total, 20 * total, [], [], rows),
    )


class Page(HTMLParser):
    """Tags, texts of table cells, and everything that could act."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def count(self, tag: str, **attributes: str) -> int:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}.items()
        return sum(name == tag and wanted <= found.items() for name, found in self.tags)


def page(result: object, folder: Path, limit: int | None = None) -> Page:
    return Page(plots.plot(result, folder / "p.html", limit).read_text())


def svg(result: object, folder: Path, limit: int | None = None) -> tuple[ET.Element, str]:
    text = plots.plot(result, folder / "p.svg", limit).read_text()
    return ET.fromstring(text), text


def ids(root: ET.Element, prefix: str) -> list[str]:
    return [e.attrib["id"] for e in root.iter() if e.attrib.get("id", "").startswith(prefix)]


# --- what is in them


def test_a_bar_for_each_object_and_series_in_the_order_of_the_result(tmp_path: Path) -> None:
    result = objects_of(object_row("grid", 750, 1000), object_row("list", 250, 1000, "global"))
    root, text = svg(result, tmp_path)
    assert ids(root, "bar-") == [
        *("bar-0-0-0", "bar-0-1-0", "bar-0-0-1", "bar-0-1-1"),
        *("bar-1-0-0", "bar-1-0-1"),
    ]
    for said in ("grid", "list", "75.0%", "25.0%", "share of L1D misses [%]", "heap", "global"):
        assert f"<!-- {said} -->" in text
    shown = page(result, tmp_path)
    assert [t for t in shown.texts if t in ("grid", "list")] == [
        *("grid", "grid", "list", "list"),  # beside the bar and when pointed at
        *("grid", "list"),  # in the table
    ]
    widths = [float(a["width"].rstrip("%")) for t, a in shown.tags if t == "rect" and "x" in a]
    longest = max(width for width in widths if width < 100)
    assert longest == pytest.approx(100 * 0.75 / 0.8, abs=0.01)


def test_the_title_says_recording_machine_level_misses_and_samples(tmp_path: Path) -> None:
    root, _ = svg(many(3), tmp_path)
    said = root.attrib["aria-label"]
    for part in ("r.stallscope", "risc-64k", "L1D", "6 misses"):
        assert part in said
    assert said.split(". ")[0] in page(many(3), tmp_path).texts


def test_what_has_no_room_is_added_up(tmp_path: Path) -> None:
    result = many(500)
    root, text = svg(result, tmp_path)
    assert len(ids(root, "label-")) == seen.ROWS + 1
    assert "<!-- 480 others -->" in text
    rest = result.top(20)[1]
    assert rest is not None
    assert rest.misses == sum(row.misses for row in result.rows[20:])
    assert rest.share + sum(row.share for row in result.rows[:20]) == pytest.approx(1)
    shown = page(result, tmp_path)
    assert shown.count("li", class_="row") == seen.ROWS + 1
    assert shown.count("tr") == 1 + 500
    assert len(ids(svg(result, tmp_path, 0)[0], "label-")) == seen.MOST_ROWS + 1


def test_small_shares_have_no_bar_unless_rows_are_asked_for(tmp_path: Path) -> None:
    large, small = object_row("large", 999_900, 1_000_000), object_row("small", 50, 1_000_000)
    result = objects_of(large, small, replace(small, object="tiny"))
    assert len(ids(svg(result, tmp_path)[0], "label-")) == 2
    assert len(ids(svg(result, tmp_path, 3)[0], "label-")) == 3


def test_places_are_drawn_with_their_lines(tmp_path: Path) -> None:
    _, text = svg(places_of("walk", "free_list"), tmp_path)
    assert "<!-- walk  a.c:7 -->" in text
    assert "Which lines miss L1D" in text


def test_the_matrix_has_victims_as_rows_and_frames_what_evicts_itself(tmp_path: Path) -> None:
    result = evictions_of(("a", "a", 60), ("a", "b", 20), ("b", "a", 20))
    [matrix] = result.matrices(10)
    assert (matrix.names, matrix.counts) == (("a", "b"), ((60, 20), (20, 0)))
    assert matrix.shares == ((0.75, 0.25), (1.0, 0.0))
    assert matrix.weights == (0.8, 0.2)
    root, text = svg(result, tmp_path)
    assert len(ids(root, "cell-0-")) == 4
    assert ids(root, "self-") == ["self-0-0", "self-0-1"]
    assert text.count("<!-- 75% -->") == text.count("<!-- 25% -->") == 1
    shown = page(result, tmp_path)
    assert shown.count("td", class_="h15 self") == 1  # 75% of twenty steps
    assert shown.count("td", class_="none self") == 1


def test_the_matrix_tells_how_much_stays_where_that_is_known(tmp_path: Path) -> None:
    plain = evictions_of(("a", "b", 3), ("b", "a", 1))
    assert "of it stays" not in svg(plain, tmp_path)[1]
    stays = [ResidentRow("L1D", "a", "heap", 10.0, 640.0, 0.125, 3, 0.0)]
    known = replace(plain, objects=stays)
    assert known.matrices(5)[0].resident == (0.125, None)
    for text in (svg(known, tmp_path)[1], plots.plot(known, tmp_path / "p.html").read_text()):
        assert "of it stays" in text
        assert "12.5%" in text


def test_each_level_has_its_matrix(tmp_path: Path) -> None:
    first, second = evictions_of(("a", "a", 1)), evictions_of(("b", "b", 1), level="L2")
    levels = [*LEVELS, LevelRow("L2", "cache", 10, 5, 0.5, 1)]
    both = replace(first, levels=levels, rows=[*first.rows, *second.rows])
    assert ids(svg(both, tmp_path)[0], "self-") == ["self-0-0", "self-1-0"]


def test_a_large_matrix_keeps_the_objects_with_the_largest_part_and_every_eviction() -> None:
    cells = [(f"v{n}", f"c{n}", 1 + n) for n in range(50)]
    [matrix] = evictions_of(*cells).matrices(12)
    assert len(matrix.names) == 12
    assert matrix.names[-1] == "89 others"
    assert sum(map(sum, matrix.counts)) == sum(count for *_, count in cells)
    assert sum(matrix.weights) == pytest.approx(1)


def test_kinds_of_misses_lie_on_top_of_each_other_level_by_level(tmp_path: Path) -> None:
    rows = [("L1D", f"object {n}", 0, 10, 100 - n) for n in range(12)]
    result = misses_of(*rows, ("L2", "object 0", 5, 5, 0))
    shown, rest = result.top("L1D", 8)
    assert [row.object for row in shown] == [f"object {n}" for n in range(8)]
    assert rest is not None
    assert (rest.object, rest.misses, rest.capacity) == ("4 others", 40 + 100 * 4 - 38, 40)
    assert rest.capacity_share == pytest.approx(40 / rest.misses)
    root, text = svg(result, tmp_path)
    assert len(ids(root, "label-")) == 8 + 1 + 1
    for said in ("L1D", "L2", "of each kind [misses]", "cold", "capacity", "conflict", "4 others"):
        assert said in text
    whole = page(misses_of(("L1D", "a", 1, 2, 3), ("L2", "a", 1, 0, 0), by="level"), tmp_path)
    assert whole.count("li", class_="row") == 2  # a bar for each level


def test_fields_are_drawn_with_their_offsets_and_the_objects_that_they_are_in(
    tmp_path: Path,
) -> None:
    fields = [(f"field {n}", 8 * n, 100) for n in range(30)]
    root, text = svg(offsets_of(*fields), tmp_path)
    assert "<!-- +8  field 1  a &lt; b -->" in text.replace(" < ", " &lt; ")
    assert len(ids(root, "label-")) == seen.ROWS + 1
    rest = offsets_of(*fields).top(20)[1]
    assert rest is not None
    assert (rest.field, rest.misses, rest.latency_per_miss) == ("10 others", 1000, 20.0)
    inside = page(offsets_of(*fields, object_name="a < b"), tmp_path)
    assert "+8  field 1" in inside.texts
    assert any(said.startswith("in a < b") for said in inside.texts)


def test_regions_that_have_no_room_are_not_added_up_as_they_lie_in_each_other(
    tmp_path: Path,
) -> None:
    _, text = svg(regions_of("solve", "smooth", "restrict"), tmp_path, 2)
    assert "<!-- solve  in all -->" in text
    assert "<!-- 1 more regions are not shown. -->" in text
    assert "others" not in text


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
@pytest.mark.parametrize(
    "result",
    [objects_of(), evictions_of(), places_of(), misses_of(), offsets_of(), regions_of()],
)
def test_nothing_is_a_picture_too(result: object, suffix: str, tmp_path: Path) -> None:
    assert plots.plot(result, tmp_path / f"p{suffix}").stat().st_size > 500


# --- names


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text_in_a_page(name: str, tmp_path: Path) -> None:
    for result in (
        objects_of(object_row(name, 10, 10), recording=f"/x/{name.replace('/', '_')}"),
        places_of(name),
        evictions_of((name, name, 3)),
        misses_of((name, name, 1, 2, 3)),
        offsets_of((name, 8, 3), object_name=name),
        regions_of(name),
    ):
        data = plots.plot(result, tmp_path / "p.html").read_bytes().decode()
        assert not STEERING & set(data)
        shown = Page(data)
        assert not {"script", "b[", "link", "iframe", "img"} & {tag for tag, _ in shown.tags}
        assert not any(key.startswith("on") for _, found in shown.tags for key in found)
        [policy] = [a["content"] for t, a in shown.tags if a.get("http-equiv")]
        assert policy is not None
        assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[\w+/=]+'", policy)
        if name.isprintable():
            assert any(name in text for text in shown.texts)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text_in_a_drawing(name: str, tmp_path: Path) -> None:
    for result in (
        objects_of(object_row(name, 10, 10), recording=f"/x/{name.replace('/', '_')}"),
        places_of(name),
        evictions_of((name, name, 3)),
        misses_of((name, name, 1, 2, 3)),
        offsets_of((name, 8, 3), object_name=name),
        regions_of(name),
    ):
        root, text = svg(result, tmp_path)
        assert not STEERING & set(text)
        assert not {"script", "a", "foreignObject"} & {
            e.tag.rpartition("}")[2] for e in root.iter()
        }
        plots.plot(result, tmp_path / "p.png")


def test_a_dollar_is_a_dollar(tmp_path: Path) -> None:
    _, text = svg(objects_of(object_row("$x^2$", 1, 1)), tmp_path)
    assert "<!-- $x^2$ -->" in text


def test_letters_that_no_font_has_are_shown_by_number(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    _, text = svg(objects_of(object_row("漢", 1, 1)), tmp_path)
    assert "<!-- \\u6f22 -->" in text
    assert not recwarn.list


def test_a_long_name_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    _, text = svg(objects_of(object_row(LONG, 1, 1)), tmp_path)
    [shown] = re.findall(r"<!-- (std::map.*?) -->", text)
    assert len(shown) < 300
    assert shown.endswith("operator[]")


# --- files


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
@pytest.mark.parametrize("result", [many(30), evictions_of(("a", "b", 3), ("b", "b", 2))])
def test_the_same_result_is_the_same_file(result: object, suffix: str, tmp_path: Path) -> None:
    first = plots.plot(result, tmp_path / f"a{suffix}").read_bytes()
    assert plots.plot(result, tmp_path / f"b{suffix}").read_bytes() == first


def test_pictures_are_1200_pixels_wide(tmp_path: Path) -> None:
    data = plots.plot(many(3), tmp_path / "p.PNG").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 1200


@pytest.mark.parametrize("name", ["p", "p.jpg", "p.svg.gz", ".png"])
def test_an_unknown_suffix_is_refused_with_those_there_are(name: str, tmp_path: Path) -> None:
    with pytest.raises(StallscopeError) as caught:
        plots.plot(many(3), tmp_path / name)
    assert ".png, .svg, .html" in caught.value.why
    assert not (tmp_path / name).exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StallscopeError) as caught:
        plots.plot(many(3), tmp_path / "no" / "p.svg")
    assert str(tmp_path / "no") in caught.value.why


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "p.svg").mkdir()
    with pytest.raises(StallscopeError, match="cannot write"):
        plots.plot(many(3), tmp_path / "p.svg")


def test_without_matplotlib_the_page_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(StallscopeError) as caught:
        plots.plot(many(3), tmp_path / "p.png")
    assert "matplotlib is not installed" in caught.value.why
    assert "p.html" in caught.value.now
    plots.plot(many(3), tmp_path / "p.html")


def test_what_has_no_picture_says_so(tmp_path: Path) -> None:
    with pytest.raises(StallscopeError, match="there is no picture of str"):
        plots.plot("text", tmp_path / "p.html")


def test_a_page_needs_no_drawing_library() -> None:
    code = (
        "import sys, stallscope.views.plots.media.page, stallscope.views.plots.objects\n"
        "assert 'matplotlib' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the axis


@pytest.mark.parametrize(
    ("longest", "ticks"),
    [
        (0.0, ["0%", "50%", "100%"]),
        (0.03, ["0%", "1%", "2%", "3%"]),
        (0.49, ["0%", "20%", "40%", "60%"]),
        (1.0, ["0%", "50%", "100%"]),
    ],
)
def test_ticks_are_round_and_reach_beyond_the_longest_bar(longest: float, ticks: list[str]) -> None:
    bars = seen.Bars(
        (seen.Panel("share", "%", ("exact",)),), (seen.BarRow("a", "heap", ((longest,),)),)
    )
    axis = scale(bars, 0)
    assert [axis.text(tick) for tick in axis.ticks] == ticks
    assert axis.part(longest) <= 1


def test_stacked_series_end_where_their_sum_is(tmp_path: Path) -> None:
    from stallscope.views.plots.media import page as page_medium
    from stallscope.views.plots.media import static

    bars = seen.Bars(
        (seen.Panel("misses", "misses", ("cold", "capacity", "conflict"), stacked=True),),
        (seen.BarRow("a", "heap", ((100.0, 50.0, 50.0),)),),
    )
    drawn = seen.Picture("t", (), (bars,), seen.numbers((), ()))
    rects = [a for t, a in Page(page_medium.draw(drawn, ".html").decode()).tags if t == "rect"]
    places = [(a["x"], a["width"]) for a in rects if a.get("y") == "1"][-3:]
    assert places == [("0.000%", "50.000%"), ("50.000%", "25.000%"), ("75.000%", "25.000%")]
    text = static.draw(drawn, ".svg").decode()
    assert "<!-- 200 -->" in text
    assert len(ids(ET.fromstring(text), "bar-0-")) == 3
