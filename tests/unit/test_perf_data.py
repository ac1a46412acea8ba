# SPDX-License-Identifier: Apache-2.0
"""The reader of perf.data files, held against what perf script prints of the same files."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import perf_files

from stallscope import _engine

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("STALLSCOPE_SHARED", ROOT.parent / "shared"))
INTEL = SHARED / "data" / "perf-mem-e5-4610v2.data"
# perf 6.1: perf script --ns -F comm,pid,tid,time,period,event,ip,addr,weight,data_src
INTEL_PRINTED = ROOT / "tests" / "golden" / "perf-mem-e5-4610v2.txt"


def rows(path: Path) -> list[dict[str, Any]]:
    columns = _engine.read_perf_data(str(path))["samples"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


MEMORY_LINE = re.compile(
    r"\s*(?P<command>.+?)\s+(?P<pid>\d+)/(?P<tid>\d+)\s+(?P<seconds>\d+)\.(?P<ns>\d{9}):\s+"
    r"(?P<period>\d+)\s+(?P<event>\S+):\s+(?P<address>[0-9a-f]+)\s+(?P<source>[0-9a-f]+)\s+"
    r"\|OP (?P<operation>\w+)\|LVL (?P<level>[^|]+)\|SNP (?P<snoop>[^|]+)\|TLB (?P<tlb>[^|]+)"
    r"\|LCK (?P<lock>\w+)\|\S+\s+\S+\s+(?P<weight>\d+)\s+(?P<ip>[0-9a-f]+)"
)


def test_an_intel_recording_reads_as_perf_script_prints_it() -> None:
    if not INTEL.exists():
        pytest.skip("the recording is not here")
    found = rows(INTEL)
    printed = [MEMORY_LINE.match(line) for line in INTEL_PRINTED.read_text().splitlines()]
    assert len(found) == len(printed) == 14
    for ours, theirs in zip(found, printed, strict=True):
        assert theirs is not None
        assert ours["command"] == theirs["command"]
        assert ours["event"] == theirs["event"]
        assert (ours["pid"], ours["tid"]) == (int(theirs["pid"]), int(theirs["tid"]))
        assert ours["time"] == int(theirs["seconds"] + theirs["ns"])
        assert ours["period"] == int(theirs["period"])
        assert ours["address"] == int(theirs["address"], 16)
        assert ours["ip"] == int(theirs["ip"], 16)
        assert ours["weight"] == int(theirs["weight"])
        assert ours["data_source"] == int(theirs["source"], 16)
        assert ours["operation"] == theirs["operation"].lower()
        assert ours["served"] == theirs["level"]
        assert ours["snoop"] == theirs["snoop"].lower()
        assert ours["tlb"] == theirs["tlb"]
        assert ours["locked"] == (theirs["lock"] == "Yes")


def test_an_intel_recording_says_where_it_was_made() -> None:
    if not INTEL.exists():
        pytest.skip("the recording is not here")
    facts = _engine.read_perf_data(str(INTEL))["facts"]
    assert facts["hostname"] == "server3"
    assert facts["cpu"] == "Intel(R) Xeon(R) CPU E5-4610 v2 @ 2.30GHz"
    assert facts["perf_version"] == "4.4.98"
    assert (facts["cpus_available"], facts["cpus_online"]) == (64, 32)
    assert facts["command"][-2:] == ["record", "ls"]
    assert dict(facts["build_ids"])["[kernel.kallsyms]"].hex().startswith("311f6f0bc443")


WAYS = {
    "file": ["-o", "x.data", "-g"],
    "two_events": ["-o", "x.data", "-e", "page-faults", "-c", "1"],
    "compressed": ["-o", "x.data", "-z", "-e", "page-faults", "-c", "1"],
    "pipe": ["-o", "-", "-e", "page-faults", "-c", "1"],
}
CLOCK_LINE = re.compile(
    r"\s*(?P<command>.+?)\s+(?P<pid>\d+)/(?P<tid>\d+)\s+(?P<seconds>\d+)\.(?P<ns>\d{9}):\s+"
    r"(?P<period>\d+)\s+(?P<event>[^:]+):.*?(?P<ip>[0-9a-f]+)$"
)


@pytest.mark.parametrize("way", WAYS)
def test_what_perf_records_here_reads_as_perf_script_prints_it(way: str, tmp_path: Path) -> None:
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("there is no perf")
    path = tmp_path / "x.data"
    program = ["sh", "-c", "ls -R /etc >/dev/null"]
    command = [perf, "record", "-q", "-e", "cpu-clock", *WAYS[way], "--", *program]
    with (path if way == "pipe" else tmp_path / "out").open("wb") as out:
        done = subprocess.run(command, cwd=tmp_path, stdout=out, stderr=subprocess.PIPE)
    if done.returncode != 0:
        pytest.skip(f"perf cannot record here: {done.stderr.decode(errors='replace')}")
    fields = "comm,pid,tid,time,period,event,ip"
    printed = subprocess.run(
        [perf, "script", "--ns", "-G", "-F", fields, "-i", str(path)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    expected = []
    for line in printed.splitlines():
        found = CLOCK_LINE.match(line)
        assert found is not None, line
        expected.append(
            (found["command"], int(found["pid"]), int(found["tid"]),
             int(found["seconds"] + found["ns"]), int(found["period"]), found["event"],
             int(found["ip"], 16))
        )  # fmt: skip
    names = ("command", "pid", "tid", "time", "period", "event", "ip")
    assert expected
    assert [tuple(row[name] for name in names) for row in rows(path)] == expected


@pytest.mark.parametrize("form", ["file", "pipe", "packed"])
def test_every_form_of_a_file_holds_the_same(form: str, tmp_path: Path) -> None:
    made = perf_files.small()
    path = tmp_path / "x.data"
    forms = {"file": made.bytes, "pipe": made.piped, "packed": lambda: made.packed().bytes()}
    path.write_bytes(forms[form]())
    found = rows(path)
    assert [row["time"] for row in found] == [1004, 1005, 1009, 1010]
    assert [row["served"] for row in found] == ["RAM", "L1 hit", "LFB hit", "L1 hit"]
    assert [row["command"] for row in found] == ["app", "app", "worker", "app"]
    assert found[2]["weight"] == 40
    read = _engine.read_perf_data(str(path))
    assert read["lost"] == 5
    assert read["facts"]["hostname"] == "somewhere"


def test_a_damaged_file_is_read_or_refused_with_a_sentence(tmp_path: Path) -> None:
    """A sample of what the fuzzer does."""
    chance = random.Random(4)
    path = tmp_path / "x.data"
    refused = 0
    wholes = [
        perf_files.small().bytes(),
        perf_files.small().piped(),
        perf_files.small().packed().bytes(),
    ]
    for _ in range(1500):
        data = bytearray(chance.choice(wholes))
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data[at : at + 8] = chance.choice([b"\xff" * 8, bytes(8), b"\x08" + bytes(7)])
                case _:
                    del data[at : at + chance.randint(1, 16)]
        path.write_bytes(data)
        try:
            _engine.read_perf_data(str(path))
        except _engine.EngineError as error:
            refused += 1
            what, why, _ = error.args
            assert str(path) in what and why
    assert 100 < refused < 1500
