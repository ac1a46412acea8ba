# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be imported are refused with a sentence that says where, and leave nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_refusals import check_refused
from tests import perf_files

from conftest import Ran

Stallscope = Callable[..., Ran]

BAD: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty": (b"", ("is empty",)),
    "garbage": (bytes(range(256)) * 40, ("in no format that is known",)),
    "prose.txt": (b"It was a dark and stormy night.\n", ("in no format that is known",)),
    "unknown_column.csv": (b"address,colour\n1,2\n", ("line 1", "'colour'", "known are address")),
    "no_address.csv": (b"size,kind\n8,load\n", ("line 1", "no column address")),
    "twice.csv": (b"address,addr\n1,2\n", ("line 1", "two columns mean the same")),
    "ragged.csv": (b"address,size\n1,8\n2\n", ("line 3", "1 fields, the header 2")),
    "words.csv": (b"address\n17\nseventeen\n", ("line 3", "'seventeen' is no number")),
    "negative.csv": (b"address\n-5\n", ("line 2", "'-5' is no number")),
    "too_large.csv": (b"address\n0x1ffffffffffffffff\n", ("line 2", "is no number")),
    "no_size.csv": (b"address,size\n4096,0\n", ("line 2", "0 bytes is out of range")),
    "huge_size.csv": (b"address,size\n4096,99999999\n", ("line 2", "99999999 bytes")),
    "kind.csv": (b"address,kind\n4096,jump\n", ("line 2", "'jump' is no kind")),
    "backwards.csv": (b"address,time\n1,5\n2,4\n", ("line 3", "sort the rows by time")),
    "last.csv": (b"address\n0xffffffffffffffff\n", ("line 2", "out of range")),
    "header.csv": (b"address\n", ("has no accesses",)),
    "long.csv": (b"address\n" + b"1" * 100_000 + b"\n", ("line 2", "longer than")),
    "bad.lackey": (b"I  00401000,4\n L 1000,8\n L zzz,8\n", ("line 3", "ADDRESS,SIZE")),
    "view.txt": (
        b" 1 1: 7 read 8 byte(s) @ 0x10 by PC 0x20\n 2 1: 7 read 8 bytes\n",
        ("line 2", "SIZE byte(s) @ ADDRESS"),
    ),
    "packed.csv": (
        b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff",
        ("cannot be unpacked",),
    ),
    "cut.parquet": (b"PAR1" + bytes(100), ("no Parquet file, or damaged",)),
    "big_endian.data": (b"2ELIFREP" + bytes(200), ("big-endian machine",)),
    "short.data": (b"PERFILE2" + bytes(20), ("damaged at byte",)),
    "cut.data": (perf_files.small().bytes()[:150], ("damaged at byte",)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_a_sentence(
    name: str, stallscope: Stallscope, tmp_path: Path
) -> None:
    content, words = BAD[name]
    (tmp_path / name).write_bytes(content)
    check_refused(stallscope("import", name, cwd=tmp_path), 2, name, *words)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_is_no_file_is_refused(stallscope: Stallscope, tmp_path: Path) -> None:
    check_refused(stallscope("import", "nowhere", cwd=tmp_path), 2, "nowhere", "No such file")
    check_refused(stallscope("import", ".", cwd=tmp_path), 2, "is a folder")
    os.mkfifo(tmp_path / "pipe")
    check_refused(stallscope("import", "pipe", cwd=tmp_path), 2, "is no file")


def test_a_file_that_may_not_be_read_is_refused(stallscope: Stallscope, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("address\n1\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    check_refused(stallscope("import", "x.csv", cwd=tmp_path), 2, "x.csv", "Permission denied")


def test_the_wrong_format_is_refused(stallscope: Stallscope, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("address\n" + "1\n" * 100)
    for format in ("lackey", "champsim", "drmemtrace", "parquet", "perf"):
        ran = stallscope("import", "--format", format, "x.csv", cwd=tmp_path)
        check_refused(ran, 2, "x.csv")
        assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize(
    "column, values, words",
    [
        ("address", pa.array(["here"]), "is no number"),
        ("address", pa.array([1.5]), "is no number"),
        ("address", pa.array([-1]), "is no number"),
        ("address", pa.array([None], pa.uint64()), "empty field"),
        ("colour", pa.array([1]), "no column 'colour'"),
        ("size", pa.array([8]), "no column address"),
    ],
)
def test_a_bad_parquet_file_is_refused(
    column: str, values: pa.Array, words: str, stallscope: Stallscope, tmp_path: Path
) -> None:
    pq.write_table(pa.table({column: values}), tmp_path / "x.parquet")
    check_refused(stallscope("import", "x.parquet", cwd=tmp_path), 2, "x.parquet", words)


def test_a_map_that_is_none_is_refused(stallscope: Stallscope, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("address\n1\n")
    (tmp_path / "maps").write_text("not so\n")
    ran = stallscope("import", "--maps", "maps", "x.csv", cwd=tmp_path)
    check_refused(ran, 2, "maps", "line 1")


def test_a_recording_is_not_overwritten_unasked(stallscope: Stallscope, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("address\n1\n")
    assert stallscope("import", "-q", "x.csv", "-o", "r", cwd=tmp_path).status == 0
    check_refused(stallscope("import", "x.csv", "-o", "r", cwd=tmp_path), 2, "exists already")
    assert stallscope("import", "-q", "-f", "x.csv", "-o", "r", cwd=tmp_path).status == 0
