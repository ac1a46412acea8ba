# SPDX-License-Identifier: Apache-2.0
"""Traces of other tools as recordings, on files whose answers are known."""

from __future__ import annotations

import gzip
import lzma
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stallscope
from conftest import verify

BASE = 0x7F00_0000_0000
LINE = 64
LINES = 4096  # 256 KiB: larger than L1, smaller than the last level
ROUNDS = 3


def walk() -> list[int]:
    """Every line of an array, in order, a few times: the first level misses each time, the last
    only the first time."""
    return [BASE + LINE * i for _ in range(ROUNDS) for i in range(LINES)]


def imported(path: Path, **options: object) -> stallscope.Recording:
    out = path.with_suffix(".stallscope")
    made = stallscope.import_trace(path, output=out, **options)  # type: ignore[arg-type]
    verify(out)
    return made.recording


def misses(recording: stallscope.Recording) -> dict[str, int]:
    """By level, on cachegrind's machine: 32 KiB of first level, 8 MiB or more of last."""
    found = stallscope.replay(stallscope.view(recording, machine="cachegrind"))
    return {row.level: row.misses for row in found.rows}


def check_walk(recording: stallscope.Recording) -> None:
    found = misses(recording)
    assert found["D1"] == LINES * ROUNDS
    assert LINES <= found["LL"] <= LINES + 2  # and the code's own lines


def csv_text(addresses: Sequence[int]) -> str:
    return "address,size,kind\n" + "".join(f"{a:#x},8,load\n" for a in addresses)


def lackey_text(addresses: Sequence[int]) -> str:
    lines = ["==1== Lackey, an example Valgrind tool", "==1== Command: ./walk far", "==1== "]
    for address in addresses:
        lines += ["I  00401000,4", f" L {address:08x},8"]
    return "\n".join([*lines, "==1== Exit code: 0", ""])


def view_text(addresses: Sequence[int], thread: str = "4711") -> str:
    """As DynamoRIO's documentation shows it."""
    lines = [
        "Output format:",
        "<--record#-> <--instr#->: <---tid---> <record details>",
        "------------------------------------------------------------",
        f"{1:12} {0:11}: {thread:>11} <marker: version 5>",
    ]
    for i, a in enumerate(addresses, 1):
        head = f"{2 * i:12} {i:11}: {thread:>11}"
        code = "48 8b 5c 24 08       mov    0x08(%rsp)[8byte] -> %rbx"
        lines.append(f"{head} ifetch       5 byte(s) @ 0x0000000000404a7e {code}")
        lines.append(f"{head} read         8 byte(s) @ {a:#018x} by PC 0x0000000000404a7e")
    return "\n".join([*lines, "View tool results:", f"{len(addresses):15} : total instructions"])


def champsim_bytes(addresses: Sequence[int]) -> bytes:
    """ip, branch, taken, registers written (2) and read (4), stores (2), loads (4)."""
    return b"".join(
        struct.pack("<QBB2B4B2Q4Q", 0x401000, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, a, 0, 0, 0)
        for a in addresses
    )


WRITERS: dict[str, Callable[[Sequence[int]], bytes]] = {
    "csv": lambda a: csv_text(a).encode(),
    "lackey": lambda a: lackey_text(a).encode(),
    "drmemtrace": lambda a: view_text(a).encode(),
    "champsim": champsim_bytes,
}


@pytest.mark.parametrize("format", WRITERS)
def test_a_walk_over_lines_misses_as_often_as_it_must(format: str, tmp_path: Path) -> None:
    path = tmp_path / "walk.trace"
    path.write_bytes(WRITERS[format](walk()))
    recording = imported(path)
    assert recording.meta.options["format"] == format
    assert recording.meta.source == "import"
    assert recording.meta.loads == LINES * ROUNDS
    assert recording.meta.stores == 0
    check_walk(recording)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, "zstd"])
def test_a_packed_trace_is_unpacked(pack: Callable[[bytes], bytes] | str, tmp_path: Path) -> None:
    data = champsim_bytes(walk())
    packed = pa.Codec("zstd").compress(data, asbytes=True) if pack == "zstd" else pack(data)  # type: ignore[operator]
    path = tmp_path / "walk.champsimtrace.packed"
    path.write_bytes(packed)
    check_walk(imported(path))


