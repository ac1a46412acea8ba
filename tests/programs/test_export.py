# SPDX-License-Identifier: Apache-2.0
"""Every format is opened by a reader of its own, and hostile names stay text in it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stallscope as api
from conftest import Made, Ran, Recorder
from stallscope.analyses.export import Counter, Export, Level, Span, Spot
from stallscope.errors import StallscopeError
from stallscope.exporting import FORMATS
from stallscope.views.exports import (
    callgrind,
    firefox,
    openmetrics,
    parquet,
    perfetto,
    pprof,
    speedscope,
)
from stallscope.views.exports import csv as csv_export

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = '<script>alert(1)</script>"\n\t\0[/bold](1)\x1b[31m\\=cmd'


@pytest.fixture(scope="module")
def made(program: Callable[..., Path], shared_record: Recorder) -> Made:
    return shared_record(program("hot_struct"), options=["--machine", "default"])


@pytest.fixture(scope="module")
def files(made: Made, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("exports")
    return {
        name: api.export(made.path, format=name, output=folder / f"out.{name}") for name in FORMATS
    }


def hostile() -> Export:
    spot = Spot(HOSTILE, HOSTILE, 3, HOSTILE, "heap", 5, 70)
    return Export(
        program=HOSTILE,
        command=[HOSTILE],
        created="",
        machine=HOSTILE,
        misses_unit="L1D misses",
        latency_unit="cycles",
        time_unit="instructions",
        instructions=9,
        pid=1,
        levels=[Level("L1D", "cache", 9, 5)],
        threads={1: HOSTILE},
        spots=[spot],
        spans=[Span(HOSTILE, 1, 0, 9)],
        counters=[Counter("heap", "bytes", [0, 5], [10, 20])],
    )


def costs(made: Made) -> tuple[int, int]:
    found = api.objects(api.view(made.path))
    return found.misses, sum(row.latency for row in found.rows)


# --- a decoder of protocol buffers that knows only their wire format


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size
        assert at <= len(data)


def packed(data: bytes) -> list[int]:
    return [value for _, value in fields(b"".join(b"\x08" + part for part in _varints(data)))]


def _varints(data: bytes) -> list[bytes]:
    return re.findall(rb"[\x80-\xff]*[\x00-\x7f]", data)


def profile(data: bytes) -> tuple[list[str], list[list[int]]]:
    """Strings, and values of samples."""
    strings, samples = [], []
    for number, value in fields(gzip.decompress(data)):
        if number == 6:
            strings.append(value.decode())
        elif number == 2:
            samples.append(packed(next(v for n, v in fields(value) if n == 2)))
    return strings, samples


def test_pprof_has_all_costs_and_names(made: Made, files: dict[str, Path]) -> None:
    strings, samples = profile(files["pprof"].read_bytes())
    assert strings[0] == ""
    assert {"sum", "build", "latency", "cycles", "object"} <= set(strings)
    assert tuple(map(sum, zip(*samples, strict=True))) == costs(made)


# What a decoder that is made for the format finds in it.
DECODE_PPROF = """
const { Profile } = require(process.argv[1]);
const profile = Profile.decode(
  require("zlib").gunzipSync(require("fs").readFileSync(process.argv[2])));
const text = (index) => profile.stringTable.strings[Number(index)];
const sums = profile.sampleType.map((_, i) =>
  profile.sample.reduce((sum, sample) => sum + Number(sample.value[i]), 0));
