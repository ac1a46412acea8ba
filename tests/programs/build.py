# SPDX-License-Identifier: Apache-2.0
"""Builds the test programs. Each says in its first lines what it exercises."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include"
MANY_BLOCKS = 2500


@dataclass(frozen=True)
class Program:
    """How a program is built where its name and the usual flags do not say it."""

    source: str = ""
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


_PVALLOC = "-DWITHOUT_PVALLOC"
_ALLOCATORS = {
    "": (),
    "_jemalloc": ("-Wl,--no-as-needed", "-ljemalloc"),
    "_tcmalloc": ("-Wl,--no-as-needed", "-ltcmalloc_minimal"),
}
PROGRAMS: dict[str, Program] = {
    **{
        name: Program()
        for name in (
            *("abort", "crash", "environment", "exec_chain", "exit_code", "fork_tree", "heapmap"),
            *("growing", "heapfork"),
            *("fault_address", "waiting_sum"),
            *("howto_marks", "regions"),
            *("io", "jit", "killed", "longjmp", "mmaps", "signals", "skip", "spawn", "spin"),
            *(
                "passes",
                "paths",
                "stall_causes",
                "steady",
                "two_arrays",
                "typed",
                "vfork_exec",
                "waits",
            ),
            *("hot_struct", "jit_walk", "no_perf", "prefetches", "reuses"),
        )
    },
    "ahead": Program(libraries=("-ldl", "-pthread", "-Wl,-rpath,$ORIGIN")),
    "allocators": Program(flags=("-fno-builtin",)),
    "allocators_jemalloc": Program(
        "allocators.c", ("-fno-builtin", _PVALLOC), ("-Wl,--no-as-needed", "-ljemalloc")
    ),
    "allocators_tcmalloc": Program(
        "allocators.c", ("-fno-builtin",), ("-Wl,--no-as-needed", "-ltcmalloc_minimal")
    ),
    "avx512": Program(flags=("-mavx512f",)),
    "cxx_new": Program("cxx_new.cpp", ("-std=c++17",)),
    "cxx_new_jemalloc": Program(
        "cxx_new.cpp", ("-std=c++17",), ("-Wl,--no-as-needed", "-ljemalloc")
    ),
    "cxx_new_tcmalloc": Program(
        "cxx_new.cpp", ("-std=c++17",), ("-Wl,--no-as-needed", "-ltcmalloc_minimal")
    ),
    "dlopen": Program(libraries=("-ldl", "-Wl,-rpath,$ORIGIN")),
    "frames": Program(libraries=("-pthread",)),
    "generations": Program(libraries=("-pthread",)),
    "tilings": Program(flags=("-fno-tree-vectorize",)),
    "sharers": Program(flags=("-O2",), libraries=("-pthread",)),
    **{
        f"heaplog{kind}": Program("heaplog.c", ("-fno-builtin",), ("-pthread", *libraries))
        for kind, libraries in _ALLOCATORS.items()
    },
    **{
        f"heaplog_cxx{kind}": Program("heaplog_cxx.cpp", ("-std=c++17",), libraries)
        for kind, libraries in _ALLOCATORS.items()
    },
    **{
        f"heaplog_churn{kind}": Program(
            "heaplog_churn.c", ("-fno-builtin", "-O2"), ("-pthread", *libraries)
        )
        for kind, libraries in _ALLOCATORS.items()
    },
    "heaplog_threads": Program(flags=("-fno-builtin",), libraries=("-pthread",)),
    "heapmap_cxx": Program("heapmap_cxx.cpp", ("-std=c++17",)),
    "locks": Program(libraries=("-pthread",)),
    "ten_loops": Program(flags=("-O1", "-fno-tree-vectorize")),
    "followed": Program(flags=("-fno-tree-vectorize",)),
    "overflow": Program(flags=("-O1", "-fno-builtin")),
    "secrets": Program(flags=("-O1",)),
    "many_blocks": Program(flags=("-O0",)),
    "marks": Program(libraries=("-pthread",)),
    "marks_cxx": Program("marks_cxx.cpp", ("-std=c++11",)),
    "threads200": Program(libraries=("-pthread",)),
    "typed_cxx": Program("typed_cxx.cpp", ("-std=c++17",)),
}


def build(
    name: str,
    folder: Path,
    *,
    static: bool = False,
    strip: bool = False,
    pie: bool = True,
    extra: Sequence[str] = (),
) -> Path:
    """Compiles a program into `folder` and returns its path. Static ones are never PIE."""
    program = PROGRAMS[name]
    source = HERE / (program.source or f"{name}.c")
    folder.mkdir(parents=True, exist_ok=True)
    if name == "many_blocks":
        source = folder / "many_blocks.c"
        source.write_text(many_blocks(MANY_BLOCKS))
    if name == "dlopen":
        _compile([str(HERE / "dlopen_plugin.c")], folder / "dlopen_plugin.so", "-shared", "-fPIC")
    if name == "ahead":
        _compile([str(HERE / "ahead_plugin.c")], folder / "ahead_plugin.so", "-shared", "-fPIC")
    kind = ["-static"] if static else ["-pie", "-fPIE"] if pie else ["-no-pie", "-fno-pie"]
    return _compile(
        [*program.flags, f"-I{INCLUDE}", str(source), *program.libraries],
        folder / name,
        *kind,
        *(["-s"] if strip else []),
        *extra,
    )


def many_blocks(functions: int) -> str:
    """C source with thousands of functions, each with branches of its own, each called twice."""
    bodies = (
        f"static unsigned f{i}(unsigned x) {{\n"
        f"  if (x % {i % 7 + 2} == 0) x += {i}; else x ^= {i * 2654435761 % 2**32}u;\n"
        f"  while (x % {i % 5 + 3} != 0) x++;\n"
        f"  return x + words[x % 64];\n}}\n"
        for i in range(functions)
    )
    table = ",".join(f"f{i}" for i in range(functions))
    return (
        "#include <stdio.h>\n"
        "static volatile unsigned words[64];\n" + "".join(bodies) + f"\n"
        f"static unsigned (*const table[])(unsigned) = {{{table}}};\n"
        "int main(void) {\n"
        "  unsigned x = 1;\n"
        f"  for (int i = 0; i < 2 * {functions}; i++) x = table[i % {functions}](x);\n"
        '  printf("x=%u\\n", x);\n'
        "  return 0;\n}\n"
    )


def _compile(words: Sequence[str], output: Path, *options: str) -> Path:
    cxx = any(word.endswith(".cpp") for word in words)
    compiler = os.environ.get("CXX", "c++") if cxx else os.environ.get("CC", "cc")
    command = [compiler, "-O2", "-g", "-Wall", "-Wextra", *words, *options, "-o", str(output)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0 or ran.stderr:
        raise RuntimeError(f"{' '.join(command)}\n{ran.stderr}")
    return output
