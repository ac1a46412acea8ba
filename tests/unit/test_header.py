# SPDX-License-Identifier: Apache-2.0
"""include/stallscope.h compiles everywhere, costs next to nothing, and speaks the tool's codes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stallscope import workloads

ROOT = Path(__file__).resolve().parents[2]
HOWTO = ROOT / "docs/howto/mark-your-program.md"
USES_ALL = """
#include "stallscope.h"
int used(char *memory, const volatile char *other, int count);
int used(char *memory, const volatile char *other, int count) {
  STALLSCOPE_START();
  STALLSCOPE_NAME(memory, 64, "memory");
  STALLSCOPE_NAME(other, (unsigned)count, "other");
  STALLSCOPE_REGION_BEGIN("region");
  if (count > 3)
    STALLSCOPE_REGION_END("region");
  else
    STALLSCOPE_STOP();
  return STALLSCOPE_RECORDED() ? 1 : memory[0];
}
"""
USES_CXX = USES_ALL + 'void scoped() { stallscope::Region region("scope"); }\n'


def compile_text(compiler: str, text: str, folder: Path, *flags: str) -> Path:
    """The object file; any warning fails the test."""
    source = folder / ("use.cpp" if "++" in compiler else "use.c")
    source.write_text(text)
    output = folder / "use.o"
    words = ["-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Werror", *flags]
    command = [compiler, *words, f"-I{workloads.header()}", "-c", str(source), "-o", str(output)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return output


def operations(program: Path) -> list[str]:
    """The mnemonics of the instructions in an object file, padding left out."""
    words = ["objdump", "-d", "--no-show-raw-insn", program]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s+[0-9a-f]+:\t(\w+)", text, re.M)
    return [word for word in found if not word.startswith(("nop", "endbr"))]


@pytest.mark.parametrize("mode", ["", "-DSTALLSCOPE_DISABLED", "-O2"])
@pytest.mark.parametrize(
    ("compiler", "standard"),
    [
        *((compiler, std) for compiler in ("gcc", "clang") for std in ("c99", "c11", "c17")),
        *((compiler, std) for compiler in ("g++", "clang++") for std in ("c++11", "c++20")),
    ],
)
def test_it_compiles_without_warnings(
    compiler: str, standard: str, mode: str, tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    text = USES_CXX if "++" in compiler else USES_ALL
    built = compile_text(compiler, text, tmp_path, f"-std={standard}", *([mode] if mode else []))
    assert ("rol" in operations(built)) == (mode != "-DSTALLSCOPE_DISABLED")


def test_disabled_it_leaves_no_instruction(tmp_path: Path) -> None:
    text = '#include "stallscope.h"\nvoid f(void);\nvoid f(void) { STALLSCOPE_START(); }\n'
    built = compile_text("gcc", text, tmp_path, "-O2", "-DSTALLSCOPE_DISABLED")
    assert operations(built) == ["ret"]


def test_its_codes_are_those_of_the_capture_tool() -> None:
    def codes(path: Path) -> dict[str, str]:
        found = re.findall(r"REQUEST_(\w+) \(\w+_REQUEST_BASE \+ (0x1\d\d)\)", path.read_text())
        return dict(found)

    header = codes(ROOT / "include/stallscope.h")
    assert len(header) == 8
    assert header == codes(ROOT / "capture/valgrind/requests.h")


def test_valgrind_understands_the_instructions(tmp_path: Path) -> None:
    source, program = tmp_path / "ask.c", tmp_path / "ask"
    # 0x1001 is a request of Valgrind's own, answered by every tool: how deep does it run?
    source.write_text(
        '#include "stallscope.h"\n'
        "int main(void) { return (int)stallscope_request(0x1001, 0, 0, 0); }\n"
    )
    words = ["cc", "-O2", f"-I{workloads.header()}", str(source), "-o", str(program)]
    subprocess.run(words, check=True)
    assert subprocess.run([program]).returncode == 0
    assert subprocess.run(["valgrind", "-q", "--tool=none", program]).returncode == 1


def test_natively_a_mark_is_a_handful_of_instructions(tmp_path: Path) -> None:
    text = (
        '#include "stallscope.h"\nvoid f(void);\nvoid f(void) { STALLSCOPE_REGION_BEGIN("x"); }\n'
    )
    instructions = operations(compile_text("gcc", text, tmp_path, "-O2"))
    assert instructions.count("rol") == 4
    assert not {"call", "syscall", "cpuid"} & set(instructions)
    assert len(instructions) <= 20


def test_code_in_the_howto_is_code_that_the_tests_build() -> None:
    pattern = r"<!-- (\S+) -->\n```\w+\n(.*?)```"
    included = re.findall(pattern, HOWTO.read_text(), re.S)
    assert {path for path, _ in included} == {
        "tests/programs/howto_marks.c",
        "tests/programs/marks_cxx.cpp",
    }
    for path, text in included:
        whole = (ROOT / path).read_text()
        assert text == whole.split("\n", 1)[1], f"{HOWTO.name} and {path} differ"
