# SPDX-License-Identifier: Apache-2.0
"""The bundled workloads: small C programs whose answers are known.

Each is a source file with its truth beside it as TOML. Numbers in a truth are expressions over the
workload's arguments and the numbers that it prints; docs/workloads.md describes them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import operator
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from stallscope.errors import StallscopeError

Size = Literal["default", "quick", "bench"]
Values = Mapping[str, int]


class Argument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command-line argument; one with `choices` is a word and no part of expressions."""

    name: str
    meaning: str
    default: int | str
    quick: int | str
    bench: int | str
    choices: tuple[str, ...] = ()


class Object(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data structure: a global variable, or heap blocks made at one line of one function."""

    name: str
    kind: Literal["heap", "global"]
    bytes: str
    count: str = "1"
    function: str = ""
    text: str = ""


class Allocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls of one allocator by one function; `bytes` is left out where the sizes are random."""

    function: str
    allocator: Literal["malloc", "calloc", "realloc", "aligned", "near"]
    calls: str
    bytes: str | None = None


class Accesses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the instructions of one function access, return addresses included."""

    function: str
    loads: str
    stores: str
    modifies: str = "0"
    tolerance: float = 0.0


class Misses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The object and line that miss most, with at least `share` of all misses, in every LRU data
    cache that is clearly smaller than `footprint`; `count` where there is a closed form."""

    object: str
    function: str
    text: str
    share: float
    footprint: str
    count: str | None = None
    tolerance: float = 0.0


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The load that misses most, by the line it is on and how its address comes about."""

    function: str
    text: str
    kind: Literal["stride", "indirect", "chase", "walk", "irregular"]


class Groups(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which threads share data: group numbers run from 0 below `count`, and `members` may use
    the number `group`."""

    thread: str
    object: str
    shared_by_all: str
    count: str
    members: str


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cache line that threads take from each other at one source line, in one layout."""

    object: str
    fields: tuple[str, ...]
    kind: Literal["true", "false", "mixed"]
    when: str
    function: str
    text: str


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to do a workload's work, chosen by its argument `form`; the first is the slow one.

    In the data cache of the tests and at the quick size: `fewer` bounds its misses over the slow
    form's, and `shares` are its objects' shares of them. `misses` is for the cured forms what the
    truth's own is for the slow one."""

    name: str
    meaning: str
    fewer: float = 1.0
    misses: Misses | None = None
    shares: dict[str, float] = {}


class Truth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    question: str
    source: str
    flags: tuple[str, ...]
    threads: str
    frees: str
    arguments: tuple[Argument, ...]
    objects: tuple[Object, ...]
    libraries: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    accesses: tuple[Accesses, ...] = ()
    misses: Misses | None = None
    load: Load | None = None
    groups: Groups | None = None
    lines: tuple[Line, ...] = ()
    forms: tuple[Form, ...] = ()

    def command_arguments(self, size: Size = "default", form: str | None = None) -> list[str]:
        """The words to start the workload with; its slow form unless another is given."""
        return [str(self._word(argument, size, form)) for argument in self.arguments]

    def values(
        self, size: Size = "default", output: str = "", form: str | None = None
    ) -> dict[str, int]:
        """What expressions may use: the arguments, what the workload printed as name=number, and 1
        for the word that an argument is, 0 for the others that it could be."""
        values: dict[str, int] = {}
        for argument in self.arguments:
            word = self._word(argument, size, form)
            values |= {choice: int(choice == word) for choice in argument.choices}
            if isinstance(word, int):
                values[argument.name] = word
        printed = dict(re.findall(r"\b(\w+)=(\d+)\b", output))
        values |= {name: int(printed[name]) for name in self.prints if name in printed}
        return values

    def misses_of(self, form: str | None = None) -> Misses | None:
        """What misses most in a form."""
        chosen = next((known for known in self.forms[1:] if known.name == form), None)
        return self.misses if chosen is None else chosen.misses

    def _word(self, argument: Argument, size: Size, form: str | None) -> int | str:
        if argument.name != "form" or form is None:
            word: int | str = getattr(argument, size)
            return word
        if form in argument.choices:
            return form
        raise StallscopeError(
            f"the workload {self.name} has no form {form!r}",
            now=f"one of: {', '.join(argument.choices)}",
        )

    def line_of(self, text: str) -> int:
        """The number of the one source line that contains `text`."""
        lines = find(self.name).read_text(encoding="utf-8").splitlines()
        numbers = [number for number, line in enumerate(lines, 1) if text in line]
        if len(numbers) != 1:
            raise StallscopeError(
                f"the truth of the workload {self.name} names the line {text!r}",
                f"{len(numbers)} lines of {self.source} contain it; it must be one",
            )
        return numbers[0]

    def thread_groups(self, values: Values) -> list[list[str]]:
        """Names of the threads of each group; empty for a workload without groups."""
        if self.groups is None:
            return []
        pattern, members = self.groups.thread, self.groups.members
        return [
            [
                pattern.format(group=group, member=member)
                for member in range(evaluate(members, {**values, "group": group}))
            ]
            for group in range(evaluate(self.groups.count, values))
        ]


def names() -> list[str]:
    """Every bundled workload."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def about_caches() -> list[str]:
    """All but those that are about threads alone, of whose misses in one cache nothing is known."""
    known = [truth(name) for name in names()]
    return [one.name for one in known if one.misses or not (one.groups or one.lines)]


def find(name: str) -> Path:
    """The source file of a workload."""
    if name not in names():
        raise StallscopeError(
            f"there is no workload named {name!r}", now=f"one of: {', '.join(names())}"
        )
    return _folder() / f"{name}.c"


def truth(name: str) -> Truth:
    """What is known about a workload."""
    path = find(name).with_suffix(".toml")
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Truth)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise StallscopeError(f"cannot read the truth {path}", str(error)) from error


def command(name: str, compiler: str) -> list[str]:
    """How to compile a workload; `-o` and further flags may follow."""
    source, known = find(name), truth(name)
    parts = [compiler, *known.flags, str(source)]
    for part in known.runtime:
        folder = _data(f"runtime/{part}", f"runtime/{part}")
        sources = sorted(str(path) for path in folder.glob("*.c"))
        parts += [f"-I{header()}", f"-I{folder}", *sources]
    return [*parts, *known.libraries]


def build(name: str, folder: Path | None = None) -> Path:
    """Compiles a workload into `folder` (a cache of the user's by default) unless it is there."""
    words = command(name, _compiler())
    folder = _cache() if folder is None else folder
    program, stamp = folder / name, folder / f".{name}.digest"
    digest = _digest(words)
    if program.exists() and stamp.exists() and stamp.read_text() == digest:
        return program
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / name
        ran = subprocess.run([*words, "-o", str(made)], capture_output=True, text=True)
        if ran.returncode != 0:
            raise StallscopeError(f"cannot compile the workload {name}", ran.stderr.strip())
        made.replace(program)
    stamp.write_text(digest)
    return program


def header() -> Path:
    """The folder that holds stallscope.h, for a compiler's -I."""
    return _data("include", "include")


def evaluate(expression: str, values: Values) -> int:
    """The value of an expression: whole numbers, names, + - * // % **, min and max."""
    try:
        return _value(ast.parse(expression, mode="eval").body, values)
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        raise StallscopeError(f"cannot evaluate {expression!r}", str(error)) from error


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LARGEST_POWER = 8


def _value(node: ast.expr, values: Values) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name not in values:
                known = ", ".join(sorted(values))
                raise ValueError(f"{name} has no value; known are: {known}")
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            power = _value(right, values)
            if not 0 <= power <= _LARGEST_POWER:
                raise ValueError(f"powers go from 0 to {_LARGEST_POWER}, not {power}")
            return int(_value(left, values) ** power)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id="min" | "max" as which), args=[_, *_] as args, keywords=[]):
            numbers = [_value(arg, values) for arg in args]
            return min(numbers) if which == "min" else max(numbers)
    raise ValueError(f"{ast.unparse(node)} is not arithmetic on whole numbers")


