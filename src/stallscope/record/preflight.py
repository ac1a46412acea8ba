# SPDX-License-Identifier: Apache-2.0
"""What can be known about a program before it starts: found, startable, recordable.

Exit statuses follow a shell's: 127 when the program named does not exist, 126 when it exists and
cannot be run here, be it for the kernel's reasons or for the recorder's.
"""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from stallscope.errors import StallscopeError

NOT_FOUND = 127
CANNOT_RUN = 126

_LINE = 256  # bytes of a #! line that the kernel reads
_MOST_INTERPRETERS = 4
_MOST_FILES = 32
_MOST_LIBRARIES = 64
_DEFAULT_PATH = "/bin:/usr/bin"
_SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True)
class Target:
    """A program that can be recorded."""

    command: tuple[str, ...]
    program: str  # the file that the command names
    executable: str  # the ELF file that runs in the end: the program or its interpreter
    interpreters: tuple[str, ...]  # of scripts, outermost first; the last one is the executable
    argv: tuple[str, ...]  # what to execute; starts with the shell for a script without #!
    is_static: bool
    stripped: bool
    warnings: tuple[str, ...]


def preflight(
    command: Sequence[str], env_path: str | None = None, *, native: bool = False
) -> Target:
    """Find what `command` runs and refuse what cannot be recorded, with one clear sentence.

    `env_path` stands for PATH; None means the environment's own. `native`: it will run as it is, so
    whatever the processor can do is fine.
    """
    if not command or not command[0]:
        raise StallscopeError("no program to record", now="stallscope record -- PROGRAM ARGS")
    path = os.environ.get("PATH", _DEFAULT_PATH) if env_path is None else env_path
    program = _find(command[0], path)
    chain = _Chain(command[0], path)
    chain.follow(program)
    facts = _check_elf(command[0], chain.files[-1])
    warnings = [*_elf_warnings(chain.files[-1], facts)]
    if not native:
        warnings += _code_warnings(chain.files[-1], facts)
    return Target(
        command=tuple(command),
        program=program,
        executable=chain.files[-1],
        interpreters=tuple(chain.files[1:]),
        argv=(*((_SHELL, program) if chain.needs_shell else (program,)), *command[1:]),
        is_static=facts.is_static,
        stripped=facts.stripped,
        warnings=tuple(warnings),
    )


def _refuse(name: str, why: str, detail: str = "", now: str = "") -> NoReturn:
    raise StallscopeError(f"cannot record {name}: {why}", detail, now, status=CANNOT_RUN)


def _engine() -> Any:
    return importlib.import_module("stallscope._engine")


def _status(file: str | Path) -> os.stat_result | None:
    try:
        return Path(file).stat()
    except (OSError, ValueError):
        return None


def _find(name: str, path: str) -> str:
    """The file that execvp would start; candidates that may not be executed are passed over."""
    if "/" in name:
        return _find_there(name)
    passed_over = ""
    for folder in path.split(":"):
        candidate = Path(folder or ".") / name
        status = _status(candidate)
        if status and stat.S_ISREG(status.st_mode) and os.access(candidate, os.X_OK):
            return str(candidate)
        if status:
            passed_over = passed_over or str(candidate)
    if passed_over:
        return passed_over
    raise StallscopeError(
        f"no such program: {name}",
        "no folder of PATH has it",
        f"stallscope record -- ./{name}" if _status(name) else "",
        status=NOT_FOUND,
    )


def _find_there(name: str) -> str:
    try:
        Path(name).stat()
    except PermissionError:
        _refuse(name, "you may not enter its folder")
    except (OSError, ValueError) as error:
        why = error.strerror or "" if isinstance(error, OSError) else ""
        raise StallscopeError(f"no such program: {name}", why, status=NOT_FOUND) from None
    return name


