# SPDX-License-Identifier: Apache-2.0
"""The test programs do natively what their first lines say, so that a difference in a recording is
the recorder's."""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


def load_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("programs_build", PROGRAMS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


builder = load_builder()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


def run(*words: object, stdin: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, input=stdin, capture_output=True, text=True, timeout=60, **options
    )


EXPECTED: dict[str, tuple[int, str]] = {
    "abort": (-signal.SIGABRT, "before the abort"),
    "allocators": (0, "ended=1 aligned=1 failures=3"),
    "allocators_jemalloc": (0, "ended=1 aligned=1 failures=3"),
    "allocators_tcmalloc": (0, "ended=1 aligned=1 failures=3"),
    "crash": (-signal.SIGSEGV, "before the crash"),
    "cxx_new": (0, "vector=4 thrown=1 null=1"),
    "cxx_new_jemalloc": (0, "vector=4 thrown=1 null=1"),
    "cxx_new_tcmalloc": (0, "vector=4 thrown=1 null=1"),
    "dlopen": (0, "sum=4951\nsum=19901\nsum=44851"),
    "exec_chain": (0, "image 0\nimage 1\nimage 2"),
    "fault_address": (0, "exact=3 other=0 sum=80"),
    "followed": (0, "1 1 1 1"),
    "fork_tree": (0, "processes=7"),
    "frames": (0, "sum=4 thread=1"),
    "generations": (0, "480000"),
    "heaplog_threads": (0, "threads=2000 blocks=40000"),
    "hot_struct": (0, "5999700000"),
    "howto_marks": (0, "total=4951612"),
    "jit": (0, "sum=111100\nsum=222200\nsum=333300"),
    "jit_walk": (0, "back=1"),
    "killed": (-signal.SIGKILL, "sum=3000000"),
    "locks": (0, "counter=80000 turns=1000"),
    "longjmp": (0, "jumps=1000\nfaults=10\nsignals=10"),
    "marks_cxx": (0, "sum=3000 left by exception"),
    "regions": (0, "again=1 status=0"),
    "mmaps": (0, "first=10 middle=3 moved=200 break=3 elf=1"),
    "overflow": (0, "twelve chars a longer one, of 31 characters. through a pipe 499500 10"),
    "passes": (0, "0"),
    "paths": (0, "asked=260"),
    "prefetches": (0, "sum=0"),
    "signals": (0, "users=20 deepest=2 own_stack=1 ticks=enough"),
    "skip": (0, f"sum={sum(range(1000)) * (10 + 2 * 20 + 3 * 30) + 4}"),
    "steady": (0, "done=30"),
    "spawn": (0, "one\ntwo\nfailures=0"),
    "ten_loops": (0, "91 1"),
    "tilings": (0, "0 7982739877176976289"),
    "threads200": (0, "threads=200 sum=104755200"),
    "heapfork": (0, "child=0"),
    "two_arrays": (0, "sum=80000 child=0"),
    "typed": (0, "named=0 weight=3996000 used=8000 sum=131967952"),
    "typed_cxx": (0, "mass=19000 sum=24000 speed=0 area=144000"),
    "vfork_exec": (0, "hello from vfork\nfirst=0 second=42"),
}
# These take input or print what depends on it; each has a test of its own below.
APART = {
    # It takes its time, which test_prefetch_faults.py gives it.
    *("ahead", "avx512", "environment", "exit_code", "heapmap", "heapmap_cxx", "io"),
    "growing",
    *("many_blocks", "marks", "no_perf", "reuses", "secrets", "sharers", "spin", "stall_causes"),
    *("waiting_sum", "waits"),
    # They say where their blocks are, which differs from run to run; test_heap_log.py looks there.
    *(
        f"heaplog{kind}{with_}"
        for kind in ("", "_cxx", "_churn")
        for with_ in ("", "_jemalloc", "_tcmalloc")
    ),
}


def test_every_program_is_checked() -> None:
    assert set(EXPECTED) | APART == set(builder.PROGRAMS)
    sources = {path.stem for path in PROGRAMS.glob("*.c*")} - {"dlopen_plugin", "ahead_plugin"}
    assert sources <= set(builder.PROGRAMS)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_prints_and_ends_as_it_says(name: str, folder: Path) -> None:
    ran = run(builder.build(name, folder))
    status, output = EXPECTED[name]
    assert (ran.returncode, ran.stdout) == (status, f"{output}\n")


@pytest.mark.parametrize("words", [["0"], ["7"], ["255"], ["9", "at once"]])
def test_exit_code_exits_with_its_argument(words: list[str], folder: Path) -> None:
    assert run(builder.build("exit_code", folder), *words).returncode == int(words[0])


def test_environment_prints_exactly_what_it_was_given(folder: Path) -> None:
    program = builder.build("environment", folder)
    ran = run(program, "a b", "", env={"ONE": "1", "TWO": ""})
    assert ran.stdout == f"argv[0]={program}\nargv[1]=a b\nargv[2]=\nONE=1\nTWO=\n"


def test_waiting_sum_begins_and_ends_at_a_line(folder: Path) -> None:
    ran = run(builder.build("waiting_sum", folder), stdin="\n\n")
    assert (ran.returncode, ran.stdout) == (0, "499500\n")


def test_io_numbers_every_line_and_reports_on_standard_error(folder: Path) -> None:
    text = "".join(f"line of number {i} {'x' * (i % 200)}\n" for i in range(20000))
    ran = run(builder.build("io", folder), stdin=text)
    numbered = "".join(f"{i} {line}\n" for i, line in enumerate(text.splitlines(), 1))
    assert ran.stdout == f"{numbered}lines=20000 bytes={len(text)}\n"
    assert ran.stderr.splitlines() == [
        *(f"line {i}" for i in range(1000, 20001, 1000)),
        "end of 20000 lines",
    ]


@pytest.mark.parametrize("name", ["heapmap", "heapmap_cxx"])
def test_heap_distances_are_the_same_in_every_run(name: str, folder: Path) -> None:
    program = builder.build(name, folder)
    outputs = {run(program, env={"PADDING": "x" * length}).stdout for length in (0, 100, 5000)}
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) > 100


