# SPDX-License-Identifier: Apache-2.0
"""A recorded program sees and prints what it does natively; two recordings give equal numbers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import PATIENCE, STALLSCOPE, Recorder, run
from stallscope import workloads

Build = Callable[..., Path]
TEXT = b"".join(b"%d the quick brown fox %d\n" % (n * 7919 % 1000, n) for n in range(300))

# Name, words, standard input. Each prints something that depends on all it did.
CORPUS: dict[str, tuple[list[str], bytes]] = {
    "gzip": (["gzip", "-9", "-c", "-n"], TEXT),
    "sort": (["sort", "-n", "-k1,1", "-s"], TEXT),
    "sed": (["sed", "-E", "s/(quick) (brown)/\\2 \\1/; 10,20d"], TEXT),
    "awk": (
        ["awk", "{ sum[$1 % 7] += $NF } END { for (k = 0; k < 7; k++) print k, sum[k] }"],
        TEXT,
    ),
    "grep": (["grep", "-c", "99"], TEXT),
    "sha256sum": (["sha256sum"], TEXT),
    "bash": (
        ["bash", "-c", 'i=0; while read -r a b; do ((i += a)); done; echo "$i"; exit 21'],
        TEXT,
    ),
    "perl": (["perl", "-ne", "$h{$_ % 10} += $_; END { print join ',', map {$h{$_}} 0..9 }"], TEXT),
    "sqlite3": (
        ["sqlite3", ":memory:"],
        b"create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n "
        b"where i < 500) insert into t select i, i * 37 % 101 from n; "
        b"select b, count(*), sum(a) from t group by b order by b limit 20;",
    ),
    "python3": (
        ["/usr/bin/python3", "-I", "-S", "-c", "print(sum(hash(c) for c in range(999)), {1: 'x'})"],
        b"",
    ),
    "date": (["date", "-u", "-d", "@86400", "+%F %T"], b""),
    "expr": (["expr", "3", ">", "4"], b""),
    "false": (["false"], b""),
}


@pytest.mark.parametrize("name", CORPUS)
def test_a_program_of_the_system_prints_the_same_when_recorded(name: str, record: Recorder) -> None:
    words, text = CORPUS[name]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    native = run(*words, stdin=text)
    made = record(*words, stdin=text)
    assert (made.status, made.ran.out, made.ran.err) == (native.status, native.out, native.err)
    assert made.info.complete


def test_tar_makes_and_reads_the_same_archive(record: Recorder, tmp_path: Path) -> None:
    folder = tmp_path / "things"
    folder.mkdir()
    for n in range(5):
        (folder / f"{n}.txt").write_bytes(TEXT[n:])
    words = ["tar", "--sort=name", "--mtime=@0", "-C", str(tmp_path), "-cf", "-", "things"]
    native, made = run(*words), record(*words)
    assert (made.status, made.ran.out) == (0, native.out)
    assert (
        record("tar", "-tf", "-", stdin=native.out).ran.out
        == run("tar", "-tf", "-", stdin=native.out).out
    )


@pytest.mark.parametrize("name", workloads.about_caches())
def test_a_workload_prints_the_same_when_recorded(
    name: str, record: Recorder, workload: Callable[[str], Path]
) -> None:
    arguments = workloads.truth(name).command_arguments("quick")
    native = run(workload(name), *arguments)
    made = record(workload(name), *arguments, options=["--trace"])
    assert (made.status, made.ran.out, made.ran.err) == (0, native.out, native.err)


def test_standard_streams_pass_through_byte_for_byte(record: Recorder, program: Build) -> None:
    text = b"".join(b"line \x00\xff\x80 %d %s\n" % (n, b"x" * (n % 200)) for n in range(3000))
    native = run(program("io"), stdin=text)
    made = record(program("io"), stdin=text)
    assert (made.ran.out, made.ran.err) == (native.out, native.err)
    raw = bytes(range(256)) * 4000
    assert record("/bin/cat", stdin=raw).ran.out == raw


@pytest.mark.parametrize("preload", [None, "", "/usr/lib/x86_64-linux-gnu/libdl.so.2"])
def test_arguments_and_environment_are_the_native_ones(
    preload: str | None, record: Recorder, program: Build
) -> None:
    env = {"PATH": os.environ["PATH"], "EMPTY": "", "ODD": "a=b\x01\n", "LANG": "C.UTF-8"}
    if preload is not None:
        env["LD_PRELOAD"] = preload
    words = [program("environment"), "", "a b", "--", "-q", "*", "\N{SNOWMAN}"]
    native = run(*words, env=env)
    made = record(*words, env=env)
    assert made.ran.out == native.out


def test_children_see_the_native_environment_too(record: Recorder) -> None:
    env = {"PATH": os.environ["PATH"], "ONE": "1"}
    words = ["/bin/sh", "-c", "env | sort; sh -c 'env | sort'"]
    native = run(*words, env=env)
    made = record(*words, env=env)
    assert made.ran.out == native.out
    assert b"VALGRIND" not in made.ran.out


def test_a_program_finds_its_own_name_in_proc(record: Recorder) -> None:
    words = ["/bin/cat", "/proc/self/comm"]
    assert record(*words).ran.out == run(*words).out == b"cat\n"


def test_the_command_line_and_the_executable_in_proc_are_the_programs_own(record: Recorder) -> None:
    words = ["/usr/bin/readlink", "/proc/self/exe"]
    assert record(*words).ran.out == run(*words).out
    words = ["/bin/cat", "/proc/self/cmdline"]
    assert record(*words).ran.out == run(*words).out


def test_signals_that_the_recorder_blocks_are_open_in_the_target(record: Recorder) -> None:
    words = ["/bin/sh", "-c", "kill -INT $$; echo survived"]
    made = record(*words)
    assert made.status == run(*words).status == 128 + signal.SIGINT


def test_open_descriptors_are_inherited(record: Recorder, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"through a descriptor")
    with (tmp_path / "input").open("rb") as file:
        words = ["/bin/cat", f"/dev/fd/{file.fileno()}"]
        command = [str(STALLSCOPE), "record", "-q", "-o", str(record.place()), "--", *words]
        ran = subprocess.run(
            command, pass_fds=[file.fileno()], capture_output=True, timeout=PATIENCE
        )
    assert ran.stdout == b"through a descriptor"


@pytest.mark.parametrize("options", [(), ("--trace",)], ids=["counts", "trace"])
def test_two_recordings_of_a_single_threaded_program_give_the_same_numbers(
    options: tuple[str, ...], record: Recorder, program: Build
) -> None:
    one, two = (record(program("heapmap"), options=options) for _ in range(2))
    assert one.info.instructions == two.info.instructions
    for table in ("block", "operation", "site", "object", "module", "event"):
        assert one.rows(table) == two.rows(table), table
    assert (one.info.loads, one.info.stores) == (two.info.loads, two.info.stores)


def test_counting_and_tracing_give_the_same_numbers(record: Recorder, program: Build) -> None:
    counted = record(program("heapmap"))
    traced = record(program("heapmap"), options=["--trace"])
    for table in ("block", "operation", "site"):
        assert counted.rows(table) == traced.rows(table), table


@pytest.mark.parametrize(("name", "arguments"), [("churn", (300_000, 4096)), ("matmul", (120,))])
def test_the_recorder_stays_small(
    name: str,
    arguments: tuple[int, ...],
    record: Recorder,
    workload: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """Peak memory of the recorder alone, as the kernel says of it when it ends. Not ru_maxrss: that
    also has what the process that started it used before the exec."""
    script = (
        "import pathlib, sys; from stallscope.record import record; "
        "record(sys.argv[2:], output=sys.argv[1], trace=True); "
        "status = pathlib.Path('/proc/self/status').read_text(); "
        "print(status.split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    python = STALLSCOPE.with_name("python")
    ran = run(python, "-c", script, record.place(), workload(name), *arguments)
    assert ran.status == 0, ran.stderr
    assert int(ran.stderr.split()[-1]) < 500 * 1024
