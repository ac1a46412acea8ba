# SPDX-License-Identifier: Apache-2.0
"""What cannot be recorded or read is refused with a sentence and a status of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Made, Ran, Recorder


def check_refused(ran: Ran, status: int, *words: str) -> None:
    assert ran.status == status, ran.stderr
    assert ran.out == b""
    first, *rest = ran.stderr.splitlines()
    assert first.startswith("error: ")
    for word in words:
        assert word in ran.stderr
    assert len(rest) <= 2  # why, and what to do
    assert "Traceback" not in ran.stderr
    assert "itself failed" not in ran.stderr


def elf(bits: int, machine: int) -> bytes:
    """The header of an executable for another machine."""
    ident = b"\x7fELF" + bytes([1 if bits == 32 else 2, 1, 1]) + bytes(9)
    if bits == 32:
        return ident + struct.pack("<HHIIIIIHHHHHH", 2, machine, 1, 0, 52, 0, 0, 52, 32, 0, 0, 0, 0)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0)


def executable(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o755)
    return path


Stallscope = Callable[..., Ran]


def test_a_program_that_does_not_exist_gives_127(stallscope: Stallscope, tmp_path: Path) -> None:
    ran = stallscope("record", "no-such-program-anywhere", cwd=tmp_path)
    check_refused(ran, 127, "no-such-program-anywhere")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_executable_gives_126(stallscope: Stallscope, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("to do\n")
    check_refused(stallscope("record", "./notes", cwd=tmp_path), 126, "notes", "executable")
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_32_bit_program_is_refused(stallscope: Stallscope, tmp_path: Path) -> None:
    program = executable(tmp_path / "old", elf(32, 3))
    check_refused(stallscope("record", program, cwd=tmp_path), 126, "old", "32-bit")


def test_a_program_for_another_processor_is_refused(stallscope: Stallscope, tmp_path: Path) -> None:
    program = executable(tmp_path / "foreign", elf(64, 183))
    check_refused(stallscope("record", program, cwd=tmp_path), 126, "foreign", "AArch64")


def test_a_setuid_program_is_refused(
    stallscope: Stallscope, tmp_path: Path, program: Callable[..., Path]
) -> None:
    copy = tmp_path / "privileged"
    shutil.copy(program("exit_code"), copy)
    copy.chmod(0o4755)
    check_refused(stallscope("record", copy, cwd=tmp_path), 126, "privileged", "setuid")


def test_a_program_that_needs_avx512_is_refused_before_it_starts(
    stallscope: Stallscope, tmp_path: Path, program: Callable[..., Path]
) -> None:
    ran = stallscope("record", program("avx512"), cwd=tmp_path)
    check_refused(ran, 126, "AVX-512")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["--"], ["-q"]])
def test_no_program_at_all_is_a_usage_error(words: list[str], stallscope: Stallscope) -> None:
    check_refused(stallscope("record", *words), 2, "no program")


@pytest.mark.parametrize(
    "words",
    [
        ["--turn", "0"],
        ["--skip", "-1"],
        ["--max-instructions", "many"],
        ["--max-size", "2 bananas"],
        ["--machine", "enigma"],
        ["--no-such-option"],
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(
    words: list[str], stallscope: Stallscope, tmp_path: Path
) -> None:
    ran = stallscope("record", *words, "/bin/true", cwd=tmp_path)
    assert (ran.status, ran.out) == (2, b"")
    assert words[0].lstrip("-") in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


# Where the recording goes.


def test_an_output_folder_that_exists_is_not_overwritten(
    stallscope: Stallscope, record: Recorder
) -> None:
    made = record("/bin/true")
    before = (made.path / "meta.json").read_bytes()
    ran = stallscope("record", "-o", made.path, "--", "/bin/echo", "never")
    check_refused(ran, 2, made.path.name, "exists", "-f")
    assert (made.path / "meta.json").read_bytes() == before


def test_f_overwrites_a_recording(stallscope: Stallscope, record: Recorder) -> None:
    made = record("/bin/true")
    ran = stallscope("record", "-q", "-f", "-o", made.path, "--", "/bin/echo", "again")
    assert (ran.status, ran.stdout) == (0, "again\n")
    assert made.info.command == ["/bin/echo", "again"]


def test_f_never_deletes_a_folder_that_is_no_recording(
    stallscope: Stallscope, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    ran = stallscope("record", "-f", "-o", precious, "/bin/true")
    check_refused(ran, 2, "precious", "no recording")
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_f_never_deletes_a_folder_with_some_other_meta_json(
    stallscope: Stallscope, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "meta.json").write_text('{"title": "thesis"}')
    ran = stallscope("record", "-f", "-o", precious, "/bin/true")
    check_refused(ran, 2, "precious", "no recording")
    assert (precious / "meta.json").exists()


def test_f_does_not_follow_a_link(stallscope: Stallscope, record: Recorder, tmp_path: Path) -> None:
    made = record("/bin/true")
    link = tmp_path / "link.stallscope"
    link.symlink_to(made.path)
    check_refused(stallscope("record", "-f", "-o", link, "/bin/true"), 2, "link.stallscope")
    assert made.info.complete


def test_a_file_in_the_way_is_not_overwritten(stallscope: Stallscope, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for options in ([], ["-f"]):
        check_refused(
            stallscope("record", *options, "-o", tmp_path / "file", "/bin/true"), 2, "file"
        )
    assert (tmp_path / "file").read_text() == "mine"


def test_a_place_where_nothing_can_be_made_is_our_own_failure(
    stallscope: Stallscope, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ran = stallscope("record", "-o", tmp_path / "file" / "below", "/bin/true")
    check_refused(ran, 125, "below")


def test_names_are_counted_up_where_none_was_given(stallscope: Stallscope, tmp_path: Path) -> None:
    for _ in range(3):
        assert stallscope("record", "-q", "/bin/true", cwd=tmp_path).status == 0
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ["true-2.stallscope", "true-3.stallscope", "true.stallscope"]


# What cannot be read.


@pytest.fixture(scope="module")
def good(shared_record: Recorder) -> Made:
    return shared_record("/bin/true", options=["--trace"])


@pytest.fixture
def copy(good: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good.path, tmp_path / "copy.stallscope"))


@pytest.mark.parametrize("verb", ["info", "verify"])
def test_what_is_not_there_is_refused(verb: str, stallscope: Stallscope, tmp_path: Path) -> None:
    check_refused(stallscope(verb, tmp_path / "nothing"), 2, "no recording", "nothing")


@pytest.mark.parametrize("verb", ["info", "verify"])
def test_a_folder_that_is_no_recording_is_refused(
    verb: str, stallscope: Stallscope, tmp_path: Path
) -> None:
    check_refused(stallscope(verb, tmp_path), 2, "not a recording")


@pytest.mark.parametrize("verb", ["info", "verify"])
def test_where_there_is_no_recording_the_newest_cannot_be_shown(
    verb: str, stallscope: Stallscope, tmp_path: Path
) -> None:
    check_refused(stallscope(verb, cwd=tmp_path), 2, "there is no recording here")


@pytest.mark.parametrize("verb", ["info", "verify"])
def test_a_newer_recording_is_refused(verb: str, stallscope: Stallscope, copy: Path) -> None:
    meta = json.loads((copy / "meta.json").read_text())
    meta["format_version"] += 1
    meta["something_new"] = True
    (copy / "meta.json").write_text(json.dumps(meta))
    check_refused(stallscope(verb, copy), 2, "newer Stallscope", "format")


@pytest.mark.parametrize("verb", ["info", "verify"])
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format_version": "one"}', "\xff\xfe"])
def test_a_damaged_meta_json_is_refused(
    verb: str, text: str, stallscope: Stallscope, copy: Path
) -> None:
    (copy / "meta.json").write_bytes(text.encode("latin-1"))
    check_refused(stallscope(verb, copy), 2, "meta.json", "damaged")


@pytest.mark.parametrize("verb", ["info", "verify"])
def test_a_number_changed_in_meta_json_is_noticed(
    verb: str, stallscope: Stallscope, copy: Path
) -> None:
    meta = json.loads((copy / "meta.json").read_text())
    meta["instructions"] += 1
    (copy / "meta.json").write_text(json.dumps(meta))
    check_refused(stallscope(verb, copy), 2, "meta.json", "damaged", "checksum")


@pytest.mark.parametrize("table", ["thread", "module", "quality"])
def test_a_truncated_table_is_refused_with_its_size(
    table: str, stallscope: Stallscope, copy: Path
) -> None:
    path = copy / f"{table}.parquet"
    size = path.stat().st_size
    os.truncate(path, size // 2)
    check_refused(
        stallscope("info", copy), 2, path.name, "truncated", f"{size // 2} of {size} bytes"
    )


@pytest.mark.parametrize("table", ["thread", "module", "quality"])
def test_a_changed_byte_of_a_table_is_noticed(
    table: str, stallscope: Stallscope, copy: Path
) -> None:
    path = copy / f"{table}.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    check_refused(stallscope("info", copy), 2, path.name, "damaged")


def test_a_missing_table_is_named(stallscope: Stallscope, copy: Path) -> None:
    (copy / "thread.parquet").unlink()
    check_refused(stallscope("info", copy), 2, "thread.parquet")


def test_a_damaged_stream_fails_verification_with_the_offset(
    stallscope: Stallscope, copy: Path
) -> None:
    path = copy / "stream.ss"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    ran = stallscope("verify", copy, "--json")
    assert ran.status == 1
    [row] = [row for row in json.loads(ran.out)["rows"] if row["rule"] == "file"]
    assert re.search(r"byte \d+", row["text"])


def test_a_truncated_stream_fails_verification(stallscope: Stallscope, copy: Path) -> None:
    path = copy / "stream.ss"
    size = path.stat().st_size
    os.truncate(path, size - 10)
    ran = stallscope("verify", copy)
    assert ran.status == 1
    assert f"truncated: it has {size - 10} of {size} bytes" in " ".join(ran.stdout.split())


def test_a_trace_cut_off_by_max_size_is_kept_up_to_there(
    record: Recorder, workload: Callable[[str], Path]
) -> None:
    made = record(workload("matmul"), 90, options=["--trace", "--max-size", "1K"])
    assert made.status == 0
    assert "cut off" in made.ran.stderr
    assert made.info.trace
    assert made.info.stream_bytes == (made.path / "stream.ss").stat().st_size
    assert made.info.instructions > 90**3  # tables count everything
    assert [row["kind"] for row in made.info.quality] == ["stream"]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_what_is_left_of_a_stream_without_tables_is_shown(
    share: float, stallscope: Stallscope, copy: Path
) -> None:
    """The state in which a killed recorder leaves a recording, cut anywhere."""
    from stallscope import meta

    opening = json.loads((copy / "meta.json").read_text()) | {"state": "recording", "files": {}}
    import msgspec

    meta.write(msgspec.convert(opening, meta.Meta), copy)
    for table in copy.glob("*.parquet"):
        table.unlink()
    stream = copy / "stream.ss"
    os.truncate(stream, int(stream.stat().st_size * share))
    ran = stallscope("info", copy)
    assert ran.status in (0, 2), ran.stderr
    if ran.status == 0:
        assert "truncated" in ran.stdout
    else:
        check_refused(ran, 2, "copy.stallscope")