console.log(JSON.stringify({
  types: profile.sampleType.map((one) => [text(one.type), text(one.unit)]), sums,
  functions: profile.function.map((one) => text(one.name)),
}));
"""


def package(name: str) -> Path:
    """A package that npm installed when this was built."""
    found = next(ROOT.glob(f"build/cp3*/src/stallscope/views/html/page/node_modules/{name}"), None)
    if found is None or shutil.which("node") is None:
        pytest.skip("built without npm")
    return found


def test_pprof_is_read_by_a_decoder_of_its_own(made: Made, files: dict[str, Path]) -> None:
    words = ["node", "-e", DECODE_PPROF, package("pprof-format"), files["pprof"]]
    ran = subprocess.run(words, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["types"] == [["L1D misses", "count"], ["latency", "cycles"]]
    assert tuple(found["sums"]) == costs(made)
    assert {"sum", "build"} <= set(found["functions"])


def test_the_firefox_profiler_reads_its_format(
    made: Made, files: dict[str, Path], tmp_path: Path
) -> None:
    """By the profiler's own commands, which keep a process that holds the profile."""
    program = package("@firefox-devtools/profiler-cli") / "dist" / "profiler-cli.js"

    def asked(*words: object, times: int = 1) -> str:
        command = ["node", str(program), *map(str, words)]
        home = os.environ | {"HOME": str(tmp_path)}
        for _ in range(times):
            ran = subprocess.run(command, capture_output=True, text=True, env=home, timeout=120)
            if ran.returncode == 0:
                return ran.stdout
        raise AssertionError(ran.stderr)

    named = shutil.copy(files["firefox"], tmp_path / "hot.json")
    try:
        asked("load", named, times=20)  # it waits for that process for half a second only
        found = json.loads(asked("thread", "functions", "--json"))
        assert "hot_struct" in asked("profile", "info")
    finally:
        asked("stop", "--all")
    by_name = {one["name"]: one for one in found["functions"]}
    assert {"sum", "build"} <= set(by_name)
    objects = {row.object: row for row in api.objects(api.view(made.path)).rows}
    worst = max(found["functions"], key=lambda one: one["selfSamples"])
    assert objects[worst["name"].strip("[]")].latency == worst["selfSamples"]
    shares = worst["selfSamples"] / (worst["selfPercentage"] / 100)
    assert round(shares) == costs(made)[1]


def test_callgrind_annotate_reads_its_format(made: Made, files: dict[str, Path]) -> None:
    if shutil.which("callgrind_annotate") is None:
        pytest.skip("it comes with valgrind")
    words = ["callgrind_annotate", str(files["callgrind"])]
    ran = subprocess.run(words, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    misses, latency = costs(made)
    totals = next(line for line in ran.stdout.splitlines() if "PROGRAM TOTALS" in line)
    assert f"{latency:,}" in totals
    assert f"{misses:,}" in totals
    assert "hot_struct.c:sum" in ran.stdout


def test_speedscope_follows_its_schema(made: Made, files: dict[str, Path]) -> None:
    document = json.loads(files["speedscope"].read_text())
    assert document["$schema"].endswith("file-format-schema.json")
    frames = document["shared"]["frames"]
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in frames)
    for profile in document["profiles"]:
        assert profile["type"] == "sampled"
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
        assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
    assert document["profiles"][1]["endValue"] == costs(made)[0]


def test_firefox_tables_fit_together(made: Made, files: dict[str, Path]) -> None:
    [thread] = json.loads(files["firefox"].read_text())["threads"]
    for name in ("samples", "stackTable", "frameTable", "funcTable"):
        table = thread[name]
        columns = [value for value in table.values() if isinstance(value, list)]
        assert all(len(column) == table["length"] for column in columns)
    stacks, frames, functions = (thread[n] for n in ("stackTable", "frameTable", "funcTable"))
    names = set()
    for stack in thread["samples"]["stack"]:
        while stack is not None:
            function = frames["func"][stacks["frame"][stack]]
            names.add(thread["stringArray"][functions["name"][function]])
            stack = stacks["prefix"][stack]
    assert {"sum", "build"} <= names
    assert sum(thread["samples"]["weight"]) == costs(made)[1]


