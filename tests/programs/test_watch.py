# SPDX-License-Identifier: Apache-2.0
"""Watched memory in replay: every access, no other, against a filter that looks at each one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Made, Ran, Recorder

from stallscope import StallscopeError, _engine, watch, watch_program
from stallscope.analyses.watch import Watched
from stallscope.recording import STREAM, open_recording
from stallscope.watch_verb import watch_captured

SOURCE = Path(__file__).with_name("overflow.c").read_text().splitlines()
PAST = next(i for i, line in enumerate(SOURCE, 1) if "one past" in line and "made" in line)


@pytest.fixture(scope="module")
def made(program: Callable[..., Path], shared_record: Recorder) -> Made:
    return shared_record(program("overflow"), options=["--trace"])


def test_a_field_of_every_element(made: Made) -> None:
    found = watch("table[*].count", made.path)
    assert found.ranges == 100
    assert found.watches == {"table[*].count": 1001}  # a thousand increments, and one is printed
    assert sum(row.hits for row in found.rows if row.function == "fill") == 1000
    assert watch("table[7].count", made.path).hits == 10
    assert watch("table[*].sum", made.path).hits == 0
    assert watch("table", made.path).hits == 1001


def test_only_reads_or_only_writes(made: Made) -> None:
    both = watch("total", made.path)
    reads, writes = watch("total", made.path, writes=False), watch("total", made.path, reads=False)
    assert writes.hits == 1000
    assert reads.hits == 1001
    assert both.hits <= reads.hits + writes.hits  # a modify is both


def test_one_byte_past_a_block_is_found_at_its_line(made: Made) -> None:
    found = watch("past:copy", made.path)
    writers = [row for row in found.rows if row.kind == "writes"]
    assert [(row.function, row.line, row.hits) for row in writers] == [("copy", PAST, 2)]
    first = next(hit for hit in found.log if hit.kind == "writes")
    assert first.bytes == 1
    assert [call.split(" ")[0] for call in first.path][:1] == ["main"]
    # Every block of the program, the C library's own included: nobody else does.
    everywhere = watch("past:*", made.path, reads=False)
    assert {(row.function, row.line) for row in everywhere.rows} == {("copy", PAST)}


def test_stopping_at_the_first_and_calling_python(made: Made) -> None:
    seen: list[str] = []
    found = watch("past:copy", made.path, stop=1, on_hit=lambda hit: seen.append(hit.function))
    assert found.stopped
    assert found.hits == 1
    assert seen == ["copy"]


def test_every_access_to_ten_thousand_ranges_and_no_other(made: Made) -> None:
    image = open_recording(made.path)
    stream = str(image.path / STREAM)
    everything = _engine.watch(stream, [(1, 1 << 47, 0)], [], [3], [], 0, 1 << 40, False)
    accesses = everything["tables"]["watch_hit"]
    addresses, operations = list(accesses["address"]), list(accesses["operation"])
    sizes = image.table("operation").column("size").to_pylist()
    dice = random.Random(9)
    ranges = []
    for _ in range(10_000):
        start = dice.choice(addresses) + dice.randrange(-200, 200)
        ranges.append((start, start + dice.choice((1, 1, 2, 8, 24, 100)), 0))
    found = _engine.watch(stream, ranges, [], [3], [], 0, 0, False)
    # Brute force: bytes that are watched, by how many ranges, where ranges begin and go on.
    expected = 0
    ordered = sorted(ranges)
    starts = [start for start, _, _ in ordered]
    import bisect

    for address, operation in zip(addresses, operations, strict=True):
        end = address + sizes[operation]
        at = bisect.bisect_left(starts, end)
        expected += sum(1 for _, stop, _ in ordered[max(0, at - 2500) : at] if stop > address)
    assert found["hits"] == expected
    assert found["most_ranges"] == 10_000
    assert found["false_hits"] > 0


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("tabel", "there is no variable tabel"),
        ("table[*].cuont", "there is no field cuont"),
        ("table[100]", "there are 100 elements"),
        ("0x10-0x10", "the range is empty"),
        ("heap:nobody", "no heap block was made by nobody"),
        ("a b", "names nothing that could be watched"),
        ([], "nothing to watch"),
    ],
)
def test_what_cannot_be_watched_is_a_sentence(made: Made, target: str, why: str) -> None:
    with pytest.raises(StallscopeError, match=why):
        watch(target, made.path)


def test_the_verb(made: Made, stallscope: Callable[..., Ran]) -> None:
    ran = stallscope("watch", "table[*].count", "past:copy", made.path, "--json")
    document = json.loads(ran.stdout)
    assert document["schema"] == "stallscope.watch/1"
    assert document["watches"]["table[*].count"] == 1001
    shown = stallscope("watch", "past:copy", made.path, "--stop", "1").stdout
    assert f"overflow.c:{PAST}" in shown
    ran = stallscope("watch", "total", made.path, "--if", "value == 5")
    assert ran.status == 2
    assert "look at values" in ran.stderr
    assert "stallscope record --trace --values TARGET -- PROGRAM" in ran.stderr
    assert "there is no recording" in stallscope("watch", "total", "no.stallscope").stderr


def test_a_program_is_run_and_watched_in_one_step(
    program: Callable[..., Path], stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    output = tmp_path / "made.stallscope"
    words = ("watch", "past:copy", "-o", output, "--writes", "--csv", "--", program("overflow"))
    ran = stallscope(*words)
    assert ran.status == 0
    assert ran.stdout.splitlines()[-1].startswith("past:copy,2,writes,copy,")
    assert stallscope("watch", "total", "--").status == 2


def live(target: str, binary: Path, stallscope: Callable[..., Ran], *options: str) -> Any:
    ran = stallscope("watch", target, "--source", "live", *options, "--json", "--", binary)
    assert ran.status == 0, ran.stderr
    return json.loads(ran.stdout[ran.stdout.index("{") :])


def test_live_one_byte_past_a_block_is_caught_at_its_line(
    program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    found = live("past:copy", program("overflow"), stallscope, "--writes")
    assert found["source"] == "live, by pages behind blocks"
    assert [(row["function"], row["line"], row["hits"]) for row in found["rows"]] == [
        ("copy", PAST, 2)
    ]


def test_live_few_words_by_breakpoints_and_many_by_pages(
    program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    binary = program("overflow")
    few = live("total", binary, stallscope, "--writes")
    # Where somebody else has the registers, pages are protected instead.
    assert few["source"] in ("live, by breakpoints", "live, by page protection")
    assert few["hits"] == 1000
    many = live("table[*].count", binary, stallscope)
    assert many["source"] == "live, by page protection"
    assert many["hits"] == 1001
    assert {row["function"] for row in many["rows"]} == {"fill", "main"}
    stopped = live("total", binary, stallscope, "--writes", "--if", "value > 400000", "--stop", "1")
    assert stopped["stopped"]
    assert stopped["log"][0]["value"] > 400_000


def test_live_snapshots_hold_the_bytes_and_the_registers(
    program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    binary = program("overflow")
    for target, counts in (("table[7]", range(1, 11)), ("table[7].count", range(1, 11))):
        found = live(target, binary, stallscope, "--writes", "--snapshot")
        zeros = "00" * (8 if target == "table[7]" else 0)
        before = "00" * (4 if target == "table[7]" else 0)
        assert [hit["snapshot"] for hit in found["log"]] == [
            f"{before}{count:02x}000000{zeros}" for count in counts
        ]
        assert all(hit["registers"]["rsp"] > 1 << 40 for hit in found["log"])
        assert {hit["path"][0].split(" ")[0] for hit in found["log"]} == {"main"}
    few = live("total", binary, stallscope, "--writes", "--stop", "3", "--snapshot")
    assert [hit["snapshot"] for hit in few["log"]] == ["00" * 8, "01" + "00" * 7, "03" + "00" * 7]


def test_live_system_calls_into_watched_pages_go_on_working(
    program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    ran = stallscope("watch", "buffer", "--source", "live", "--", program("overflow"))
    assert "through a pipe 499500 10" in ran.stdout
    assert "by a call" in ran.stdout  # read() wrote into it


def test_live_bad_input(program: Callable[..., Path], stallscope: Callable[..., Ran]) -> None:
    binary = program("overflow")
    for words, why in (
        (("tabel",), "has no variable tabel"),
        (("total", "--if", "value ~ 3"), "not understood"),
        (("heap:copy",), "cannot be watched while it runs"),
        (("past:*", "total"), "is watched alone"),
    ):
        ran = stallscope("watch", *words, "--source", "live", "--", binary)
        assert ran.status == 2
        assert why in ran.stderr


def captured(program: Path, *targets: str, **options: Any) -> Watched:
    return watch_captured(targets, [str(program)], force=True, output="watched", **options)


def by_line(found: Watched) -> dict[tuple[str, str, int | None], int]:
    hits: dict[tuple[str, str, int | None], int] = {}
    for row in found.rows:
        hits[row.watch, row.kind, row.line] = (
            hits.get((row.watch, row.kind, row.line), 0) + row.hits
        )
    return hits


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("pie", [True, False])
def test_the_capture_tool_sees_what_replay_sees(
    made: Made, program: Callable[..., Path], pie: bool
) -> None:
    targets = ("table[*].count", "total", "table[3]")
    found = captured(program("overflow", pie=pie), *targets)
    assert by_line(found) == by_line(watch(targets, made.path))
    assert found.ranges == 102
    assert found.hits == sum(found.watches.values()) == len(found.log)
    assert {hit.path[0].split(" ")[0] for hit in found.log if hit.function == "fill"} == {"main"}


@pytest.mark.usefixtures("here")
def test_conditions_on_values(program: Callable[..., Path]) -> None:
    overflow = program("overflow")
    above = captured(overflow, "total", condition="value > 400000", reads=False)
    assert above.hits == sum(i * (i + 1) // 2 > 400_000 for i in range(1000))
    assert all(hit.value is not None and hit.value > 400_000 for hit in above.log)
    seen: list[int | None] = []
    options = {"condition": "value == 499500", "reads": False, "output": "once"}
    watch_program(["total"], [str(overflow)], on_hit=lambda hit: seen.append(hit.value), **options)
    assert seen == [499_500]


@pytest.mark.usefixtures("here")
def test_snapshots_stopping_and_counting(program: Callable[..., Path]) -> None:
    overflow = program("overflow")
    found = captured(overflow, "table[7]", snapshot=True, keep=4)
    assert found.hits == 10
    assert [hit.snapshot for hit in found.log] == [
        f"00000000{count:02x}000000{'00' * 8}" for count in range(1, 5)
    ]
    stopped = captured(overflow, "total", reads=False, stop=3)
    assert stopped.stopped
    assert [hit.value for hit in stopped.log] == [0, 1, 3]


def test_the_verb_watches_while_the_program_runs(
    program: Callable[..., Path], stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    overflow, output = program("overflow"), ("-o", tmp_path / "made", "-f")
    words = ("--if", "value == 6", "--writes", "--snapshot", "--log")
    ran = stallscope("watch", "total", *words, *output, "--", overflow)
    assert ran.status == 0, ran.stderr
    assert "total: 1 hits" in ran.stdout
    assert "= 0x6" in ran.stdout
    assert "06000000 00000000" in ran.stdout
    for targets, sentence in (
        (("totale",), "has no variable totale"),
        (("past:copy", "--source", "live", "--snapshot"), "for addresses and variables"),
    ):
        ran = stallscope("watch", *targets, "--if", "value == 6", "--", overflow)
        assert (ran.status, sentence in ran.stderr) == (2, True), ran.stderr


@pytest.mark.usefixtures("here")
def test_hits_of_the_capture_tool_are_a_table_that_can_be_asked(
    program: Callable[..., Path], stallscope: Callable[..., Ran]
) -> None:
    overflow = program("overflow")
    found = captured(overflow, "table[3].count", "total", keep=5, reads=False, snapshot=True)
    place = Path(found.recording)
    rows = "SELECT watch, sum(count) FROM watched GROUP BY watch ORDER BY watch"
    ran = stallscope("query", place, rows, "--csv")
    assert ran.stdout.split()[1:] == ["0,10", "1,1000"]
    one = "SELECT kind, size, value, snapshot FROM watched WHERE address IS NOT NULL AND watch = 1"
    told = json.loads(stallscope("query", place, f"{one} LIMIT 2", "--json").stdout)["rows"]
    assert told[1] == {"kind": 2, "size": 8, "value": 1, "snapshot": "0100000000000000"}
    assert "watched" not in stallscope("query", place, "SELECT kind FROM event", "--csv").stdout
    nothing = captured(overflow, "total", condition="value == 123456789")
    assert (nothing.hits, nothing.rows) == (0, ())