@dataclass(slots=True)
class _Chain:
    """The files that the kernel goes through from a program to an ELF file."""

    name: str
    path: str
    files: list[str] = field(default_factory=list)
    needs_shell: bool = False
    depth: int = 0  # files since the last execve

    def follow(self, file: str) -> None:
        self.files.append(file)
        self.depth += 1
        if self.depth > _MOST_INTERPRETERS + 1 or len(self.files) > _MOST_FILES:
            _refuse(self.name, f"more than {_MOST_INTERPRETERS} interpreters follow one another")
        _check_file(self.name, file)
        start = _read_start(self.name, file)
        if start.startswith(b"#!"):
            self._follow_line(file, start)
        elif not start.startswith(b"\x7fELF"):
            self._follow_shell(file, start)

    def _follow_line(self, file: str, start: bytes) -> None:
        words = start[2:].split(b"\n")[0].strip(b" \t").split(None, 1)
        if not words:
            _refuse(self.name, f"the #! line of {file} names no interpreter")
        interpreter = os.fsdecode(words[0])
        if not _status(interpreter):
            _refuse(
                self.name,
                f"its interpreter {interpreter} is missing",
                f"{file} starts with #!{interpreter}",
                f"install {Path(interpreter).name}, or correct the first line of {file}",
            )
        self.follow(interpreter)
        if Path(interpreter).name == "env" and len(words) > 1:
            self._follow_env(file, os.fsdecode(words[1]))

    def _follow_env(self, file: str, arguments: str) -> None:
        name = _name_after_env(arguments)
        if not name:
            return
        try:
            found = _find(name, self.path)
        except StallscopeError:
            _refuse(
                self.name,
                f"its interpreter {name} is missing",
                f"{file} asks env for {name}, and no folder of PATH has it",
                f"install {name}, or correct the first line of {file}",
            )
        self.depth = 0
        self.follow(found)

    def _follow_shell(self, file: str, start: bytes) -> None:
        # execvp gives what the kernel does not know to the shell; an interpreter gets no such help.
        if b"\0" in start.split(b"\n")[0]:
            _refuse(self.name, f"{file} is neither an ELF program nor a script")
        if len(self.files) > 1:
            _refuse(self.name, f"its interpreter {file} is neither an ELF program nor a script")
        self.needs_shell = True
        self.follow(_SHELL)


def _name_after_env(arguments: str) -> str:
    """The program of `env [-S] [OPTION]... [NAME=VALUE]... PROGRAM`; empty when it cannot be told.

    Without -S the kernel hands all words over as one argument, so only the one-word form can run.
    """
    words = arguments.split()
    if not words[0].startswith(("-S", "--split-string")):
        return arguments.strip()
    words[0] = words[0].removeprefix("--split-string").removeprefix("-S").lstrip("=")
    for word in words:
        if word.startswith("-") and word not in ("-i", "-", "--ignore-environment"):
            return ""
        if word and not word.startswith("-") and "=" not in word:
            return word
    return ""


def _check_file(name: str, file: str) -> None:
    status = _status(file)
    if status is None:
        _refuse(name, f"{file} went away")
    if stat.S_ISDIR(status.st_mode):
        _refuse(name, f"{file} is a folder")
    if not stat.S_ISREG(status.st_mode):
        _refuse(name, f"{file} is not a regular file")
    if not os.access(file, os.X_OK):
        executable_bits = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
        if status.st_mode & executable_bits:
            _refuse(name, f"you may not execute {file}", "its permissions or its mount forbid it")
        _refuse(name, f"{file} is not executable", now=f"chmod +x {file}")
    if not os.access(file, os.R_OK):
        _refuse(name, f"you may not read {file}", now=f"chmod +r {file}")
    _check_privileges(name, file, status.st_mode)


def _check_privileges(name: str, file: str, mode: int) -> None:
    kind = "setuid" if mode & stat.S_ISUID else "setgid" if mode & stat.S_ISGID else ""
    now = f"record a copy without the bit: cp {file} copy && ./copy"
    if not kind and _has_capabilities(file):
        kind = "given file capabilities"
        now = f"record a copy, which has none: cp {file} copy && ./copy"
    if kind:
        _refuse(name, f"{file} is {kind}", "a recorded program cannot be given privileges", now)


def _has_capabilities(file: str) -> bool:
    try:
        return bool(os.getxattr(file, "security.capability"))
    except OSError:  # none, or a file system without attributes
        return False


def _read_start(name: str, file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_LINE)
    except OSError as error:
        _refuse(name, f"{file} cannot be read", error.strerror or "")


