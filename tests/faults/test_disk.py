# SPDX-License-Identifier: Apache-2.0
"""A disk that refuses costs the recording, never the target."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import PATIENCE, STALLSCOPE, Ran, Recorder, run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a disk of that size; needs the rights to."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        ran = run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", place)
        if ran.status != 0:
            pytest.skip(f"mounting a small disk: {ran.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        run("umount", "-l", place)


def check_one_message(ran: Ran) -> None:
    [message] = [line for line in ran.stderr.splitlines() if "No space left" in line]
    assert message.startswith("stallscope: ")
    assert "Traceback" not in ran.stderr


# From a disk that takes nothing at all to one that takes everything but the last table.
@pytest.mark.parametrize("size", ["8k", "40k", "100k", "200k", "250k"])
@pytest.mark.parametrize("options", [(), ("--trace",)], ids=["counts", "trace"])
def test_a_full_disk_leaves_the_target_unharmed(
    size: str,
    options: tuple[str, ...],
    small_disk: Callable[[str], Path],
    workload: Callable[[str], Path],
) -> None:
    program = workload("hashjoin")
    native = run(program, 500, 500)
    place = small_disk(size) / "full.stallscope"
    ran = run(STALLSCOPE, "record", "-o", place, *options, "--", program, 500, 500)
    assert (ran.status, ran.out) == (native.status, native.out)
    check_one_message(ran)


@pytest.mark.parametrize("size", ["8k", "24k"])
def test_samples_that_a_full_disk_refuses(
    size: str, small_disk: Callable[[str], Path], workload: Callable[[str], Path]
) -> None:
    """They are kept whole or not at all; the target has run to its end."""
    program = workload("hashjoin")
    place = small_disk(size) / "full.stallscope"
    ran = run(STALLSCOPE, "record", "--source", "clock", "-o", place, "--", program, 500, 500)
    assert (ran.status, ran.out) == (125, run(program, 500, 500).out)
    assert "No space left" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not place.exists()


@pytest.mark.parametrize("options", [(), ("--trace",)], ids=["counts", "trace"])
def test_what_was_written_before_the_disk_was_full_is_valid(
    options: tuple[str, ...], small_disk: Callable[[str], Path], program: Callable[..., Path]
) -> None:
    place = small_disk("60k") / "full.stallscope"
    ran = run(STALLSCOPE, "record", "-o", place, *options, "--", program("many_blocks"))
    assert ran.status == 0
    shown = run(STALLSCOPE, "info", place)
    assert shown.status in (0, 2)
    assert "Traceback" not in shown.stderr
    assert "itself failed" not in shown.stderr
    if shown.status == 0:
        assert "truncated" in shown.stdout
    else:
        assert len(shown.stderr.splitlines()) <= 3


def test_a_trace_that_outgrows_the_disk_is_cut_off_and_the_program_goes_on(
    small_disk: Callable[[str], Path], workload: Callable[[str], Path]
) -> None:
    program = workload("churn")
    native = run(program, 20000, 512)
    place = small_disk("300k") / "full.stallscope"
    ran = run(STALLSCOPE, "record", "--trace", "-o", place, "--", program, 20000, 512)
    assert (ran.status, ran.out) == (native.status, native.out)
    check_one_message(ran)
    shown = run(STALLSCOPE, "info", place)
    assert shown.status == 0, shown.stderr
    assert "truncated" in shown.stdout


def test_a_limit_on_the_size_of_files_is_like_a_full_disk(
    tmp_path: Path, workload: Callable[[str], Path]
) -> None:
    program = workload("churn")
    native = run(program, 20000, 512)
    words = [STALLSCOPE, "record", "--trace", "-o", tmp_path / "r", "--", program, "20000", "512"]
    # The target inherits the limit, and its ring is a file too, so nothing can be recorded.
    limit = (100 << 10, 100 << 10)
    ran = subprocess.run(
        words,
        capture_output=True,
        timeout=PATIENCE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert (ran.returncode, ran.stdout) == (125, native.out)
    assert b"the program runs unrecorded" in ran.stderr
    assert b"could not be recorded" in ran.stderr
    assert b"Traceback" not in ran.stderr


def test_recordings_are_readable_by_their_owner_only(
    record: Recorder, program: Callable[..., Path]
) -> None:
    before = os.umask(0)
    try:
        made = record(program("fork_tree"), 1, options=["--trace"])
    finally:
        os.umask(before)
    entries = [made.path, *made.path.rglob("*")]
    assert len(entries) > 20
    for entry in entries:
        wanted = 0o700 if entry.is_dir() else 0o600
        assert stat.S_IMODE(entry.stat().st_mode) == wanted, entry
