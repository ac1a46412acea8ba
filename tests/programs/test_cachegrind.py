# SPDX-License-Identifier: Apache-2.0
"""Instructions and accesses agree with cachegrind's, which counts them in its own way, and are the
same whether blocks are counted or every access is streamed."""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stallscope import workloads
from stallscope.recording import Recording, open_recording

STALLSCOPE = Path(sys.executable).with_name("stallscope")
WORKLOADS = workloads.about_caches()
THREADED = "scoreboards"  # whose waiting in the C library depends on when threads take turns
TIMEOUT = 300
# The dynamic linker works for the library that each tool puts into the target.
START_UP_INSTRUCTIONS = 20_000
INSTRUCTION_TOLERANCE = 0.001
ACCESS_TOLERANCE = 0.01


@dataclass(frozen=True)
class Command:
    words: Sequence[str]
    folder: Path
    extra: Mapping[str, str]

    def run(self, *before: object) -> None:
        # What pytest tells differs from test to test, and stacks begin below the environment.
        env = {**os.environ, **self.extra}
        env.pop("PYTEST_CURRENT_TEST", None)
        subprocess.run(
            [*map(str, before), *self.words],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=True,
        )


@dataclass(frozen=True)
class Counts:
    processes: int
    instructions: int
    accesses: int


# --- what is run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cachegrind")


def needed(program: str) -> str:
    """The program itself: a version manager's shim of that name starts dozens of others."""
    if found := shutil.which(program, path="/usr/bin:/bin"):
        return found
    pytest.skip(f"{program} is not installed")


def workload(name: str, folder: Path) -> Command:
    arguments = workloads.truth(name).command_arguments("quick")
    return Command([str(workloads.build(name, folder)), *arguments], folder, {})


def gzip(folder: Path) -> Command:
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(2000)]
    (folder / "text").write_text(" ".join(draw.choices(words, k=50_000)))
    return Command([needed("gzip"), "-c", "text"], folder, {})


SQL = """\
create table t (a integer primary key, b, c);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
  insert into t select i, i * 7919 % 1000, 'row ' || i from n;
create index tb on t (b);
select count(*), sum(a) from t where b < 500;
select b, count(*) from t group by b order by 2 desc, 1 limit 5;
delete from t where a % 3 = 0;
"""


def sqlite3(folder: Path) -> Command:
    (folder / "script.sql").write_text(SQL)
    return Command([needed("sqlite3"), "-batch", ":memory:", ".read script.sql"], folder, {})


def python3(folder: Path) -> Command:
    program = "print(len({str(i): i * i for i in range(5000)}))"
    return Command([needed("python3"), "-c", program], folder, {"PYTHONHASHSEED": "0"})


def gcc(folder: Path) -> Command:
    (folder / "square.c").write_text("int square(int x) { return x * x; }\n")
    return Command([needed("gcc"), "-c", "square.c", "-o", "square.o"], folder, {})


PROGRAMS = {"gzip": gzip, "sqlite3": sqlite3, "python3": python3, "gcc": gcc}


# --- the two ways to count


def cachegrind(command: Command) -> Counts:
    """Each process says its counts when it ends; an image that is replaced by exec never does."""
    for old in command.folder.glob("cachegrind.*"):
        old.unlink()
    command.run(
        needed("valgrind"),
        *("--tool=cachegrind", "--trace-children=yes", "--cachegrind-out-file=/dev/null"),
        f"--log-file={command.folder}/cachegrind.%p",
    )
    logs = [log.read_text() for log in command.folder.glob("cachegrind.*")]
    instructions, accesses = (
        [int(count.replace(",", "")) for log in logs for count in re.findall(pattern, log)]
        for pattern in (r"I +refs: +([\d,]+)", r"D +refs: +([\d,]+)")
    )
    return Counts(len(instructions), sum(instructions), sum(accesses))


def recorded(command: Command, *options: str, name: str) -> Recording:
    path = command.folder / f"{name}.stallscope"
    command.run(STALLSCOPE, "record", "-q", "-f", *options, "-o", path, "--")
    return open_recording(path)


def counts(recording: Recording) -> Counts:
    """Of the processes that cachegrind counts too: those that lived to their end."""
    images = [image.meta for image in recording.processes() if image.meta.ending != "exec"]
    return Counts(
        len(images),
        sum(image.instructions for image in images),
        sum(image.loads + image.stores for image in images),
    )


def check_agreement(ours: Counts, theirs: Counts) -> None:
    assert ours.processes == theirs.processes
    allowed = INSTRUCTION_TOLERANCE * theirs.instructions + START_UP_INSTRUCTIONS
    assert abs(ours.instructions - theirs.instructions) <= allowed, (ours, theirs)
    assert abs(ours.accesses - theirs.accesses) <= ACCESS_TOLERANCE * theirs.accesses, (
        ours,
        theirs,
    )