def _folder() -> Path:
    return _data("_workloads", "workloads")


def _data(installed: str, in_checkout: str) -> Path:
    """A folder of data files: a checkout's own, which is never stale, or the copy that lies
    beside the compiled extension."""
    places = []
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").exists():
        places.append(checkout / in_checkout)
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is not None and extension.origin is not None:
        places.append(Path(extension.origin).parent / installed)
    for place in places:
        if place.is_dir():
            return place
    raise StallscopeError(
        f"the folder {installed} of stallscope's own files is missing",
        f"looked for {' and '.join(map(str, places)) or 'the compiled extension, in vain'}",
        "reinstall stallscope",
    )


def _compiler() -> str:
    wanted = os.environ.get("CC")
    candidates = [wanted] if wanted else ["cc", "gcc", "clang"]
    for candidate in candidates:
        if found := shutil.which(candidate):
            return found
    raise StallscopeError(
        "the workloads need a C compiler",
        f"none of {', '.join(candidates)} is in PATH",
        "sudo apt-get install gcc",
    )


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stallscope/workloads"


def _digest(command: list[str]) -> str:
    """Of a compiler's words, the sources among them, and every header beside one."""
    sources = [Path(word) for word in command if word.endswith(".c")]
    folders = {source.parent for source in sources} | {header()}
    headers = sorted(path for folder in folders for path in folder.glob("*.h"))
    contents = [hashlib.sha256(path.read_bytes()).hexdigest() for path in [*sources, *headers]]
    return hashlib.sha256("\0".join([*command, *contents]).encode()).hexdigest()
