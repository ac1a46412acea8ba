# SPDX-License-Identifier: Apache-2.0
"""The same knowledge as a source patch: where to write __builtin_prefetch, of what, how far ahead.

Reads C the way a person skims it: the `for` around the line, what its variable is called and how
far it goes, and what the names on the line were set to inside of the loop. Where that does not
lead to an address, it says in words what is known.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import msgspec

from stallscope.analyses.prediction import ChoiceRow, Prediction
from stallscope.showing import Shown

_FOR = re.compile(r"\bfor\s*\((?P<start>[^;]*);(?P<end>[^;]*);(?P<step>[^;]*)\)\s*(?P<rest>.*)$")
_WORD = r"[A-Za-z_]\w*"
_ACCESS = re.compile(rf"{_WORD}(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\]|->{_WORD}|\.{_WORD})+")
_SET = re.compile(
    rf"^\s*(?:const\s+)?(?:{_WORD}[\s*]+)*(?P<name>{_WORD})\s*=\s*(?P<value>[^;=][^;]*);"
)
MOST_SUBSTITUTIONS = 2
INLINE = ("stride", "indirect", "walk")


class AdviceRow(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    pc: int
    function: str
    file: str
    line: int | None
    kind: str
    distance: int
    speedup: float  # predicted
    prefetch: list[str]  # what to write; empty when only words are known
    words: str


@dataclass(frozen=True)
class Advice(Shown):
    recording: str
    machine: str
    patch: str  # unified diff; empty when there is nothing to write
    rows: list[AdviceRow]


@dataclass(frozen=True)
class _Loop:
    line: int  # index of the line with `for`
    variable: str
    bound: str  # beyond which it does not go; empty when unknown
    step: str = "1"

    def ahead(self, distance: int) -> str:
        more = str(distance) if self.step == "1" else f"{distance} * {self.step}"
        return f"{self.variable} + {more}"


def advise(
    prediction: Prediction, files: Mapping[int, str], sources: Mapping[str, Sequence[str]]
) -> Advice:
    """`files` are the source files of loads by their pc, `sources` the lines of files."""
    rows: list[AdviceRow] = []
    changed: dict[str, list[str]] = {}
    done: set[tuple[str, int]] = set()
    for choice in prediction.choices:
        file = files.get(choice.pc, "")
        lines = sources.get(file)
        said = _row(choice, file, lines)
        rows.append(said)
        where = (file, choice.line or 0)
        if said.prefetch and lines is not None and where not in done:
            done.add(where)
            _insert(changed.setdefault(file, list(lines)), lines, where[1] - 1, said.prefetch)
    return Advice(prediction.recording, prediction.machine, _patch(sources, changed), rows)


def _row(choice: ChoiceRow, file: str, lines: Sequence[str] | None) -> AdviceRow:
    found: list[str] = []
    if choice.distance and lines is not None and choice.line and choice.line <= len(lines):
        found = prefetches(lines, choice.line - 1, choice.kind, choice.distance)
    return AdviceRow(
        choice.pc,
        choice.function,
        file,
        choice.line,
        choice.kind,
        choice.distance,
        choice.speedup,
        found,
        _words(choice, bool(found)),
    )


def _words(choice: ChoiceRow, written: bool) -> str:
    if written:
        return f"prefetch {choice.distance} turns of the loop ahead"
    if choice.distance:
        return (
            f"prefetch {choice.distance} turns ahead; its address could not be read in the source"
        )
    return (
        "each address needs the one before: a prefetch cannot be written here; a second thread "
        "that runs ahead brings this, or data that lie in order"
    )


def prefetches(lines: Sequence[str], at: int, kind: str, distance: int) -> list[str]:
    """Statements for the line at an index."""
    loop = _loop(lines, at)
    if loop is None:
        return []
    found: list[str] = []
    for match in _ACCESS.finditer(_statement(lines, at)):
        access = _expanded(lines, loop, at, match.group())
        deep = access.count("[") + access.count("->") > 1
        if not re.search(_free(loop.variable), access) or deep != (kind != "stride"):
            continue
        ahead = re.sub(_free(loop.variable), f"({loop.ahead(distance)})", access)
        said = f"__builtin_prefetch(&{ahead});"
        if kind != "stride":  # something is read on the way, which must be there
            if not loop.bound:
                continue
            said = f"if ({loop.ahead(distance)} < {loop.bound}) {said}"
        if said not in found:
            found.append(said)
    return found[:2]


def _statement(lines: Sequence[str], at: int) -> str:
    inside = _FOR.search(lines[at])
    return inside["rest"] if inside and inside["rest"].strip(" {") else lines[at]


def _loop(lines: Sequence[str], at: int) -> _Loop | None:
    """The nearest `for` above that goes on by steps and is not indented deeper than the line."""
    indent = _indent(lines[at])
    for number in range(at, max(-1, at - 60), -1):
        match = _FOR.search(lines[number])
        if match is None or (number != at and _indent(lines[number]) >= indent):
            continue
        step = re.match(rf"\s*(?:\+\+\s*)?(?P<name>{_WORD})\s*(?:\+\+|\+=.*)?\s*$", match["step"])
        if step is None or not re.search(r"\+\+|\+=", match["step"]):
            indent = _indent(lines[number])
            continue
        name = step["name"]
        bound = re.match(rf"\s*{name}\s*(?:<|!=)\s*(?P<bound>.+?)\s*$", match["end"])
        by = re.search(r"\+=\s*(.+?)\s*$", match["step"])
        return _Loop(number, name, bound["bound"] if bound else "", by[1] if by else "1")
    return None


def _expanded(lines: Sequence[str], loop: _Loop, at: int, access: str) -> str:
    """With names replaced by what the loop set them to, where that leads to its variable."""
    for _ in range(MOST_SUBSTITUTIONS):
        if re.search(_free(loop.variable), access):
            return access
        for number in range(at, loop.line, -1):
            match = _SET.match(lines[number])
            if match and re.search(_free(match["name"]), access):
                value = match["value"].strip()
                plain = re.fullmatch(r"[\w\[\]]+", value)
                told = value if plain else f"({value})"
                access = re.sub(_free(match["name"]), told.replace("\\", r"\\"), access)
                break
        else:
            return access
    return access


def _free(name: str) -> str:
    """The name itself, and not a field of something."""
    return rf"(?<![>.\w]){re.escape(name)}\b"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _insert(
    changed: list[str], original: Sequence[str], at: int, statements: Sequence[str]
) -> None:
    """Where a turn of the loop begins; a loop with one statement on its line gets braces."""
    line = original[at]
    loop = _loop(original, at)
    if loop is not None and original[loop.line].rstrip().endswith("{"):
        place = changed.index(original[loop.line], loop.line) + 1
        indent = " " * (_indent(original[loop.line]) + 2)
        changed[place:place] = [indent + statement for statement in statements]
        return
    place = changed.index(line, at) if line in changed[at:] else at
    inside = _FOR.search(line)
    if inside and inside["rest"].strip(" {"):
        body = inside["rest"]
        changed[place] = line[: inside.start("rest")] + "{ " + " ".join([*statements, body]) + " }"
        return
    above = original[at - 1].rstrip() if at else ""
    if above.endswith(")") and re.search(r"\b(for|while|if)\b", above):
        changed[place] = " " * _indent(line) + "{ " + " ".join([*statements, line.strip()]) + " }"
        return
    for number, statement in enumerate(statements):
        changed.insert(place + number, " " * _indent(line) + statement)


def _patch(sources: Mapping[str, Sequence[str]], changed: Mapping[str, Sequence[str]]) -> str:
    parts: list[str] = []
    for file, lines in changed.items():
        name = PurePath(file).name  # to be applied in the folder of the file
        parts += difflib.unified_diff(
            sources[file], lines, f"a/{name}", f"b/{name}", lineterm="", n=2
        )
    return "".join(f"{part}\n" for part in parts)
