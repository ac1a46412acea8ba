# SPDX-License-Identifier: Apache-2.0
"""The machine against cachegrind on one program's accesses: every count is equal.

lackey, which comes with Valgrind, prints the accesses. Under Valgrind a program has the same
addresses in every run with the same environment.
"""

from __future__ import annotations

import re
import subprocess
from array import array
from pathlib import Path
from typing import Any

import pytest

from stallscope import _engine

PROGRAM = "/bin/true"
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
KINDS = {"L": 0, "S": 1, "I": 2, "M": 3}


def valgrind(*options: str) -> str:
    command = ["valgrind", *options, PROGRAM]
    run = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return run.stderr


@pytest.fixture(scope="module")
def accesses(tmp_path_factory: pytest.TempPathFactory) -> tuple[array[int], ...]:
    log: Path = tmp_path_factory.mktemp("lackey") / "accesses"
    valgrind("--tool=lackey", "--trace-mem=yes", f"--log-file={log}")
    rows = re.findall(r"^ ?([ILSM]) +([0-9a-f]+),(\d+)$", log.read_text(), re.MULTILINE)
    return (
        array("Q", [int(address, 16) for _, address, _ in rows]),
        array("I", [int(size) for _, _, size in rows]),
        array("B", [KINDS[kind] for kind, _, _ in rows]),
    )


def cache(name: str, holds: str, geometry: tuple[int, int, int]) -> dict[str, Any]:
    size, ways, line = geometry
    given = {"name": name, "holds": holds, "size": size, "ways": ways, "line": line}
    rest = {"write_allocate": True, "write_back": True, "inclusion": "neither", "latency": 1}
    return {**given, "policy": "lru", **rest}


def counted(text: str, what: str) -> int:
    found = re.search(rf"{what}: +([0-9,]+)", text)
    assert found, what
    return int(found[1].replace(",", ""))


GEOMETRIES = [
    ((32768, 8, 64), (32768, 8, 64), (8388608, 16, 64)),
    ((4096, 2, 32), (1024, 1, 32), (65536, 4, 128)),
    ((2048, 32, 64), (2048, 32, 64), (32768, 8, 64)),
]


@pytest.mark.parametrize(("i1", "d1", "ll"), GEOMETRIES)
def test_counts_equal_cachegrinds(
    accesses: tuple[array[int], ...],
    i1: tuple[int, int, int],
    d1: tuple[int, int, int],
    ll: tuple[int, int, int],
) -> None:
    first_levels = [cache("I1", "instructions", i1), cache("D1", "data", d1)]
    machine = _engine.Machine(
        {
            "caches": [*first_levels, cache("LL", "both", ll)],
            "tlbs": [],
            "prefetcher": {"kind": "none"},
            "mapping": {"kind": "identity", "seed": 1, "first_touch": "memory"},
            "memory_latency": 100,
            "page_walk": 0,
            "seed": 1,
        }
    )
    ours = machine.run(*accesses)
    options = [
        f"--{level}={size},{ways},{line}"
        for level, (size, ways, line) in (("I1", i1), ("D1", d1), ("LL", ll))
    ]
    theirs = valgrind("--tool=cachegrind", "--cachegrind-out-file=/dev/null", *options)

    data_misses = ours["LL"]["misses"]["load"] + ours["LL"]["misses"]["store"]
    assert ours["I1"]["accesses"]["fetch"] == counted(theirs, r"I +refs")
    assert sum(ours["D1"]["accesses"].values()) == counted(theirs, r"D +refs")
    assert ours["I1"]["misses"]["fetch"] == counted(theirs, r"I1 +misses")
    assert sum(ours["D1"]["misses"].values()) == counted(theirs, r"D1 +misses")
    assert ours["LL"]["misses"]["fetch"] == counted(theirs, r"LLi +misses")
    assert data_misses == counted(theirs, r"LLd +misses")
