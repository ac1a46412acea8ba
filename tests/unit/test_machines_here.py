# SPDX-License-Identifier: Apache-2.0
"""Machines that are read from the one that the tests run on: `host` and `cachegrind`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stallscope import machines
from stallscope.errors import StallscopeError
from stallscope.machines import cachegrind, this_machine
from stallscope.machines.model import Machine
from stallscope.record import host as kernel


def shape(machine: Machine, cache: str) -> tuple[int, int, int, int]:
    (found,) = [c for c in machine.caches if c.name == cache]
    return found.size, found.ways, found.line, found.latency


# This machine


def test_the_host_has_the_caches_that_the_kernel_shows() -> None:
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    if not folder.exists():
        pytest.skip("this kernel shows no caches")
    shown = {
        (int((index / "ways_of_associativity").read_text()), (index / "size").read_text().strip())
        for index in folder.glob("index[0-9]*")
    }
    machine = machines.host()
    assert {(c.ways, f"{c.size // 1024}K") for c in machine.caches} == shown
    latencies = [c.latency for c in machine.caches]
    assert latencies == sorted(latencies)


def row(level: int, kind: str, size: int, ways: int, sets: int, cpus: str = "0") -> kernel.Cache:
    return kernel.Cache(level, kind, size, ways, 64, sets, cpus, 1)


def test_a_host_with_two_kinds_of_cores_is_its_first() -> None:
    found = (
        row(1, "Data", 48 << 10, 12, 64, "0-1"),
        row(1, "Data", 32 << 10, 8, 64, "8"),
        row(1, "Instruction", 32 << 10, 8, 64, "0-1"),
        row(2, "Unified", 2 << 20, 16, 2048, "0-1"),
        row(2, "Unified", 4 << 20, 16, 4096, "8-11"),
    )
    caches = this_machine.from_kernel(found)
    assert [(c.name, c.size >> 10) for c in caches] == [("L1I", 32), ("L1D", 48), ("L2", 2048)]


def test_a_fully_associative_cache_of_a_host_has_its_ways_from_its_sets() -> None:
    (cache,) = this_machine.from_kernel((row(1, "Data", 4096, 0, 1),))
    assert (cache.ways, cache.sets) == (64, 1)


# As `getconf -a` gives them: size, ways and line of L1I, L1D, L2, L3, from number 185 on.
DESKTOP = (32768, 0, 64, 49152, 12, 64, 2 << 20, 16, 64, 36 << 20, 12, 64)
CLOUD = (32768, 0, 64, 32768, 8, 64, 1 << 20, 8, 64, 320 << 20, 0, 64)


def library(monkeypatch: pytest.MonkeyPatch, told: tuple[int, ...]) -> None:
    """The kernel shows no caches, and the C library these."""
    monkeypatch.setattr(kernel, "caches", lambda: ())
    monkeypatch.setattr(this_machine.os, "sysconf", lambda n: dict(enumerate(told, 185)).get(n, 0))


def test_without_the_kernels_tables_the_c_library_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library(monkeypatch, (*DESKTOP[:1], 8, *DESKTOP[2:]))
    machine = machines.host()
    assert shape(machine, "L1I") == (32768, 8, 64, 4)
    assert shape(machine, "L1D") == (49152, 12, 64, 4)
    assert shape(machine, "L3") == (36 << 20, 12, 64, 50)


def test_ways_of_instructions_that_the_c_library_leaves_out_are_those_of_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library(monkeypatch, (*DESKTOP[:3], 49152, 8, *DESKTOP[5:]))
    assert shape(machines.host(), "L1I")[:2] == (32768, 8)


def test_a_cache_that_the_c_library_knows_in_part_is_not_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library(monkeypatch, CLOUD)
    with pytest.raises(StallscopeError) as caught:
        machines.host()
    assert "L3 of this machine is known in part only" in caught.value.what
    assert "--machine default" in caught.value.now


def test_a_host_whose_caches_nobody_knows_is_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "caches", lambda: ())
    monkeypatch.setattr(this_machine.os, "sysconf", lambda number: 0)
    with pytest.raises(StallscopeError) as caught:
        machines.load("host")
    assert "unknown" in caught.value.what
    assert "--machine default" in caught.value.now
    assert "host" not in [machine.name for machine in machines.available()]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (row(1, "Data", 32 << 10, 0, 0), "known in part only"),
        (row(1, "Data", 5 << 20, 48, 1706), "cannot be simulated"),
        (row(1, "Instruction", 32 << 10, 8, 64), "unknown"),
    ],
)
def test_an_odd_host_is_refused_with_a_way_out(
    found: kernel.Cache, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "caches", lambda: (found,))
    with pytest.raises(StallscopeError) as caught:
        machines.host()
    assert words in caught.value.what
    assert "--machine default" in caught.value.now


# Cachegrind's


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_the_capture_tool_detects_what_cachegrind_prints(tmp_path: Path) -> None:
    out = tmp_path / "out"
    subprocess.run(
        ["valgrind", "--tool=cachegrind", f"--cachegrind-out-file={out}", "true"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    printed = cachegrind.from_result(out.read_text())
    assert printed is not None
    assert cachegrind.ask_capture_tool() == printed
    machine = machines.load("cachegrind")
    assert {c.name: (c.size, c.ways, c.line) for c in machine.caches} == printed


def test_desc_lines_are_read_in_both_of_their_forms() -> None:
    text = (
        "desc: I1 cache:         32768 B, 64 B, 8-way associative\n"
        "desc: D1 cache:         49152 B, 64 B, 12-way associative\n"
        "desc: LL cache:         268435456 B, 64 B, direct-mapped\ncmd: true\n"
    )
    assert cachegrind.from_result(text) == {
        "I1": (32768, 8, 64),
        "D1": (49152, 12, 64),
        "LL": (268435456, 1, 64),
    }
    assert cachegrind.from_result(text.partition("desc: LL")[0]) is None


def test_a_last_level_gets_fewer_sets_and_more_ways_as_cachegrind_does_it() -> None:
    mib = 1 << 20
    assert cachegrind.last_level((8 * mib, 16, 64)) == (8 * mib, 16, 64)
    assert cachegrind.last_level((12 * mib, 16, 64)) == (12 * mib, 24, 64)
    assert cachegrind.last_level((320 * mib, 1, 64)) == (256 * mib, 1, 64)
    size, ways, line = cachegrind.last_level((5 * mib, 48, 64))
    assert (ways, size) == (80, 80 * 64 * 1024)
    assert size // line // ways == 1024


def test_where_nothing_is_detected_cachegrind_has_its_own_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cachegrind, "ask_cachegrind", lambda: None)
    monkeypatch.setattr(cachegrind, "ask_capture_tool", lambda: None)
    cachegrind._detected.cache_clear()
    try:
        machine = cachegrind.cachegrind()
    finally:
        cachegrind._detected.cache_clear()
    assert shape(machine, "D1")[:3] == (65536, 2, 64)
    assert shape(machine, "LL")[:3] == (262144, 8, 64)
