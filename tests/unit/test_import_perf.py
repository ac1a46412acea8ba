# SPDX-License-Identifier: Apache-2.0
"""perf.data files as recordings at native speed."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from test_perf_data import INTEL, INTEL_PRINTED, MEMORY_LINE
from tests import perf_files
from tests.perf_files import LFB_HIT, RAM, PerfFile, Source

import stallscope
from conftest import verify

SOURCE = """
long table[4096];
static long other[4096];
long first(long i) { return table[i & 4095]; }
long second(long i) { return other[i & 4095] += i; }
int main(int n, char** words) { return (int)(first(n) + second(n)) & 1; }
"""


def imported(data: bytes, folder: Path, name: str = "x") -> stallscope.Recording:
    path = folder / f"{name}.data"
    path.write_bytes(data)
    made = stallscope.import_trace(path, output=folder / f"{name}.stallscope")
    verify(made.recording.path)
    return made.recording


def samples(recording: stallscope.Recording) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = recording.table("live_sample").to_pylist()
    return rows


@pytest.mark.parametrize("form", ["file", "pipe", "packed"])
def test_precise_loads_keep_address_latency_and_source(form: str, tmp_path: Path) -> None:
    made = perf_files.small()
    forms = {"file": made.bytes, "pipe": made.piped, "packed": lambda: made.packed().bytes()}
    recording = imported(forms[form](), tmp_path)
    facts = recording.meta
    assert (facts.source, facts.samples, facts.lost_samples) == ("import", 4, 5)
    assert facts.command == ["app"]
    assert facts.options["perf_command"] == ["perf", "mem", "record"]
    rows = samples(recording)
    assert [row["served"] for row in rows] == ["RAM", "L1 hit", "LFB hit", "L1 hit"]
    assert [row["latency"] for row in rows] == [230, 9, 40, 7]
    assert [row["state"] for row in rows] == ["memory", "compute", "memory", "kernel"]
    assert {row["how"] for row in rows} == {"given"}
    assert [row["weight"] for row in rows] == [1, 1, 3, 1]
    assert rows[0]["address"] == 0x7FFE00000100
    assert rows[1]["time"] - rows[0]["time"] == 1
    threads = {row["thread"]: row["name"] for row in recording.table("thread").to_pylist()}
    assert [threads[row["thread"]] for row in rows] == ["app", "app", "worker", "app"]
    assert "lost_samples" in {row["kind"] for row in recording.table("quality").to_pylist()}


def test_objects_functions_and_lines_speak_of_samples(tmp_path: Path) -> None:
    recording = imported(perf_files.small().bytes(), tmp_path)
    view = stallscope.view(recording)
    found = stallscope.objects(view)
    shares = {row.object: row.latency_share for row in found.rows}
    # One load of 230 cycles on the stack, three (one sample of a period of 3) of 40 in the mapping.
    assert shares == {
        "<stack>": pytest.approx(230 / 350),
        "<anonymous memory>": pytest.approx(120 / 350),
    }
    assert found.source == "import"
    functions = stallscope.functions(view)
    assert {row.function for row in functions.rows} == {"app+0x1010", "app+0x1020", "<kernel>"}
    assert stallscope.lines(view).rows
    assert stallscope.info(recording).samples == 4


def test_what_needs_every_access_is_refused_for_samples(tmp_path: Path) -> None:
    recording = imported(perf_files.small().bytes(), tmp_path)
    for question in (stallscope.misses, stallscope.evictions):
        with pytest.raises(stallscope.StallscopeError, match="samples"):
            question(stallscope.view(recording))
    with pytest.raises(stallscope.StallscopeError, match="not for samples"):
        stallscope.view(recording, machine="cachegrind")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(SOURCE)
    flags = ["-g", "-O1", "-fno-pie", "-no-pie", "-fno-inline", "-Wl,--build-id"]
    subprocess.run(["gcc", *flags, "p.c", "-o", "p"], cwd=folder, check=True)
    return folder / "p"


def recorded_loads(program: Path, build_id: bytes) -> bytes:
    """As if perf mem had seen two loads and a store of the program."""
    with program.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        at = {name: table.get_symbol_by_name(name)[0]["st_value"] for name in
              ("first", "second", "table", "other")}  # fmt: skip
        code = next(s for s in elf.iter_segments() if s["p_flags"] & 1 and s["p_type"] == "PT_LOAD")
        start, size, offset = code["p_vaddr"] & ~4095, code["p_memsz"] + 4096, code["p_offset"]
    source = Source(time=10)
    records = [
        perf_files.comm("p", source, exec=True),
        perf_files.mapping(str(program), start, size & ~4095, source, offset & ~4095),
        perf_files.load(at["first"], at["table"] + 512, Source(time=20), 300, RAM),
        perf_files.load(at["first"], at["table"] + 8, Source(time=21), 300, RAM),
        perf_files.load(at["second"], at["other"] + 64, Source(time=22), 60, LFB_HIT),
    ]
    ids = b""
    if build_id:
        content = b"\0" * 4 + build_id.ljust(24, b"\0") + perf_files.text(str(program))
        ids = perf_files.record(67, perf_files.USER, content)
    return PerfFile(records, features={2: ids} if ids else {}).bytes()


def build_id_of(program: Path) -> bytes:
    with program.open("rb") as file:
        notes = ELFFile(file).get_section_by_name(".note.gnu.build-id")
        return bytes.fromhex(next(notes.iter_notes())["n_desc"])


def test_functions_and_variables_of_a_file_that_is_here_have_names(
    program: Path, tmp_path: Path
) -> None:
    recording = imported(recorded_loads(program, build_id_of(program)), tmp_path)
    view = stallscope.view(recording)
    assert [(row.object, row.sampled) for row in stallscope.objects(view).rows] == [
        ("table", 2),
        ("other", 1),
    ]
    assert {row.function for row in stallscope.functions(view).rows} == {"first", "second"}
    lines = {(Path(row.file).name, row.line) for row in stallscope.lines(view).rows}
    assert lines == {("p.c", 4), ("p.c", 5)}


@pytest.mark.parametrize("build_id", [b"", b"x" * 20])
def test_a_file_that_may_be_another_gives_no_names(
    build_id: bytes, program: Path, tmp_path: Path
) -> None:
    recording = imported(recorded_loads(program, build_id), tmp_path)
    found = stallscope.objects(stallscope.view(recording))
    assert not {"table", "other"} & {row.object for row in found.rows}
    functions = stallscope.functions(stallscope.view(recording))
    assert all(row.function.startswith("p+0x") for row in functions.rows)
    assert "other_files" in {row["kind"] for row in recording.table("quality").to_pylist()}


def test_a_mapped_pipe_is_not_opened(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / "pipe")
    content = b"\0" * 4 + b"y" * 24 + perf_files.text(path)
    records = [
        perf_files.mapping(path, 0x400000, 0x1000, Source(time=1)),
        perf_files.load(0x400010, 0x400800, Source(time=2)),
    ]
    features = {2: perf_files.record(67, perf_files.USER, content)}
    assert imported(PerfFile(records, features=features).bytes(), tmp_path).meta.samples == 1


def test_processes_are_apart_and_the_most_sampled_one_is_the_root(tmp_path: Path) -> None:
    records = [
        perf_files.comm("few", Source(pid=1, tid=1, time=1)),
        perf_files.comm("many", Source(pid=2, tid=2, time=2)),
        perf_files.comm("none", Source(pid=3, tid=3, time=2)),
        perf_files.load(0x1000, 0x2000, Source(pid=1, tid=1, time=3)),
        *(perf_files.load(0x1000, 0x2000, Source(pid=2, tid=2, time=4 + i)) for i in range(3)),
    ]
    recording = imported(PerfFile(records).bytes(), tmp_path)
    found = [(image.meta.command, image.meta.samples) for image in recording.processes()]
    assert found == [(["many"], 3), (["few"], 1)]


def test_a_file_without_samples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.data"
    path.write_bytes(PerfFile([perf_files.comm("idle", Source())]).bytes())
    with pytest.raises(stallscope.StallscopeError, match="holds no samples"):
        stallscope.import_trace(path, output=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_truncated_file_says_so(tmp_path: Path) -> None:
    whole = perf_files.small()
    data = whole.bytes()
    end = data.index(b"PERFILE2") + 104 + 8 + 144 + len(b"".join(whole.records)) - 60
    recording = imported(data[:end], tmp_path)
    assert not recording.meta.complete
    assert "truncated" in {row["kind"] for row in recording.table("quality").to_pylist()}


def test_mappings_at_the_end_of_memory_are_left_out(tmp_path: Path) -> None:
    records = [
        perf_files.comm("app", Source(time=1), exec=True),
        perf_files.mapping("//anon", 0xFFFF_FFFF_0000_0000, 0xFFFF_FFFF, Source(time=2), data=True),
        perf_files.load(0x1000, 0xFFFF_FFFF_0000_1000, Source(time=3), 400, RAM),
    ]
    recording = imported(PerfFile(records).bytes(), tmp_path)
    assert recording.table("object").num_rows == 0


def test_a_damaged_file_is_imported_or_refused(tmp_path: Path) -> None:
    chance = random.Random(9)
    wholes = [perf_files.small().bytes(), perf_files.small().piped()]
    done = 0
    for _ in range(60):
        data = bytearray(chance.choice(wholes))
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(len(data))
            data[at : at + 8] = chance.choice([b"\xff" * 8, bytes(8), chance.randbytes(1)])
        try:
            recording = imported(bytes(data), tmp_path)
            view = stallscope.view(recording)
            stallscope.objects(view)
            stallscope.functions(view)
            shutil.rmtree(recording.path)
            done += 1
        except stallscope.StallscopeError as error:
            assert error.what
    assert 0 < done < 60


def test_an_intel_recording_is_imported_as_perf_script_prints_it(tmp_path: Path) -> None:
    if not INTEL.exists():
        pytest.skip("the recording is not here")
    made = stallscope.import_trace(INTEL, output=tmp_path / "r").recording
    verify(made.path)
    printed = [MEMORY_LINE.match(line) for line in INTEL_PRINTED.read_text().splitlines()]
    theirs = Counter(
        (int(line["ip"], 16), int(line["address"], 16), int(line["weight"]), line["level"])
        for line in printed
        if line is not None
    )
    ours = Counter(
        (row["ip"], row["address"], row["latency"], row["served"])
        for image in made.processes()
        for row in samples(image)
    )
    assert ours == theirs
    # perf prints no symbols either, but says which files: /lib/x86_64-linux-gnu/ld-2.23.so, libc.
    functions = {row.function for row in stallscope.functions(stallscope.view(made)).rows}
    assert functions == {"<kernel>", "ld-2.23.so+0x1df80", "libc-2.23.so+0x14324b"}
    assert made.meta.host["processor"] == "Intel(R) Xeon(R) CPU E5-4610 v2 @ 2.30GHz"


LINE = re.compile(r"\s*(?P<ip>[0-9a-f]+) (?P<symbol>.+?)(?:\+0x[0-9a-f]+)? \((?P<file>.*)\)$")


def test_what_perf_records_here_has_the_names_that_perf_prints(tmp_path: Path) -> None:
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("there is no perf")
    (tmp_path / "w.c").write_text(
        "#include <stdlib.h>\nlong big[1 << 20];\n"
        "__attribute__((noinline)) long walk(long n) { long s = 0; unsigned long x = 1;\n"
        "  while (n--) { x = x * 6364136223846793005 + 1; s += big[x >> 44]; } return s; }\n"
        "int main(void) { return (int)walk(20000000) & 1; }\n"
    )
    subprocess.run(["gcc", "-g", "-O1", "w.c", "-o", "w"], cwd=tmp_path, check=True)
    words = [perf, "record", "-q", "-e", "cpu-clock:u", "-F", "499", "-o", "w.data", "./w"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True)
    if not (tmp_path / "w.data").exists():
        pytest.skip(f"perf cannot record here: {ran.stderr.decode(errors='replace')}")
    printed = subprocess.run(
        [perf, "script", "-F", "ip,sym,dso", "-i", "w.data"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    theirs: dict[int, str] = {}
    counted: Counter[int] = Counter()
    for line in printed.splitlines():
        found = LINE.match(line)
        assert found is not None, line
        counted[int(found["ip"], 16)] += 1
        theirs[int(found["ip"], 16)] = found["symbol"]
    recording = imported((tmp_path / "w.data").read_bytes(), tmp_path, "w")
    rows = [row for image in recording.processes() for row in samples(image)]
    assert Counter(row["ip"] for row in rows) == counted
    names = {row["operation"]: row["function"] for row in recording.table("operation").to_pylist()}
    in_walk = [row for row in samples(recording) if theirs[row["ip"]] == "walk"]
    assert in_walk
    # The access that a sample waits for may stand just in front of the function's own code.
    agree = sum(names[row["operation"]] == "walk" for row in in_walk)
    assert agree >= 0.95 * len(in_walk)
