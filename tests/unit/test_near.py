# SPDX-License-Identifier: Apache-2.0
"""The near allocator keeps its promises: where blocks lie, that they never overlap, threads, forks,
wrong uses; as the library itself, under the address sanitizer and under memcheck."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stallscope import workloads
from stallscope.recording import open_recording

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "runtime/near").glob("*.c"))
PROGRAMS = Path(__file__).parent / "near"
INCLUDES = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'runtime/near'}"]
LINE, PAGE, LARGEST = 64, 4096, 256


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload, no-any-return]


def compiled(target: Path, *words: object) -> Path:
    if not target.exists():
        built = run("gcc", "-Wall", "-Wextra", "-Werror", "-g", *INCLUDES, *words, "-o", target)
        assert built.returncode == 0, built.stderr
    return target


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("near")


def program(name: str, folder: Path, *flags: str) -> Path:
    target = folder / "-".join([name, *flags])
    return compiled(target, "-O1", *flags, PROGRAMS / f"{name}.c", *SOURCES, "-pthread")


class Near:
    """The shared library, and every block that it gave and did not get back."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        for name, result, arguments in (
            ("ss_malloc_near", pointer, [size, pointer]),
            ("ss_malloc_near_room", pointer, [size, size]),
            ("ss_realloc_near", pointer, [pointer, size, pointer]),
            ("ss_free_near", None, [pointer]),
            ("ss_near_usable", size, [pointer]),
            ("ss_near_stats", None, [pointer]),
        ):
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        self.live: dict[int, int] = {}

    def make(self, size: int, hint: int | None = None) -> int:
        return self._keep(self.library.ss_malloc_near(size, hint), size)

    def make_with_room(self, size: int, room: int) -> int:
        return self._keep(self.library.ss_malloc_near_room(size, room), size)

    def resize(self, block: int, size: int, hint: int | None = None) -> int:
        moved = self.library.ss_realloc_near(block, size, hint)
        del self.live[block]
        return self._keep(moved, size)

    def free(self, block: int) -> None:
        del self.live[block]
        self.library.ss_free_near(block)

    def free_all(self) -> None:
        for block in list(self.live):
            self.free(block)

    def usable(self, block: int) -> int:
        return int(self.library.ss_near_usable(block))

    def stats(self) -> dict[str, int]:
        names = (
            *("same_line", "same_group", "same_page", "apart", "conflicting"),
            *("unhinted", "passed_on", "freed", "pages"),
        )
        numbers = (ctypes.c_uint64 * len(names))()
        self.library.ss_near_stats(numbers)
        return dict(zip(names, numbers, strict=True))

    def _keep(self, block: int, size: int) -> int:
        assert block is not None
        start, end = block, block + max(size, 1)
        assert start % (8 if max(size, 1) % 16 else 16) == 0
        for other, bytes in self.live.items():
            assert end <= other or other + max(bytes, 1) <= start, "two blocks overlap"
        if self.usable(block):
            assert self.usable(block) >= size
            assert (end - 1) // LINE - start // LINE < (max(size, 1) + LINE - 1) // LINE
        self.live[block] = size
        return block

    def room_in_line(self, address: int, size: int) -> bool:
        """Whether a block would fit into the free granules of an address's line."""
        first = address // LINE * LINE
        taken = [False] * 8
        for block, bytes in self.live.items():
            for granule in range(8):
                start = first + granule * 8
                if block < start + 8 and start < block + max(bytes, 1):
                    taken[granule] = True
        granules, step = (max(size, 1) + 7) // 8, 1 if max(size, 1) % 16 else 2
        return any(
            not any(taken[start : start + granules]) for start in range(0, 9 - granules, step)
        )


@pytest.fixture(scope="module")
def library(folder: Path) -> Near:
    return Near(compiled(folder / "libnear.so", "-O2", "-shared", "-fPIC", *SOURCES))


@pytest.fixture
def near(library: Near) -> Iterator[Near]:
    yield library
    library.free_all()


