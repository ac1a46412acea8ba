# SPDX-License-Identifier: Apache-2.0
"""Arrows point one way: capture -> stream -> machine -> probes -> tables -> analyses -> views."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "stallscope"
# A room of the package, and what it must not import when it runs.
FORBIDDEN = {
    "analyses": ("stallscope.views", "stallscope.cli", "stallscope.record"),
    "views": ("stallscope._engine", "stallscope.record", "stallscope.cli", "stallscope.analyses"),
    "record": ("stallscope.views", "stallscope.cli", "stallscope.analyses"),
    "machines": ("stallscope.views", "stallscope.cli", "stallscope.analyses", "stallscope._engine"),
}
# A room of the engine, and the rooms whose headers it may include besides its own.
ENGINE = {
    "base": set(),
    "sieve": set(),
    "stream": {"base"},
    "code": {"base"},
    "symbols": {"base"},
    "types": {"base", "code", "symbols"},
    "machine": {"base", "sieve"},
    "monitor": {"base"},
    "pipeline": {"base", "stream", "code", "machine"},
    "probes": {"base", "machine"},
    "target": {"base", "stream", "symbols"},
    "stack": {"base"},
    "sources": {"base", "stream", "code", "symbols", "probes", "target"},
    "session": {
        "sources",
        "base",
        "sieve",
        "stream",
        "symbols",
        "machine",
        "probes",
        "target",
        "code",
        "types",
        "stack",
        "pipeline",
        "monitor",
    },
}


def runtime_imports(path: Path) -> Iterator[str]:
    """Modules that a file imports, but not those that only type checkers see."""

    def visit(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    yield from visit(ast.parse(path.read_text()))


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_a_room_of_the_package_knows_only_what_stands_before_it(room: str) -> None:
    # verify and doctor look at the world by design; host facts reach doctor as data.
    allowed = {("analyses/doctor.py", "stallscope.record")}
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in (PACKAGE / room).rglob("*.py")
        for module in runtime_imports(path)
        for forbidden in FORBIDDEN[room]
        if (module == forbidden or module.startswith(f"{forbidden}."))
        and (str(path.relative_to(PACKAGE)), forbidden) not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize("room", sorted(ENGINE))
def test_a_room_of_the_engine_includes_only_what_stands_before_it(room: str) -> None:
    wrong = []
    for path in (ROOT / "engine" / room).rglob("*"):
        if path.suffix not in (".h", ".cpp"):
            continue
        for other in re.findall(r'#include "(\w+)/', path.read_text()):
            if other != room and other not in ENGINE[room]:
                wrong.append(f"{path.relative_to(ROOT)} includes {other}/")
    assert not wrong


def test_every_engine_room_is_known() -> None:
    rooms = {path.name for path in (ROOT / "engine").iterdir() if path.is_dir()}
    assert rooms == set(ENGINE)


def test_no_python_header_outside_the_bindings() -> None:
    for path in (ROOT / "engine").rglob("*"):
        if path.suffix in (".h", ".cpp"):
            assert "Python.h" not in path.read_text()
            assert "nanobind" not in path.read_text()


def test_every_source_names_its_licence() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.c", "*.cpp", "*.h", "*.sh"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("no git checkout")
    for name in listed.stdout.split():
        start = (ROOT / name).read_text()[:400]
        gpl = name.startswith("capture/valgrind/") and not name.endswith("requests.h")
        wanted = "GPL-2.0-or-later" if gpl else "Apache-2.0"
        if name.endswith("__init__.py") and not start.strip():
            continue
        assert f"SPDX-License-Identifier: {wanted}" in start, name
