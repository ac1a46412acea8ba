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

from stallscope import StallscopeError, _engine, watch
from stallscope.recording import STREAM, open_recording

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
    assert stallscope("watch", "total", made.path, "--if", "value == 5").status == 2
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
        (("heap:copy",), "cannot be watched at native speed"),
        (("past:*", "total"), "is watched alone"),
    ):
        ran = stallscope("watch", *words, "--source", "live", "--", binary)
        assert ran.status == 2
        assert why in ran.stderr
