# SPDX-License-Identifier: Apache-2.0
"""Layouts of structs agree with pyelftools, however a program was built, and offsets have names."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dwarf_oracle import Oracle

from stallscope import _engine

SOURCES = Path(__file__).resolve().parents[1] / "programs" / "symbols"
Build = Callable[..., Path]
HOW = {
    "plain": ["-g", "-O0"],
    "dwarf5": ["-gdwarf-5", "-O2"],
    "dwarf4": ["-gdwarf-4", "-O2"],
    "dwarf3": ["-gdwarf-3", "-gstrict-dwarf"],
    "dwarf2": ["-gdwarf-2", "-gstrict-dwarf"],
    "compressed": ["-g", "-gz"],
    "lto": ["-g", "-O2", "-flto=1"],
    "type-units": ["-g", "-fdebug-types-section"],
}


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("layouts")

    def build(source: str, *flags: str, compiler: str = "") -> Path:
        compiler = compiler or ("g++" if source.endswith(".cpp") else "gcc")
        path = folder / "_".join([source, compiler, *flags]).replace("/", "_")
        if not path.exists():
            words = [compiler, *flags, SOURCES / source, "-o", path]
            subprocess.run([str(word) for word in words], check=True, capture_output=True)
        return path

    return build


def layouts(program: Path) -> dict[str, Any]:
    return {row[0]: row for row in _engine.Symbols(str(program)).layouts()}


def check(program: Path, names: set[str]) -> None:
    """Compares every struct that the oracle knows with ours of the same plain name."""
    expected = Oracle(program).layouts()
    ours = {name.split(" ")[-1].split("::")[-1]: row for name, row in layouts(program).items()}
    assert names <= expected.keys() & ours.keys()
    for name in expected.keys() & ours.keys():
        _, _, size, members = ours[name]
        assert size == expected[name].size, name
        found = [(m[0], m[2], m[3], m[4], m[5]) for m in members]
        assert found == [tuple(m) for m in expected[name].members], name


C_NAMES = {"point", "mixed", "flags", "packed", "buffer", "number", "enums", "holder", "empty"}


@pytest.mark.parametrize("how", [how for how in HOW if how != "type-units"])
def test_members_lie_where_the_oracle_says(build: Build, how: str) -> None:
    check(build("layouts.c", *HOW[how]), C_NAMES - {"buffer"} if how == "lto" else C_NAMES)


@pytest.mark.parametrize("how", ["plain", "dwarf5", "dwarf4"])
def test_members_of_classes_lie_where_the_oracle_says(build: Build, how: str) -> None:
    check(build("layouts.cpp", *HOW[how]), {"Base", "Derived", "Inner", "Shape", "Left", "InTail"})


@pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
@pytest.mark.parametrize("flags", [["-g"], ["-gdwarf-4", "-O2"]])
def test_programs_of_clang_agree_too(build: Build, flags: list[str]) -> None:
    check(build("layouts.c", *flags, compiler="clang"), C_NAMES - {"empty"})
    check(build("layouts.cpp", *flags, compiler="clang++"), {"Derived", "InTail"})


def test_a_large_program_agrees(build: Build) -> None:
    """libstdc++ has every shape that people come up with."""
    program = build("places.cpp", "-g", "-O2", "-std=c++20", "-static")
    check(program, {"Counter", "Entry"})


def test_types_read_as_people_write_them(build: Build) -> None:
    found = layouts(build("layouts.c", "-g"))
    types = {m[0]: m[1] for m in found["struct mixed"][3]}
    assert types == {
        "tag": "char",
        "pos": "struct point",
        "payload": "uint64_t [7]",
        "next": "struct mixed *",
        "as": "union {...}",
        "": "union {...}",
        "extents": "extent [3][2]",
        "call": "int (*)(int)",
    }
    assert {m[0]: m[1] for m in found["struct enums"][3]}["two"] == "colour"
    assert found["union number"][1] == "union"
    classes = layouts(build("layouts.cpp", "-g"))
    assert "shapes::Derived" in classes
    assert "shapes::Derived::Inner" in classes
    (base, other, empty), rest = (
        [m for m in classes["shapes::Derived"][3] if m[6]],
        [m[0] for m in classes["shapes::Derived"][3] if not m[6]],
    )
    assert [base[1], other[1], empty[1]].count("shapes::Base") == 1
    assert rest == ["small", "name", "inner"]


FIELDS = [
    ("struct mixed", 0, "tag"),
    ("struct mixed", 1, "(padding)"),
    ("struct mixed", 4, "pos.x"),
    ("struct mixed", 9, "pos.y"),
    ("struct mixed", 16, "payload[0]"),
    ("struct mixed", 31, "payload[1]"),
    ("struct mixed", 72, "next"),
    ("struct mixed", 80, "as.number|real|text[0]"),
    ("struct mixed", 84, "as.real|text[4]"),
    ("struct mixed", 88, "as.text[8]"),
    ("struct mixed", 92, "(padding)"),
    ("struct mixed", 96, "word|low"),
    ("struct mixed", 98, "word|high"),
    ("struct mixed", 100, "extents[0][0].width"),
    ("struct mixed", 140, "extents[2][1].width"),
    ("struct mixed", 148, "(padding)"),
    ("struct mixed", 152, "call"),
    ("struct flags", 0, "first|second"),
    ("struct packed", 1, "value"),
    ("struct packed", 5, "rest"),
    ("struct buffer", 0, "used"),
    ("struct buffer", 8, "points[0].x"),
    ("struct buffer", 8 + 12 * 100 + 4, "points[100].y"),
    ("union number", 4, "bytes[4]|word|half.high"),
    ("struct holder", 0, "hidden"),
    ("struct holder", 16, "wide"),
]


@pytest.mark.parametrize(("name", "offset", "path"), FIELDS)
def test_what_lies_at_an_offset(build: Build, name: str, offset: int, path: str) -> None:
    symbols = _engine.Symbols(str(build("layouts.c", "-g")))
    found = symbols.field(name, offset)
    assert found[0] == path
    assert found[1] <= offset < found[1] + found[2]
    assert found[3] == path.endswith("(padding)")


CLASS_FIELDS = [
    ("shapes::Derived", 0, "id"),
    ("shapes::Derived", 4, "mark"),
    ("shapes::Derived", 8, "weight"),
    ("shapes::Shape", 0, "_vptr.Virtual"),
    ("shapes::Shape", 8, "value"),
    ("shapes::Shape", 16, "area"),
    ("shapes::Grid<shapes::Base, 3>", 8, "cells[1].id"),
    ("shapes::InTail", 4, "byte"),
    ("shapes::InTail", 5, "used"),
]


@pytest.mark.parametrize(("name", "offset", "path"), CLASS_FIELDS)
def test_what_lies_at_an_offset_of_a_class(build: Build, name: str, offset: int, path: str) -> None:
    symbols = _engine.Symbols(str(build("layouts.cpp", "-g")))
    assert symbols.field(name, offset)[0] == path


def test_every_byte_of_every_type_is_a_field_or_padding(build: Build) -> None:
    symbols = _engine.Symbols(str(build("layouts.cpp", "-g", "-O2")))
    for name, _, size, members in symbols.layouts():
        at = 0
        while at < min(size, 4096):
            path, offset, length, is_padding = symbols.field(name, at)
            assert offset <= at, (name, at, path)
            assert offset + length > at or not members, (name, at, path)
            assert path or not members or is_padding
            at += 1


def test_types_in_units_of_their_own_are_found(build: Build) -> None:
    program = build("layouts.c", *HOW["type-units"])
    types = {v[0]: (v[2], v[3]) for v in _engine.Symbols(str(program)).variables() if v[3]}
    assert types["mixed"] == (640, "struct mixed [4]")


def test_a_program_without_debug_information_has_no_layouts(build: Build) -> None:
    symbols = _engine.Symbols(str(build("layouts.c", "-O2")))
    assert symbols.layouts() == []
    assert symbols.field("struct mixed", 0) is None
    assert _engine.Symbols(str(build("layouts.c", "-g"))).field("struct nobody", 0) is None


@pytest.mark.parametrize("how", ["dwarf5", "dwarf4"])
def test_damage_costs_layouts_and_nothing_else(build: Build, tmp_path: Path, how: str) -> None:
    whole = build("layouts.c", *HOW[how]).read_bytes()
    elf = Oracle(build("layouts.c", *HOW[how])).elf
    parts = [elf.get_section_by_name(name) for name in (".debug_info", ".debug_abbrev")]
    places = [at for p in parts for at in range(p["sh_offset"], p["sh_offset"] + p["sh_size"])]
    damaged, choose, counts = tmp_path / "damaged", random.Random(how), []
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(choose.choice([1, 4, 32])):
            data[choose.choice(places)] = choose.choice([0, 1, 0x7F, 0x80, 0xFF])
        damaged.write_bytes(data)
        try:
            symbols = _engine.Symbols(str(damaged))
        except _engine.EngineError:
            counts.append(0)
            continue
        found = symbols.layouts()
        for name, _, size, members in found:
            for member in members:
                assert member[2] + member[3] <= size
            symbols.field(name, choose.randrange(1 << 20))
        counts.append(len(found))
    assert max(counts) >= len(C_NAMES)
    assert min(counts) < len(C_NAMES)