# --- where blocks go


def test_a_small_block_goes_into_its_hints_cache_line(near: Near) -> None:
    cell = near.make_with_room(16, 64)
    pins = [near.make(16, cell) for _ in range(3)]
    assert {pin // LINE for pin in pins} == {cell // LINE}


def test_room_is_kept_for_hints_into_it(near: Near) -> None:
    cells = [near.make_with_room(32, 128) for _ in range(8)]
    for cell in cells:
        pins = [near.make(32, cell) for _ in range(3)]
        assert {pin // 128 for pin in pins} == {cell // 128}


def test_what_overflows_from_one_line_meets_in_another_set(near: Near) -> None:
    cells = [near.make_with_room(64, 64) for _ in range(PAGE // LINE)]
    cell = cells[5]
    pins = [near.make(16, cell) for _ in range(4)]
    assert len({pin // LINE for pin in pins}) == 1
    assert pins[0] // LINE % 64 != cell // LINE % 64


def test_blocks_without_a_hint_are_packed_without_headers(near: Near) -> None:
    blocks = [near.make(32) for _ in range(1024)]
    assert len({block // LINE for block in blocks}) <= 1024 // 2 + 4


def test_hints_are_counted_by_where_they_led(near: Near) -> None:
    before = near.stats()
    cell = near.make_with_room(32, 128)
    near.make(32, cell)
    near.make(32, cell)
    near.make(1000, cell)
    after = near.stats()
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert {k: v for k, v in grown.items() if k != "pages"} == {
        "unhinted": 1,
        "same_line": 1,
        "same_group": 1,
        "passed_on": 1,
    }


@pytest.mark.parametrize("hint", [1, 0x7FFF_FFFF_F000, (1 << 64) - 8])
def test_a_hint_may_be_any_address(near: Near, hint: int) -> None:
    assert near.usable(near.make(24, hint)) == 24


def test_memory_that_was_freed_is_used_again(near: Near) -> None:
    for _ in range(20):
        for _ in range(500):
            near.make(48)
        near.free_all()
    pages = near.stats()["pages"]
    for _ in range(500):
        near.make_with_room(48, 128)
    near.free_all()
    assert near.stats()["pages"] <= pages + 500 * 128 // PAGE + 1


def test_large_blocks_are_mallocs(near: Near) -> None:
    assert near.usable(near.make(LARGEST)) == LARGEST
    assert near.usable(near.make(LARGEST + 1)) == 0


# --- any sequence of calls

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["make", "make", "hinted", "hinted", "hinted", "room", "resize", "free"]),
        st.one_of(st.integers(0, 72), st.integers(0, 300)),
        st.integers(0, 1 << 16),
        st.sampled_from([1, 64, 100, 128, 256]),
    ),
    max_size=60,
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(operations=OPERATIONS)
def test_no_sequence_of_calls_breaks_a_promise(near: Near, operations: list[tuple]) -> None:  # type: ignore[type-arg]
    """Overlap, alignment and lines are checked with every block that is made."""
    near.free_all()
    for what, size, pick, room in operations:
        chosen = list(near.live)[pick % len(near.live)] if near.live else None
        if what == "room":
            near.make_with_room(size, room)
        elif what == "make" or chosen is None:
            near.make(size)
        elif what == "free":
            near.free(chosen)
        elif what == "resize":
            content = bytes(pick % 251 for _ in range(near.live[chosen]))
            ctypes.memmove(chosen, content, len(content))
            kept = min(size, len(content))
            assert ctypes.string_at(near.resize(chosen, size), kept) == content[:kept]
        else:
            could = size <= LINE and near.usable(chosen) > 0 and near.room_in_line(chosen, size)
            block = near.make(size, chosen)
            assert not could or block // LINE == chosen // LINE
    near.free_all()


# --- threads, forks, wrong uses


@pytest.mark.parametrize("flags", [(), ("-fsanitize=address,undefined",), ("-fsanitize=thread",)])
def test_threads_free_each_others_blocks(flags: tuple[str, ...], folder: Path) -> None:
    command: list[object] = [program("threads", folder, *flags), 4, 20000]
    if flags == ("-fsanitize=thread",):
        if shutil.which("setarch") is None:
            pytest.skip("the thread sanitizer needs setarch")
        command = ["setarch", "-R", *command]  # it cannot run where addresses are too random
    ran = run(*command)
    assert (ran.returncode, ran.stdout[:9]) == (0, "faults=0 "), ran.stderr


def test_memcheck_finds_nothing_wrong(folder: Path) -> None:
    checked = program("threads", folder)
    ran = run("valgrind", "-q", "--leak-check=full", "--error-exitcode=9", checked, 4, 3000)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_with_little_address_space_it_still_works(folder: Path) -> None:
    command = f"ulimit -v 100000 && exec {program('threads', folder)} 2 5000"
    ran = run("bash", "-c", command)
    assert (ran.returncode, ran.stdout[:9]) == (0, "faults=0 ")


@pytest.mark.parametrize("use", ["of_malloc", "in_child"])
def test_right_uses(use: str, folder: Path) -> None:
    assert run(program("misuse", folder), use).returncode == 0
    assert (
        run(program("misuse", folder, "-fsanitize=address"), use, env=leaks_allowed()).stderr == ""
    )


@pytest.mark.parametrize("use", ["twice", "inside", "odd"])
def test_a_wrong_free_ends_the_program_with_a_message(use: str, folder: Path) -> None:
    ran = run(program("misuse", folder), use)
    assert ran.returncode == -signal.SIGABRT
    assert "no block's beginning" in ran.stderr


@pytest.mark.parametrize("use", ["overrun", "use_after_free"])
def test_watchers_see_wrong_accesses(use: str, folder: Path) -> None:
    memcheck = run("valgrind", "-q", "--error-exitcode=9", program("misuse", folder), use)
    assert memcheck.returncode == 9
    assert "Invalid read of size 1" in memcheck.stderr
    sanitizer = run(program("misuse", folder, "-fsanitize=address"), use, env=leaks_allowed())
    assert "AddressSanitizer: use-after-poison" in sanitizer.stderr


def leaks_allowed() -> dict[str, str]:
    return {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_containers(standard: str, folder: Path) -> None:
    library = compiled(folder / "libnear.so", "-O2", "-shared", "-fPIC", *SOURCES)
    target = folder / f"containers-{standard}"
    words = ["-Wall", "-Wextra", "-Werror", *INCLUDES, PROGRAMS / "containers.cpp", library]
    built = run("g++", f"-std={standard}", "-O2", *words, f"-Wl,-rpath,{folder}", "-o", target)
    assert built.returncode == 0, built.stderr
    ran = run(target)
    # Nodes of 24 bytes, two in a line.
    assert ran.stdout == "list=2000 map=500 aligned=1 equal=1 shared=1000\n"


# --- recordings


def test_a_recording_names_placed_blocks_by_who_asked_for_them(folder: Path) -> None:
    truth = workloads.truth("placement")
    words = truth.command_arguments("quick", "near")
    recording = folder / "near.stallscope"
    stallscope = Path(sys.executable).with_name("stallscope")
    ran = run(stallscope, "record", "-o", recording, "--", workloads.build("placement"), *words)
    assert ran.returncode == 0, ran.stderr
    tables = open_recording(recording)
    callers = {
        row["site"]: row["function"]
        for row in tables.table("site").to_pylist()
        if row["depth"] == 0
    }
    made = Counter(
        (callers[row["site"]], row["size"])
        for row in tables.table("object").to_pylist()
        if row["kind"] == "heap"
    )
    values = truth.values("quick", ran.stdout, "near")
    for thing in truth.objects:
        size = workloads.evaluate(thing.bytes, values)
        assert made[thing.function, size] == workloads.evaluate(thing.count, values)
