# SPDX-License-Identifier: Apache-2.0
"""Names, lines, inlined frames and variables agree with pyelftools, however a program was built."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from dwarf_oracle import Oracle

from stallscope import _engine

SOURCES = Path(__file__).resolve().parents[1] / "programs" / "symbols"
Build = Callable[..., Path]

HOW = {
    "plain": ["-g", "-O0"],
    "optimised": ["-g", "-O2"],
    "dwarf4": ["-gdwarf-4", "-O2"],
    "dwarf5": ["-gdwarf-5", "-O2"],
    "dwarf3": ["-gdwarf-3", "-gstrict-dwarf", "-O1"],
    "fixed": ["-g", "-O2", "-no-pie"],
    "static": ["-g", "-O2", "-static"],
    "compressed": ["-g", "-O2", "-gz"],
    "compressed-old": ["-g", "-O2", "-gz=zlib-gnu"],
    "lto": ["-g", "-O2", "-flto=1"],
    "sections": ["-g", "-O2", "-ffunction-sections", "-Wl,--gc-sections"],
}


def run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("symbols")

    def build(source: str, *flags: str, compiler: str = "") -> Path:
        compiler = compiler or ("g++" if source.endswith(".cpp") else "gcc")
        name = "_".join([source, compiler, *flags]).replace("/", "_").replace(",", "_")
        if not (folder / name).exists():
            run(compiler, *flags, SOURCES / source, "-o", folder / name)
        return folder / name

    return build


def function_names(symbols: _engine.Symbols, address: int) -> list[str]:
    return [frame[0] for frame in symbols.frames(address)]


def address_of(program: Path, symbol: str) -> int:
    listing = subprocess.run(["nm", program], check=True, capture_output=True).stdout
    for line in listing.decode(errors="replace").splitlines():
        words = line.split()
        if words[-1] == symbol:
            return int(words[0], 16)
    raise AssertionError(f"{program} has no symbol {symbol}")


def check_frames(program: Path) -> int:
    """Compares every address of every function of our source; how many were inlined."""
    oracle, symbols = Oracle(program), _engine.Symbols(str(program))
    functions = oracle.functions()
    assert "main" in functions
    inlined = 0
    for name in functions.keys() & {"main", "outer", "hidden", "middle", "innermost"}:
        for address in range(*functions[name]):
            expected = [tuple(frame) for frame in oracle.frames(address)]
            found = [(f, line, inlined) for f, _, line, inlined in symbols.frames(address)]
            assert found == expected, hex(address)
            inlined += len(expected) > 1
    return inlined


@pytest.mark.parametrize("how", HOW)
def test_every_address_has_the_frames_and_lines_of_the_oracle(build: Build, how: str) -> None:
    inlined = check_frames(build("places.c", *HOW[how]))
    assert inlined > 0


@pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
@pytest.mark.parametrize("flags", [["-g", "-O2"], ["-gdwarf-4", "-O1"]])
def test_programs_of_clang_agree_too(build: Build, flags: list[str]) -> None:
    assert check_frames(build("places.c", *flags, compiler="clang")) > 0


@pytest.mark.parametrize("how", HOW)
def test_variables_lie_where_the_oracle_says(build: Build, how: str) -> None:
    program = build("places.c", *HOW[how])
    expected = Oracle(program).variables()
    ours = {v[1]: v for v in _engine.Symbols(str(program)).variables() if v[3]}
    assert len(expected) > 5
    assert ours.keys() == expected.keys()
    for address, variable in expected.items():
        name, _, size, _, file, line = ours[address]
        assert name.split("::")[-1] == variable.name
        assert (size, line) == (variable.size, variable.line)
        assert file.endswith("places.c") or how == "static"


def test_types_read_as_c_declares_them(build: Build) -> None:
    symbols = _engine.Symbols(str(build("places.c", *HOW["optimised"])))
    types = {v[0]: v[3] for v in symbols.variables() if v[3]}
    assert types == {
        "callbacks": "int (*[5])(int, char *)",
        "favourite": "enum colour",
        "grid": "double [64][64]",
        "hidden()::counter": "short",
        "mixed": "union {...}",
        "names": "const char *const [3]",
        "outer()::counter": "int",
        "outer()::history": "unsigned long [16]",
        "pointer_to_row": "long (*)[7]",
        "pool": "struct node [10]",
        "small": "matrix",
        "table": "struct node *[128]",
        "ticks": "volatile uint64_t",
    }


def test_thread_local_variables_are_left_out(build: Build) -> None:
    program = build("places.c", *HOW["optimised"])
    for flags in (["-g", "-O2"], ["-O2"]):
        names = {v[0] for v in _engine.Symbols(str(build("places.c", *flags))).variables()}
        assert "per_thread" not in names
    assert address_of(program, "per_thread") == 0


@pytest.mark.parametrize("flags", [["-O2"], ["-O2", "-gdwarf-4"], ["-O0"]])
def test_variables_of_cplusplus_have_their_full_names(build: Build, flags: list[str]) -> None:
    symbols = _engine.Symbols(str(build("places.cpp", "-g", "-std=c++20", *flags)))
    variables = {v[0]: (v[2], v[3]) for v in symbols.variables() if v[3]}
    operator = "main::{lambda(int)#1}::operator()(int) const"
    assert variables == {
        "ns::table": (128, "int [32]"),
        "ns::hidden_count": (8, "long"),
        "ns::(anonymous namespace)::entries": (96, "ns::(anonymous namespace)::Entry [6]"),
        "ns::(anonymous namespace)::nameless(unsigned long)::calls": (4, "int"),
        "ns::Counter::total": (4, "int"),
        "ns::Counter::inline_total": (2, "unsigned short"),
        "ns::Counter::add(int)::additions": (4, "int"),
        "ns::boxes": (24, "ns::Box<ns::Counter*> [3]"),
        "use(int)::uses": (4, "int"),
        f"{operator}::lambda_calls": (4, "int"),
    }


def test_statics_keep_their_full_names_without_a_symbol_table(build: Build, tmp_path: Path) -> None:
    program = tmp_path / "no_symtab"
    run(
        "objcopy",
        "--strip-all",
        "--keep-section=.debug_*",
        build("places.cpp", "-g", "-O2"),
        program,
    )
    names = {v[0] for v in _engine.Symbols(str(program)).variables() if v[3]}
    assert "ns::(anonymous namespace)::nameless(unsigned long)::calls" in names
    assert "use(int)::uses" in names
    assert "ns::Counter::total" in names


def test_inlined_functions_of_cplusplus_have_their_full_names(build: Build) -> None:
    program = build("places.cpp", "-g", "-O2", "-std=c++20")
    symbols = _engine.Symbols(str(program))
    start = address_of(program, "_Z3usei")
    chains = {tuple(function_names(symbols, address)) for address in range(start, start + 32)}
    assert ("use(int)",) in chains
    assert ("(anonymous namespace)::doubled(int)", "use(int)") in chains
    nameless = address_of(program, "_ZN2ns12_GLOBAL__N_18namelessEm")
    expected = ["ns::(anonymous namespace)::nameless(unsigned long)"]
    assert function_names(symbols, nameless) == expected
    assert function_names(symbols, address_of(program, "main")) == ["main"]


@pytest.mark.parametrize("flags", [["-g", "-O1"], ["-O1"]])
def test_rust_names_are_demangled(build: Build, flags: list[str]) -> None:
    program = build("mangled.c", *flags)
    symbols = _engine.Symbols(str(program))
    legacy = address_of(program, "_ZN5crate6module8function17h0123456789abcdefE")
    modern = address_of(program, "_RNvNtCs1234_7mycrate3foo3bar")
    assert function_names(symbols, legacy) == ["crate::module::function"]
    assert function_names(symbols, modern) == ["mycrate::foo::bar"]
    assert "crate::module::STATIC" in {v[0] for v in symbols.variables()}


def test_functions_without_debug_information_are_named_by_their_symbols(build: Build) -> None:
    program = build("bare.c", "-g", "-O2")
    symbols = _engine.Symbols(str(program))
    sized, unsized = address_of(program, "sized"), address_of(program, "unsized")
    assert function_names(symbols, sized + 2) == ["sized"]
    assert function_names(symbols, unsized + 2) == ["unsized"]
    # Bytes that are no text become U+FFFD, so that every name can be stored and shown.
    assert function_names(symbols, unsized + 3) == ["odd\N{REPLACEMENT CHARACTER}name"]


def test_a_program_without_debug_information_has_functions_and_no_lines(
    build: Build, tmp_path: Path
) -> None:
    original, program = build("places.c", *HOW["optimised"]), tmp_path / "program"
    run("strip", "--strip-debug", original, "-o", program)
    symbols = _engine.Symbols(str(program))
    assert not symbols.has_dwarf
    assert symbols.has_symtab
    assert symbols.frames(address_of(original, "outer") + 1) == [("outer", "", 0, False)]
    variables = {v[0]: (v[2], v[3]) for v in symbols.variables()}
    assert variables["table"] == (1024, "")


def test_a_stripped_program_has_no_names_but_those_it_exports(build: Build, tmp_path: Path) -> None:
    for flags, expected in ([], []), (["-rdynamic"], ["outer"]):
        original, program = build("places.c", "-g", "-O2", *flags), tmp_path / "program"
        run("strip", original, "-o", program)
        symbols = _engine.Symbols(str(program))
        assert not symbols.has_symtab
        assert function_names(symbols, address_of(original, "outer")) == expected
        assert symbols.frames(address_of(original, "hidden")) == []


@pytest.mark.parametrize("version", ["4", "5"])
def test_split_units_keep_their_lines(build: Build, version: str) -> None:
    program = build("places.c", f"-gdwarf-{version}", "-gsplit-dwarf", "-O0")
    ((function, file, line, inlined),) = _engine.Symbols(str(program)).frames(
        address_of(program, "outer")
    )
    source = (SOURCES / "places.c").read_text().splitlines()
    assert (function, inlined) == ("outer", False)
    assert "int outer(" in source[line - 1]
    assert file.endswith("places.c")


def split(original: Path, program: Path, debug: Path) -> None:
    debug.parent.mkdir(parents=True, exist_ok=True)
    run("objcopy", "--only-keep-debug", original, debug)
    run("strip", original, "-o", program)


def expect_lines(symbols: _engine.Symbols, original: Path) -> None:
    whole = _engine.Symbols(str(original))
    start = address_of(original, "outer")
    for address in range(start, start + 48):
        assert symbols.frames(address) == whole.frames(address)
    assert symbols.variables() == whole.variables()
    assert symbols.frames(start)[0][2] > 0


@pytest.mark.parametrize("how", ["optimised", "fixed", "compressed"])
def test_a_separate_debug_file_is_found_by_build_id(build: Build, tmp_path: Path, how: str) -> None:
    original, program = build("places.c", *HOW[how]), tmp_path / "program"
    build_id = _engine.Symbols(str(original)).build_id
    debug = tmp_path / "debug" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    split(original, program, debug)
    assert _engine.Symbols(str(program)).debug_path == ""
    symbols = _engine.Symbols(str(program), [str(tmp_path / "debug")])
    assert symbols.debug_path == str(debug)
    expect_lines(symbols, original)


@pytest.mark.parametrize("where", ["linked.debug", ".debug/linked.debug"])
@pytest.mark.parametrize("flags", [[], ["-Wl,--build-id=none"]])
def test_a_separate_debug_file_is_found_by_its_link(
    build: Build, tmp_path: Path, where: str, flags: list[str]
) -> None:
    original, program = build("places.c", "-g", "-O2", *flags), tmp_path / "program"
    debug = tmp_path / where
    split(original, program, debug)
    run("objcopy", f"--add-gnu-debuglink={debug}", program)
    symbols = _engine.Symbols(str(program))
    assert symbols.debug_path == str(debug)
    expect_lines(symbols, original)


@pytest.mark.parametrize("flags", [[], ["-Wl,--build-id=none"]])
def test_a_debug_file_of_another_build_is_not_believed(
    build: Build, tmp_path: Path, flags: list[str]
) -> None:
    original, program = build("places.c", "-g", "-O2", *flags), tmp_path / "program"
    other = build("places.c", "-g", "-O1", *flags)
    debug = tmp_path / "linked.debug"
    split(original, program, debug)
    run("objcopy", f"--add-gnu-debuglink={debug}", program)
    run("objcopy", "--only-keep-debug", other, debug)
    symbols = _engine.Symbols(str(program))
    assert symbols.debug_path == ""
    assert symbols.frames(address_of(original, "outer")) == []


def test_a_file_that_changed_since_is_refused_unless_its_debug_file_is_there(
    build: Build, tmp_path: Path
) -> None:
    original, program = build("places.c", *HOW["optimised"]), tmp_path / "program"
    shutil.copy(build("places.c", *HOW["plain"]), program)
    build_id = bytes.fromhex(_engine.Symbols(str(original)).build_id)
    with pytest.raises(_engine.EngineError) as raised:
        _engine.Symbols(str(program), build_id=build_id)
    what, why, now = raised.value.args
    assert str(program) in what
    assert build_id.hex() in why
    assert "record again" in now
    debug = tmp_path / "debug" / ".build-id" / build_id.hex()[:2] / f"{build_id.hex()[2:]}.debug"
    split(original, tmp_path / "unused", debug)
    symbols = _engine.Symbols(str(program), [str(tmp_path / "debug")], build_id)
    expect_lines(symbols, original)


@pytest.mark.parametrize("target", ["missing", "pipe"])
def test_a_supplementary_file_that_is_not_one_is_ignored(
    build: Build, tmp_path: Path, target: str
) -> None:
    original, program = build("places.c", *HOW["optimised"]), tmp_path / "program"
    os.mkfifo(tmp_path / "pipe")
    link = tmp_path / "link"
    link.write_bytes(str(tmp_path / target).encode() + b"\0" + bytes(20))
    run("objcopy", f"--add-section=.gnu_debugaltlink={link}", original, program)
    expect_lines(_engine.Symbols(str(program)), original)


@pytest.mark.parametrize("how", ["optimised", "fixed", "static"])
def test_headers_say_what_the_oracle_says(build: Build, how: str) -> None:
    program = build("places.c", *HOW[how])
    oracle, symbols = Oracle(program), _engine.Symbols(str(program))
    assert [s[:4] for s in symbols.segments] == oracle.segments()
    assert symbols.machine == 62
    assert symbols.bits == 64
    assert symbols.type == {"optimised": 3, "fixed": 2, "static": 2}[how]
    assert bool(symbols.interpreter) == (how != "static")
    note = oracle.elf.get_section_by_name(".note.gnu.build-id")
    assert symbols.build_id == next(note.iter_notes())["n_desc"]


def test_many_addresses_at_once_are_the_same_as_one_by_one(build: Build) -> None:
    program = build("places.cpp", "-g", "-O2", "-std=c++20")
    symbols = _engine.Symbols(str(program))
    start, _, _, size, *_ = next(s for s in symbols.segments if s[4])
    addresses = [random.Random(1).randrange(start - 16, start + size + 16) for _ in range(3000)]
    columns = _engine.Symbols(str(program)).resolve(addresses)
    strings, first = columns["strings"], columns["first_frame"]
    assert len(columns["location"]) == len(addresses)
    for address, location in zip(addresses, columns["location"], strict=True):
        found = [
            (strings[columns["function"][i]], strings[columns["file"][i]], columns["line"][i])
            for i in range(first[location], first[location + 1])
        ]
        assert found == [frame[:3] for frame in symbols.frames(address)]


def test_what_is_no_elf_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("text", "empty", "pipe", "missing", "."):
        with pytest.raises(_engine.EngineError) as raised:
            _engine.Symbols(str(tmp_path / name))
        what, why, _ = raised.value.args
        assert str(tmp_path) in what
        assert why


def try_everything(path: Path) -> int:
    try:
        symbols = _engine.Symbols(str(path))
    except _engine.EngineError:
        return 0
    columns = symbols.resolve(list(range(0x1000, 0x1400)))
    return sum(location != 0 for location in columns["location"]) + len(symbols.variables())


@pytest.mark.parametrize("how", ["optimised", "dwarf4", "compressed"])
def test_damage_costs_names_and_nothing_else(build: Build, tmp_path: Path, how: str) -> None:
    whole = build("places.c", *HOW[how]).read_bytes()
    damaged = tmp_path / "damaged"
    choose = random.Random(how)
    named = []
    for round_number in range(300):
        data = bytearray(whole)
        if round_number % 3 == 0:
            del data[choose.randrange(len(data)) :]
        for _ in range(choose.choice([1, 4, 32])):
            if data:
                data[choose.randrange(len(data))] = choose.choice([0, 1, 0x7F, 0x80, 0xFF])
        damaged.write_bytes(data)
        named.append(try_everything(damaged))
    assert max(named) > 500
    assert min(named) == 0