@functools.cache
def counted(name: str, folder: Path) -> tuple[Command, Recording]:
    command = PROGRAMS[name](folder) if name in PROGRAMS else workload(name, folder)
    return command, recorded(command, name=name)


@pytest.mark.parametrize("name", [*WORKLOADS, *PROGRAMS])
def test_instructions_and_accesses_are_as_many_as_cachegrind_counts(
    name: str, folder: Path
) -> None:
    command, recording = counted(name, folder)
    check_agreement(counts(recording), cachegrind(command))


def test_the_children_of_a_compiler_are_recorded_each_with_what_it_ran(folder: Path) -> None:
    _, recording = counted("gcc", folder)
    images = [image.meta for image in recording.children if not image.meta.forked]
    assert {Path(image.command[0]).name for image in images} == {"cc1", "as"}
    assert all(image.exit_code == 0 for image in images)


# --- counted and streamed


def blocks(recording: Recording, *, own: bool) -> list[dict[str, Any]]:
    """Every block with its executions, or only those of the workload's own code."""
    rows: list[dict[str, Any]] = recording.table("block").to_pylist()
    program = Path(recording.meta.command[0]).name
    modules = recording.table("module").to_pylist()
    mine = {row["module"] for row in modules if Path(row["path"]).name == program}
    return [row for row in rows if not own or row["module"] in mine]


def streamed(name: str, folder: Path) -> tuple[Recording, Recording]:
    command, _ = counted(name, folder)
    by_counters = recorded(command, "--machine", "none", name=f"{name}-counted")
    return by_counters, recorded(command, "--trace", name=f"{name}-streamed")


# Loops, recursion, many blocks, branches that nobody foresees.
@pytest.mark.parametrize("name", ["array", "bst", "churn", "lzw"])
def test_a_workload_has_the_same_numbers_counted_streamed_and_through_a_machine(
    name: str, folder: Path
) -> None:
    _, on_machine = counted(name, folder)  # whose small loops are longer blocks
    by_counters, by_stream = streamed(name, folder)
    for field in ("instructions", "loads", "stores", "allocations", "frees"):
        numbers = [getattr(one.meta, field) for one in (on_machine, by_counters, by_stream)]
        assert numbers == numbers[:1] * 3, field
    assert blocks(by_stream, own=False) == blocks(by_counters, own=False)


def test_threads_run_the_same_code_of_their_own_streamed_and_counted(folder: Path) -> None:
    by_counters, by_stream = streamed(THREADED, folder)
    mine = [
        sorted(
            (row["address"], row["bytes"], row["executions"]) for row in blocks(recording, own=True)
        )
        for recording in (by_counters, by_stream)
    ]
    assert mine[0] == mine[1] != []
    total = by_counters.meta.instructions
    assert abs(by_stream.meta.instructions - total) <= INSTRUCTION_TOLERANCE * total


# --- the code that capture rewrites


SCALARS = """
#include <stdio.h>
#include <string.h>
int main(void) {
  volatile float f[4] = {1.5f, -2.25f, 3e-40f, 4e30f};
  volatile double d[4] = {0.1, -0.2, 5e-320, 1e300};
  unsigned char bytes[16];
  double sum = 0;
  for (int i = 0; i < 64; i++) sum = sum * 0.5 + f[i % 4] * d[(i + 1) % 4] - d[i % 4] / (i + 1);
  memcpy(bytes, &sum, sizeof sum);
  for (int i = 0; i < 4; i++) {
    float single = f[i];
    double wide = d[i];
    __asm__("movss %1, %%xmm3; movups %%xmm3, %0" : "=m"(bytes) : "m"(single) : "xmm3");
    for (int j = 0; j < 16; j++) printf("%02x", bytes[j]);
    __asm__("pcmpeqd %%xmm3, %%xmm3; movsd %1, %%xmm3; movups %%xmm3, %0"
            : "=m"(bytes) : "m"(wide) : "xmm3");
    for (int j = 0; j < 16; j++) printf("%02x", bytes[j]);
  }
  printf(" %a\\n", sum);
  return 0;
}
"""


@pytest.mark.parametrize("flags", [["-O2"], ["-O2", "-mavx2", "-mfma"]], ids=["sse", "avx"])
def test_scalar_loads_into_vector_registers_give_what_they_give_natively(
    flags: list[str], folder: Path
) -> None:
    if "-mavx2" in flags and " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX2")
    (folder / "scalars.c").write_text(SCALARS)
    program = folder / "scalars"
    subprocess.run([needed("gcc"), *flags, "scalars.c", "-o", program], cwd=folder, check=True)
    natively = subprocess.run([program], capture_output=True, check=True).stdout
    record = [STALLSCOPE, "record", "-q", "-f", "-o", folder / "scalars.stallscope", "--", program]
    assert subprocess.run(record, capture_output=True, check=True).stdout == natively
