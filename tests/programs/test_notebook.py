# SPDX-License-Identifier: Apache-2.0
"""Notebooks: magics in a real shell of IPython, results as tables; Python programs as targets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Recorder
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
    made = record(sys.executable, "-I", "-S", script, options=["--python-lines"])
    assert made.status == 0, made.ran.stderr
    assert made.ran.stdout.strip() == "None"
    named = [row for row in made.rows("object") if row["kind"] == "named"]
    [row] = [row for row in named if row["name"] == "make (target.py:5)"]
    assert row["size"] == 300000
    assert row["address"] in {block["address"] for block in made.heap()}
