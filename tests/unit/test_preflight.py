# SPDX-License-Identifier: Apache-2.0
"""Refusals and warnings before a program starts, each shown with a file that was really built."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import iced_x86
import pytest
from elftools.elf.elffile import ELFFile

from stallscope import _engine
from stallscope.errors import StallscopeError
from stallscope.record.preflight import Target, preflight

HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
LOOP = """
#include <stdio.h>
#include <stdlib.h>
ATTRIBUTE void work(float *a, const float *b, int n) {
  for (int i = 0; i < n; i++) a[i] = a[i] * b[i] + 3.0f;
}
int main(int count, char **arguments) {
  int n = count * 1000;
  float *a = calloc(n, 4), *b = calloc(n, 4);
  CALL;
  printf("%f\\n", a[n - 1]);
  return 0;
}
"""
WIDE = ("-O3", "-mprefer-vector-width=512")


def build(folder: Path, name: str, source: str, *options: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-o", name, f"{name}.c", *options], cwd=folder, check=True)
    return folder / name


def loop(attribute: str = "__attribute__((noinline))", call: str = "work(a, b, n)") -> str:
    return LOOP.replace("ATTRIBUTE", attribute).replace("CALL", call)


def check(program: Path | str, *arguments: str) -> Target:
    return preflight([str(program), *arguments])


def refused(program: Path | str) -> StallscopeError:
    with pytest.raises(StallscopeError) as caught:
        check(program)
    assert "\n" not in caught.value.what
    return caught.value


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="module")
def hello(built: Path) -> Path:
    return build(built, "hello", HELLO)


def copy(program: Path, folder: Path) -> Path:
    return Path(shutil.copy(program, folder / "copy"))


def patch(program: Path, offset: int, data: bytes) -> None:
    with program.open("r+b") as opened:
        opened.seek(offset)
        opened.write(data)


# Finding


def test_an_ordinary_program_is_accepted_without_warnings(hello: Path) -> None:
    target = check(hello, "a", "b")
    assert target.warnings == ()
    assert target.program == target.executable == str(hello)
    assert target.argv == (str(hello), "a", "b")
    assert not target.is_static
    assert not target.stripped


def test_path_is_searched_as_execvp_does(hello: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "hello").write_text("not executable")
    found = preflight(["hello"], f"/nowhere:{blocked}:{hello.parent}")
    assert found.program == str(hello)
    with pytest.raises(StallscopeError) as caught:
        preflight(["hello"], str(blocked))
    assert caught.value.status == 126


def test_an_empty_part_of_path_is_the_current_folder(
    hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hello.parent)
    assert preflight(["hello"], "/nowhere:").executable == "hello"
    with pytest.raises(StallscopeError) as caught:
        preflight(["hello"], "/nowhere")
    assert caught.value.status == 127
    assert "./hello" in caught.value.now


@pytest.mark.parametrize("name", ["no-such-program-here", "/no/such/program", "./none", "a\0b/c"])
def test_a_missing_program_gives_127(name: str) -> None:
    error = refused(name)
    assert error.status == 127
    assert "no such program" in error.what


def test_no_command_is_a_usage_error() -> None:
    with pytest.raises(StallscopeError) as caught:
        preflight([])
    assert caught.value.status == 2


# Files that cannot be executed


def test_a_folder_gives_126(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert error.status == 126
    assert "is a folder" in error.what


def test_a_file_without_the_executable_bit_gives_126(hello: Path, tmp_path: Path) -> None:
    program = copy(hello, tmp_path)
    program.chmod(0o644)
    error = refused(program)
    assert error.status == 126
    assert "not executable" in error.what
    assert "chmod +x" in error.now


def test_a_device_is_refused() -> None:
    assert "not a regular file" in refused("/dev/null").what


@pytest.mark.parametrize(("bit", "word"), [(0o4755, "setuid"), (0o2755, "setgid")])
def test_setuid_and_setgid_are_refused(hello: Path, tmp_path: Path, bit: int, word: str) -> None:
    program = copy(hello, tmp_path)
    program.chmod(bit)
    error = refused(program)
    assert error.status == 126
    assert word in error.what


def test_file_capabilities_are_refused(hello: Path, tmp_path: Path) -> None:
    program = copy(hello, tmp_path)
    # vfs_cap_data, revision 2: cap_net_raw permitted
    capability = struct.pack("<IIIII", 0x02000000, 1 << 13, 0, 0, 0)
    try:
        os.setxattr(program, "security.capability", capability)
    except OSError as error:
        pytest.skip(f"this user or file system cannot set capabilities: {error.strerror}")
    assert "capabilities" in refused(program).what


def test_a_32_bit_program_is_refused(tmp_path: Path) -> None:
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, *[0] * 10)
    program = tmp_path / "old"
    program.write_bytes(header + bytes(64))
    program.chmod(0o755)
    error = refused(program)
    assert error.status == 126
    assert "32-bit program for i386" in error.what


@pytest.mark.parametrize(
    ("machine", "word"), [(183, "AArch64"), (243, "RISC-V"), (9999, "machine 9999")]
)
def test_a_foreign_program_is_refused_by_name(
    hello: Path, tmp_path: Path, machine: int, word: str
) -> None:
    program = copy(hello, tmp_path)
    patch(program, 18, struct.pack("<H", machine))
    error = refused(program)
    assert error.status == 126
    assert f"program for {word}" in error.what


@pytest.mark.parametrize("size", [10, 40, 64, 500, 4096, 12000])
def test_a_truncated_program_is_refused(hello: Path, tmp_path: Path, size: int) -> None:
    program = copy(hello, tmp_path)
    os.truncate(program, size)
    error = refused(program)
    assert error.status == 126
    assert "damaged ELF file" in error.what


def test_a_program_cut_behind_its_last_segment_still_runs(hello: Path, tmp_path: Path) -> None:
    with hello.open("rb") as opened:
        segments = [s for s in ELFFile(opened).iter_segments() if s["p_type"] == "PT_LOAD"]
    program = copy(hello, tmp_path)
    os.truncate(program, max(s["p_offset"] + s["p_filesz"] for s in segments))
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"hello\n"
    assert check(program).stripped


def test_an_object_file_is_refused(built: Path, hello: Path) -> None:
    subprocess.run(["gcc", "-c", "-o", "hello.o", "hello.c"], cwd=built, check=True)
    (built / "hello.o").chmod(0o755)
    error = refused(built / "hello.o")
    assert error.status == 126


def test_a_missing_loader_is_named(built: Path) -> None:
    program = build(built, "lost", HELLO, "-Wl,--dynamic-linker=/no/such/ld.so")
    assert "/no/such/ld.so is missing" in refused(program).what


# Scripts


def test_the_interpreter_of_a_script_is_what_is_checked(tmp_path: Path) -> None:
    target = check(script(tmp_path, "s", "#! /bin/sh -e\necho hi\n"))
    assert target.interpreters == ("/bin/sh",)
    assert target.executable == "/bin/sh"
    assert target.argv == (target.program,)


def test_env_is_resolved(hello: Path, tmp_path: Path) -> None:
    for line in ("#!/usr/bin/env hello", "#!/usr/bin/env -S A=1 hello -u"):
        target = preflight([str(script(tmp_path, "s", f"{line}\n"))], str(hello.parent))
        assert target.interpreters == ("/usr/bin/env", str(hello))


def test_each_env_starts_a_chain_of_interpreters_anew(hello: Path, tmp_path: Path) -> None:
    name = "hello"
    for n in range(6):
        script(tmp_path, f"e{n}", f"#!/usr/bin/env {name}\n")
        name = f"e{n}"
    assert preflight([name], f"{tmp_path}:{hello.parent}").executable == str(hello)
    script(tmp_path, "endless", "#!/usr/bin/env endless\n")
    with pytest.raises(StallscopeError):
        preflight(["endless"], str(tmp_path))


def test_a_script_of_a_script_is_followed_up_to_four_times(tmp_path: Path) -> None:
    last = "/bin/sh"
    for n in range(4):
        last = str(script(tmp_path, f"s{n}", f"#!{last}\n"))
    assert check(last).executable == "/bin/sh"
    fifth = script(tmp_path, "s4", f"#!{last}\n")
    assert "interpreters" in refused(fifth).what


def test_a_script_that_names_itself_is_refused(tmp_path: Path) -> None:
    assert refused(script(tmp_path, "s", f"#!{tmp_path}/s\n")).status == 126


@pytest.mark.parametrize("line", ["#!/no/such/interpreter", "#!/usr/bin/env no-such-interpreter"])
def test_a_missing_interpreter_is_named(tmp_path: Path, line: str) -> None:
    error = refused(script(tmp_path, "s", f"{line}\n"))
    assert error.status == 126
    assert "is missing" in error.what
    assert line.split("/")[-1].split()[-1] in error.what


def test_text_without_an_interpreter_goes_to_the_shell_as_execvp_does(tmp_path: Path) -> None:
    for text in ("", "echo hi\n"):
        target = check(script(tmp_path, "s", text), "x")
        assert target.executable == "/bin/sh"
        assert target.argv == ("/bin/sh", str(tmp_path / "s"), "x")


def test_binary_garbage_is_refused(tmp_path: Path) -> None:
    assert "neither" in refused(script(tmp_path, "s", "MZ\0\1\0")).what


def test_a_setuid_interpreter_is_refused(tmp_path: Path) -> None:
    shell = copy(Path("/bin/sh"), tmp_path)
    shell.chmod(0o4755)
    assert "setuid" in refused(script(tmp_path, "s", f"#!{shell}\n")).what


# Warnings


def test_a_static_program_is_warned_about_and_not_refused(built: Path) -> None:
    target = check(build(built, "static", HELLO, "-static"))
    assert target.is_static
    assert ["heap blocks stay unknown" in w for w in target.warnings] == [True]


def test_a_stripped_program_is_warned_about(built: Path) -> None:
    target = check(build(built, "stripped", HELLO, "-s"))
    assert target.stripped
    assert ["stripped" in w for w in target.warnings] == [True]


# AVX-512


@pytest.mark.parametrize(
    "options", [(), ("-static",), ("-no-pie",), ("-s",), ("-static", "-s"), ("-static-pie",)]
)
def test_a_program_that_needs_avx512_is_refused_with_the_instruction(
    built: Path, options: tuple[str, ...]
) -> None:
    program = build(built, "wide", loop(), "-mavx512f", *WIDE, *options)
    error = refused(program)
    assert error.status == 126
    assert "needs AVX-512" in error.what
    assert "zmm" in error.what
    assert ("in work" in error.what or "in main" in error.what) == ("-s" not in options)
    assert "--source clock" in error.now


def test_the_instruction_named_is_the_first_that_objdump_finds(built: Path) -> None:
    program = build(built, "first", loop(), "-mavx512f", *WIDE)
    report = _engine.scan_avx512(os.fsencode(program))
    text = subprocess.run(
        ["objdump", "-d", "-M", "intel", "--no-show-raw-insn", program],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    wide = [line for line in text.splitlines() if "zmm" in line]
    address, instruction = wide[0].split(":")
    assert report.address == int(address, 16)
    assert report.instruction.split()[0] == instruction.split()[0]
    assert report.needed >= len(wide)


def test_mask_registers_without_wide_vectors_count(built: Path) -> None:
    source = 'int main(void) { __asm__("kxorw %k1, %k1, %k1"); return 0; }\n'
    error = refused(build(built, "mask", source))
    assert "kxorw" in error.what


def test_amx_counts(built: Path) -> None:
    source = 'int main(void) { __asm__(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"); return 0; }\n'
    assert "tilerelease" in refused(build(built, "amx", source)).what


@pytest.mark.parametrize("options", [(), ("-static",), ("-s",), ("-static", "-s"), ("-no-pie",)])
def test_clones_chosen_by_a_resolver_are_accepted(built: Path, options: tuple[str, ...]) -> None:
    clones = '__attribute__((target_clones("avx512f", "default"), noinline))'
    program = build(built, "clones", loop(clones), *WIDE, *options)
    assert _engine.scan_avx512(os.fsencode(program)).variants > 0
    check(program)


@pytest.mark.parametrize("options", [(), ("-static",), ("-s",), ("-no-pie",)])
def test_a_function_behind_a_check_is_warned_about(built: Path, options: tuple[str, ...]) -> None:
    source = loop(
        '__attribute__((target("avx512f"), noinline))',
        'if (__builtin_cpu_supports("avx512f")) work(a, b, n)',
    )
    target = check(build(built, "checked", source, *WIDE, *options))
    assert any("AVX-512" in w and "checks the processor" in w for w in target.warnings)


def test_a_function_that_nothing_calls_is_warned_about(built: Path) -> None:
    source = loop('__attribute__((target("avx512f"), noinline))', "(void)b")
    target = check(build(built, "unused", source, *WIDE))
    assert any("nothing refers" in w for w in target.warnings)


def test_every_string_function_of_a_static_c_library_is_accepted(built: Path) -> None:
    names = "memcpy memmove memset strlen strcmp strncmp strcasecmp strchr strrchr strcpy stpcpy"
    names += " strcat strncat memchr memrchr rawmemchr strchrnul strnlen strstr strspn memcmp"
    names += " wcslen wcsnlen wmemset wmemchr wcschr wcscmp wmemcmp wcscpy strncpy strncasecmp"
    source = "#define _GNU_SOURCE\n#include <string.h>\n#include <strings.h>\n#include <wchar.h>\n"
    source += f"void *all[] = {{{','.join(names.split())}}};\n"
    source += "int main(int n, char **a) { return all[n] == 0; }\n"
    for options in (("-static",), ("-static", "-s")):
        program = build(built, "strings", source, *options)
        assert _engine.scan_avx512(os.fsencode(program)).variants > 1000
        check(program)


def test_a_library_beside_the_program_that_needs_avx512_is_warned_about(tmp_path: Path) -> None:
    library = loop().split("int main")[0]
    build(tmp_path, "libwork.so", library, "-shared", "-fPIC", "-mavx512f", *WIDE)
    source = "void work(float *, const float *, int);\n" + loop().split("}\n", 1)[1]
    source = "#include <stdio.h>\n#include <stdlib.h>\n" + source
    program = build(tmp_path, "user", source, "-L.", "-lwork", "-Wl,-rpath,$ORIGIN")
    target = check(program)
    assert any("libwork.so" in w and "AVX-512" in w for w in target.warnings)


@pytest.mark.parametrize("name", ["ls", "gzip", "sqlite3", "gcc", "sh", "python3", "redis-server"])
def test_programs_of_the_system_are_accepted(name: str) -> None:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    check(name)


def test_the_compiler_proper_is_accepted() -> None:
    cc1 = subprocess.run(
        ["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True
    ).stdout.strip()
    check(cc1)


# The decoder against an independent one


def test_instruction_lengths_agree_with_iced_over_all_of_ls() -> None:
    with Path("/bin/ls").open("rb") as opened:
        section = ELFFile(opened).get_section_by_name(".text")
        text, address = section.data(), section["sh_addr"]
    decoder = iced_x86.Decoder(64, text, ip=address)
    theirs = [i.len for i in decoder]
    ours = _engine.instruction_lengths(text)
    assert len(theirs) > 10000
    assert ours == theirs


def test_memory_operands_agree_with_iced_over_all_of_ls() -> None:
    with Path("/bin/ls").open("rb") as opened:
        section = ELFFile(opened).get_section_by_name(".text")
        text, address = section.data(), section["sh_addr"]
    factory = iced_x86.InstructionInfoFactory()
    access = iced_x86.OpAccess
    reads = (access.READ, access.COND_READ, access.READ_WRITE, access.READ_COND_WRITE)
    writes = (access.WRITE, access.COND_WRITE, access.READ_WRITE, access.READ_COND_WRITE)
    compared = 0
    for theirs in iced_x86.Decoder(64, text, ip=address):
        start = theirs.ip - address
        ours = _engine.decode(text[start : start + theirs.len], theirs.ip)
        used = [m for m in factory.info(theirs).used_memory() if m.access != access.NO_MEM_ACCESS]
        expected = sorted((m.access in reads, m.access in writes) for m in used)
        found = sorted((m.read, m.write) for m in ours.memory if m.read or m.write)
        assert found == expected, f"{theirs} at {theirs.ip:#x}"
        compared += len(found)
    assert compared > 3000