def test_a_parquet_file_reads_as_its_csv_does(tmp_path: Path) -> None:
    path = tmp_path / "walk.parquet"
    columns = {
        "Address": pa.array(walk(), pa.uint64()),
        "bytes": pa.array([8] * len(walk()), pa.int16()),
        "rw": pa.array(["R"] * len(walk())).dictionary_encode(),
        "pc": pa.array([0x401000] * len(walk()), pa.int64()),
    }
    pq.write_table(pa.table(columns), path)
    check_walk(imported(path))


def test_rows_keep_their_kinds_threads_and_instructions(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "time;tid;type;addr;bytes;pc\n"
        "1;70;W;4096;4;0x401000\n"
        "1;71;r;8192;4;0x401004\n"
        '5;70;modify;"0x1000";8;0x401008\n'
        "6;70;1;4100;4;0x401000\n"
    )
    recording = imported(path)
    operations = recording.table("operation").to_pylist()
    assert [(o["address"], o["kind"], o["size"], o["executions"]) for o in operations] == [
        (0x401000, 1, 4, 2),
        (0x401004, 0, 4, 1),
        (0x401008, 2, 8, 1),
    ]
    assert [t["lwp"] for t in recording.table("thread").to_pylist()] == [70, 71]
    assert [t["instructions"] for t in recording.table("thread").to_pylist()] == [3, 1]
    areas = [(o["kind"], o["address"]) for o in recording.table("object").to_pylist()]
    assert areas == [("mapping", 4096)]  # one area: the pages are neighbours


def test_areas_that_lie_apart_are_objects_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    far = BASE + (1 << 30)
    path.write_text(csv_text([BASE, BASE + 5000, far, far + 64, far + 8192]))
    recording = imported(path)
    found = stallscope.objects(stallscope.view(recording))
    assert {row.object: row.misses for row in found.rows} == {hex(BASE): 2, hex(far): 3}


def test_lackey_says_what_was_run(tmp_path: Path) -> None:
    path = tmp_path / "x.lackey"
    path.write_text(lackey_text([BASE]))
    assert imported(path).meta.command == ["./walk", "far"]


def test_maps_give_names(tmp_path: Path) -> None:
    path, maps = tmp_path / "x.csv", tmp_path / "maps"
    path.write_text(csv_text([0x1000, BASE]))
    maps.write_text(f"{BASE:x}-{BASE + 4096:x} rw-p 00000000 00:00 0    [heap]\n")
    recording = imported(path, maps=maps)
    names = {o["name"] for o in recording.table("object").to_pylist()}
    assert names == {"0x1000", "[heap]"}


def test_threads_of_dynamorio_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(view_text([BASE] * 3) + "\n" + view_text([BASE] * 2, "W0.T4712"))
    threads = imported(path).table("thread").to_pylist()
    assert [(t["lwp"], t["instructions"]) for t in threads] == [(4711, 3), (4712, 2)]


def test_reading_stops_at_the_number_of_accesses_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "walk.csv"
    path.write_text(csv_text(walk()))
    recording = imported(path, max_accesses=100)
    assert recording.meta.loads == 100
    assert "limited" in {row["kind"] for row in recording.table("quality").to_pylist()}


def test_an_instruction_of_champsim_reads_before_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "x.champsimtrace"
    record = struct.pack(
        "<QBB2B4B2Q4Q", 0x401000, 1, 1, 0, 0, 0, 0, 0, 0, BASE, 0, BASE + 64, BASE + 128, 0, 0
    )
    path.write_bytes(record)
    recording = imported(path)
    kinds = [o["kind"] for o in recording.table("operation").to_pylist()]
    assert kinds == [0, 0, 1]
    assert (recording.meta.instructions, recording.meta.loads, recording.meta.stores) == (1, 2, 1)


def test_what_is_there_of_a_cut_off_file_is_read(tmp_path: Path) -> None:
    data = champsim_bytes(walk())
    for name, cut in (("raw", data[:-10]), ("packed", gzip.compress(data)[:-100])):
        path = tmp_path / f"{name}.champsimtrace"
        path.write_bytes(cut)
        recording = imported(path)
        assert not recording.meta.complete
        assert 0 < recording.meta.loads < LINES * ROUNDS or name == "packed"
        assert "truncated" in {row["kind"] for row in recording.table("quality").to_pylist()}