def _check_elf(name: str, file: str) -> Any:
    engine = _engine()
    try:
        facts = engine.elf_facts(os.fsencode(file))
    except engine.EngineError as error:
        what, why, now = error.args
        raise StallscopeError(what, why, now, status=CANNOT_RUN) from None
    if facts.damage:
        _refuse(name, f"{file} is a damaged ELF file", facts.damage, "build or install it again")
    if not facts.runs_here:
        _refuse_foreign(name, file, facts)
    if not facts.program:
        _refuse(name, f"{file} is an object file or a library, not a program")
    loader = os.fsdecode(facts.loader)
    if loader and not _status(loader):
        _refuse(name, f"its loader {loader} is missing", f"{file} asks for it")
    return facts


def _refuse_foreign(name: str, file: str, facts: Any) -> NoReturn:
    bits = "32-bit " if facts.bits == 32 else ""
    _refuse(
        name,
        f"{file} is a {bits}program for {facts.machine_name}",
        "only 64-bit x86-64 programs can be recorded",
        "build it for x86-64",
    )


def _elf_warnings(file: str, facts: Any) -> Iterator[str]:
    if facts.is_static:
        yield (
            f"{file} is statically linked: its heap blocks stay unknown, because allocations are"
            " seen by wrapping the functions of a shared C library"
        )
    if facts.stripped:
        yield (
            f"{file} is stripped: its functions show as addresses unless a separate debug file"
            " is installed"
        )


def _code_warnings(file: str, facts: Any) -> Iterator[str]:
    engine = _engine()
    verdicts = engine.Avx512Verdict
    report = _scan(file)
    if report is None:
        yield f"{file} could not be searched for AVX-512 instructions"
    elif report.verdict == verdicts.NEEDED:
        _refuse_avx512(file, report)
    elif report.verdict == verdicts.GUARDED:
        yield (
            f"{file} has AVX-512 instructions, probably not run because {report.reason}"
            f" (first: {_site(report)}); if they run, the recording ends there"
        )
    elif report.verdict == verdicts.UNKNOWN:
        yield f"{file} may have AVX-512 instructions: {report.reason}"
    for library in _own_libraries(file, facts):
        report = _scan(library)
        if report is not None and report.verdict == verdicts.NEEDED:
            yield (
                f"the library {library} has AVX-512 instructions with no check before them"
                f" ({_site(report)}); if they run, the recording ends there"
            )


def _scan(file: str) -> Any:
    engine = _engine()
    try:
        return engine.scan_avx512(os.fsencode(file))
    except engine.EngineError:
        return None


def _site(report: Any) -> str:
    where = f" in {report.function}" if report.function else ""
    return f"{report.instruction} at {report.address:#x}{where}"


def _refuse_avx512(file: str, report: Any) -> NoReturn:
    _refuse(
        file,
        f"its own code needs AVX-512 ({_site(report)})",
        f"Valgrind, which runs recorded programs, has no AVX-512; {report.needed} such"
        " instructions stand before any check of the processor",
        "build it without -mavx512* and -march=native (add -mno-avx512f),"
        f" or: stallscope record --source clock -- {file}",
    )


def _own_libraries(file: str, facts: Any) -> list[str]:
    """Libraries from the program's own library path and LD_LIBRARY_PATH, not the system's.

    The system's are built for every processor and check it first.
    """
    found: list[str] = []
    pending = [(file, facts)]
    while pending and len(found) < _MOST_LIBRARIES:
        user, wanted = pending.pop()
        for name in wanted.needed:
            library = _locate(user, os.fsdecode(name), os.fsdecode(wanted.library_path))
            if library and library not in found:
                found.append(library)
                pending.extend(_library_facts(library))
    return found


def _locate(user: str, name: str, library_path: str) -> str:
    if "/" in name:
        return name if _is_file(name) else ""
    origin = str(Path(user).resolve().parent)
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *library_path.split(":")]
    for folder in filter(None, folders):
        candidate = Path(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)) / name
        if _is_file(candidate):
            return str(candidate)
    return ""


def _is_file(file: str | Path) -> bool:
    status = _status(file)
    return status is not None and stat.S_ISREG(status.st_mode)


def _library_facts(library: str) -> Iterator[tuple[str, Any]]:
    engine = _engine()
    try:
        yield library, engine.elf_facts(os.fsencode(library))
    except engine.EngineError:
        return
