# SPDX-License-Identifier: Apache-2.0
"""Notebooks: magics in a real shell of IPython, results as tables; Python programs as targets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Made, Recorder
from stallscope.analyses.objects import ObjectRow, Objects
from stallscope.errors import StallscopeError

CELL = """
#include <stdlib.h>
#include <string.h>
char* make(void) { return malloc(1 << 20); }
int main(int argc, char** argv) {
  char* block = make();
  for (int i = 0; i < 1 << 20; i += 64) block[i] = (char)argc;
  return block[640] != argc;
}
"""
# PyDLL keeps the interpreter's lock, as NumPy does when it asks for memory.
TARGET = """
import ctypes, os

def make(size):
    return libc.malloc(ctypes.c_size_t(size))

libc = ctypes.PyDLL(None)
libc.malloc.restype = ctypes.c_void_p
block = make(300000)
ctypes.memset(block, 1, 300000)
print(os.environ.get("LD_PRELOAD"))
"""


@pytest.fixture(scope="module")
def shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell()
    made.run_line_magic("load_ext", "stallscope")
    return made


def test_a_cell_is_recorded_and_asked_about(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = shell.run_cell_magic("stallscope", "--language c one two", CELL)
    assert found.rows[0].object.startswith("make (cell.c:4)")
    shown = found._repr_html_()
    assert "<table>" in shown
    assert "make (cell.c:4)" in shown
    asked = shell.run_line_magic("stallscope", "functions cell.stallscope")
    assert asked.rows[0].function == "main"
    assert shell.run_line_magic("stallscope", "info").exit_code == 0
    with pytest.raises(StallscopeError, match="does not compile"):
        shell.run_cell_magic("stallscope", "--language c", "int main(")
    with pytest.raises(StallscopeError, match="there is no such verb"):
        shell.run_line_magic("stallscope", "objectz")


def test_names_stay_text_in_tables() -> None:
    name = "<script>alert(1)</script>\x1b[31m"
    row = ObjectRow(name, "heap", "", None, None, 1, 1, 1, 1, 1.0, 1.0, 1, 1.0, 1.0)
    words: dict[str, Any] = {"recording": name, "machine": "m", "level": "L1D", "function": None}
    numbers = {"misses": 1, "samples": 1, "period": 1, "seed": 1, "average_latency": 1.0}
    shown = Objects(**words, **numbers, processes=[], levels=[], rows=[row])._repr_html_()
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert "&lt;script&gt;" in shown


def test_memory_of_extensions_is_named_by_the_line_of_python(
    tmp_path: Path, record: Recorder
) -> None:
    script = tmp_path / "target.py"
    script.write_text(TARGET)
    made = record(sys.executable, "-I", "-S", script)
    assert made.status == 0, made.ran.stderr
    assert made.ran.stdout.strip() == "None"
    named = [row for row in made.rows("object") if row["kind"] == "named"]
    [row] = [row for row in named if row["name"] == "make (target.py:5)"]
    assert row["size"] == 300000
    assert row["address"] in {block["address"] for block in made.heap()}


# The lines of one thread are asked for while the other one runs.
THREADS = """
import ctypes, threading

def make(size):
    return libc.malloc(ctypes.c_size_t(size))

def work():
    for size in range(1000, 1010):
        make(size)

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_asking_for_the_line_is_no_part_of_the_recording(tmp_path: Path, record: Recorder) -> None:
    script = tmp_path / "alone" / "target.py"  # Python reads the folder that a script is in
    script.parent.mkdir()
    script.write_text(TARGET)
    # Functions that are bound at their first call may be called first while nobody looks.
    same = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"}
    env = {**os.environ, **same}
    named = record(sys.executable, "-S", script, env=env)
    unnamed = record(sys.executable, "-S", script, env=env, options=["--no-heap"])
    assert "make (target.py:5)" in {row["name"] for row in named.rows("object")}
    assert counted(named) == counted(unnamed)


def counted(made: Made) -> tuple[int, int, int]:
    return made.info.instructions, made.info.loads, made.info.stores


def test_threads_without_the_interpreters_lock_are_named_too(
    tmp_path: Path, record: Recorder
) -> None:
    script = tmp_path / "target.py"
    script.write_text(THREADS)
    made = record(sys.executable, "-I", "-S", script, options=["--trace", "--turn", "100"])
    sizes = [row["size"] for row in made.rows("object") if row["name"] == "make (target.py:5)"]
    assert sorted(sizes) == sorted([*range(1000, 1010)] * 2)