def test_avx512_uses_wide_registers_in_its_own_code(folder: Path) -> None:
    program = builder.build("avx512", folder)
    assert "%zmm" in run("objdump", "-d", program).stdout
    if "avx512f" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512")
    assert run(program).stdout == "sum=523776\n"


def test_many_blocks_computes_what_its_generator_means(folder: Path) -> None:
    x = 1
    for i in [*range(builder.MANY_BLOCKS)] * 2:
        x = x + i if x % (i % 7 + 2) == 0 else x ^ (i * 2654435761 % 2**32)
        x %= 2**32
        while x % (i % 5 + 3) != 0:
            x = (x + 1) % 2**32
    assert run(builder.build("many_blocks", folder)).stdout == f"x={x}\n"


@pytest.mark.parametrize("disabled", [False, True])
def test_marks_change_nothing_natively(disabled: bool, folder: Path, tmp_path: Path) -> None:
    plain = run(builder.build("marks", folder))
    extra = ["-DSTALLSCOPE_DISABLED"] if disabled else []
    other = run(builder.build("marks", tmp_path, extra=extra))
    assert (plain.returncode, plain.stderr) == (0, "recorded=0\n")
    assert (other.stdout, other.stderr) == (plain.stdout, plain.stderr)


@pytest.mark.parametrize(
    ("words", "number", "status"),
    [([], signal.SIGTERM, -signal.SIGTERM), (["7"], signal.SIGINT, 7)],
)
def test_spin_runs_until_a_signal(
    words: list[str], number: signal.Signals, status: int, folder: Path
) -> None:
    command = [builder.build("spin", folder), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(10) == status


def test_the_shell_script_prints_and_exits_with_3() -> None:
    ran = run(PROGRAMS / "pipeline.sh")
    bottles = "".join(f"{i}: green bottles\n" for i in range(50, 45, -1))
    assert (ran.returncode, ran.stdout) == (3, f"{bottles}total 1275 in /\n")


def test_the_project_builds_in_parallel_and_runs(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROGRAMS / "project", project)
    built = run("make", "-j2", "-C", project)
    assert built.returncode == 0, built.stderr
    assert run(project / "program").stdout == "three times four is 12\n"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"static": True}, "EXEC"),
        ({"pie": False}, "EXEC"),
        ({"pie": True}, "DYN"),
        ({"strip": True}, "DYN"),
    ],
)
def test_every_kind_of_executable_can_be_built(
    options: dict[str, bool], kind: str, tmp_path: Path
) -> None:
    program = builder.build("skip", tmp_path, **options)
    header = run("readelf", "-h", "-l", "-S", program).stdout
    assert re.search(rf"Type:\s+{kind} ", header)
    assert ("INTERP" in header) != bool(options.get("static"))
    assert (".symtab" in header) != bool(options.get("strip"))
    assert run(program).stdout == f"{EXPECTED['skip'][1]}\n"


@pytest.mark.parametrize(("secret", "status"), [("8 bytes.", 0), ("few", 1)])
def test_secrets_reads_eight_bytes(secret: str, status: int, folder: Path) -> None:
    assert run(builder.build("secrets", folder), stdin=secret).returncode == status