def test_perfetto_has_threads_and_the_heap(files: dict[str, Path]) -> None:
    events = json.loads(files["perfetto"].read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    heap = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert max(heap) >= 480_000
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_tables_are_read_by_duckdb_and_csv(made: Made, files: dict[str, Path]) -> None:
    import duckdb

    query = "select sum(misses)::bigint, sum(latency)::bigint from read_parquet(?)"
    assert duckdb.execute(query, [str(files["parquet"])]).fetchone() == costs(made)
    rows = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
    assert sum(int(row["latency"]) for row in rows) == costs(made)[1]


# A line of OpenMetrics: a name, labels with three escapes, a number.
METRIC = re.compile(r'(stallscope_\w+_total)\{((?:\w+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*)\} (\d+)')


def metrics(text: str) -> dict[str, int]:
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    sums: dict[str, int] = {}
    for line in lines[:-2]:
        if line.startswith("# "):
            assert re.fullmatch(r"# (TYPE stallscope_\w+ counter|HELP stallscope_\w+ .*)", line)
            continue
        match = METRIC.fullmatch(line)
        assert match, line
        sums[match[1]] = sums.get(match[1], 0) + int(match[3])
    return sums


def test_openmetrics_lines_are_such(made: Made, files: dict[str, Path]) -> None:
    sums = metrics(files["openmetrics"].read_text())
    assert sums["stallscope_function_misses_total"] <= costs(made)[0]
    assert sums["stallscope_function_misses_total"] >= 0.99 * costs(made)[0]
    from prometheus_client.openmetrics import parser

    families = list(parser.text_string_to_metric_families(files["openmetrics"].read_text()))
    assert any(family.name == "stallscope_level_misses" for family in families)


def test_hostile_names_stay_text_in_every_format(tmp_path: Path) -> None:
    export = hostile()
    strings, samples = profile(pprof.render(export))
    assert HOSTILE in strings
    assert samples == [[5, 70]]
    assert json.loads(perfetto.render(export))["traceEvents"][0]["args"]["name"] == HOSTILE
    assert json.loads(speedscope.render(export))["shared"]["frames"][0]["name"] == HOSTILE
    assert HOSTILE in json.loads(firefox.render(export))["threads"][0]["stringArray"]
    assert metrics(openmetrics.render(export).decode())["stallscope_object_misses_total"] == 5
    [row] = csv.DictReader(io.StringIO(csv_export.render(export).decode(), newline=""))
    assert row["function"] == HOSTILE.replace("\0", "\\x00")
    lines = callgrind.render(export).decode().splitlines()
    assert sum(line.startswith("fn=") for line in lines) == 1
    assert "totals: 70 5" in lines
    path = tmp_path / "hostile.parquet"
    path.write_bytes(parquet.render(export))
    import duckdb

    assert duckdb.execute("select object from read_parquet(?)", [str(path)]).fetchone() == (
        HOSTILE,
    )


def test_formulas_are_not_run_by_spreadsheets() -> None:
    export = hostile()
    spot = Spot("=cmd()", "", None, "@x", "heap", 1, 1)
    import msgspec

    text = csv_export.render(msgspec.structs.replace(export, spots=[spot])).decode()
    assert "'=cmd()" in text
    assert "'@x" in text


def test_nothing_of_the_program_is_left_when_anonymous(made: Made, tmp_path: Path) -> None:
    for name in FORMATS:
        path = api.export(made.path, format=name, output=tmp_path / name, anonymize=True)
        data = path.read_bytes()
        text = gzip.decompress(data) if name == "pprof" else data
        for word in (b"hot_struct", b"build", str(made.path.parent).encode()):
            assert word not in text, (name, word)


def test_what_cannot_be_exported_gets_one_sentence(
    made: Made, tmp_path: Path, stallscope: Callable[..., Ran]
) -> None:
    with pytest.raises(StallscopeError, match="no such format"):
        api.export(made.path, format="svg", output=tmp_path / "x")
    (tmp_path / "there").write_text("")
    ran = stallscope("export", made.path, "--format", "csv", "-o", tmp_path / "there")
    assert ran.status == 2
    assert "exists already" in ran.stderr
    ran = stallscope("export", made.path, "--format", "csv", "-o", tmp_path / "no" / "x")
    assert ran.status == 2
    assert "cannot write" in ran.stderr
