# SPDX-License-Identifier: Apache-2.0
"""Structs that chance made: every field lies where the compiler itself says it does."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stallscope import _engine

NUMBERS = ("char", "short", "int", "long", "float", "double", "long double", "void *", "_Bool")


@dataclass(frozen=True)
class Part:
    """A member: a number or a struct or union of others, alone or in an array."""

    inner: tuple[Part, ...]  # empty: a number
    keyword: str  # struct or union, of inner ones
    number: str
    dimensions: tuple[int, ...]
    is_anonymous: bool


def parts(depth: int) -> st.SearchStrategy[Part]:
    inner = st.just(()) if depth == 0 else st.just(()) | st.tuples(*[parts(depth - 1)] * 2)
    return st.builds(
        Part,
        inner,
        st.sampled_from(["struct", "union"]),
        st.sampled_from(NUMBERS),
        st.lists(st.integers(1, 3), max_size=2).map(tuple),
        st.booleans(),
    )


structs = st.lists(st.lists(parts(2), min_size=1, max_size=5), min_size=3, max_size=6)


def declare(part: Part, name: str) -> str:
    dimensions = "".join(f"[{n}]" for n in part.dimensions)
    if not part.inner:
        return f"{part.number} {name}{dimensions};"
    body = " ".join(declare(p, f"{name}_{i}") for i, p in enumerate(part.inner))
    if part.is_anonymous and not part.dimensions:
        return f"{part.keyword} {{ {body} }};"
    return f"{part.keyword} {{ {body} }} {name}{dimensions};"


def leaves(part: Part, name: str, path: str) -> list[tuple[str, str]]:
    """(our name, C's name) of every number in it; all indexes are the last ones."""
    index = "".join(f"[{n - 1}]" for n in part.dimensions)
    if not part.inner:
        return [(f"{path}{name}{index}", f"{path}{name}{index}")]
    hidden = part.is_anonymous and not part.dimensions
    inside = path if hidden else f"{path}{name}{index}."
    return [leaf for i, p in enumerate(part.inner) for leaf in leaves(p, f"{name}_{i}", inside)]


def source(drawn: list[list[Part]]) -> str:
    text = "#include <stddef.h>\n#include <stdio.h>\n"
    for i, members in enumerate(drawn):
        body = "\n".join(f"  {declare(p, f'm{j}')}" for j, p in enumerate(members))
        text += f"struct s{i} {{\n{body}\n}} v{i};\n"
    text += "int main(void) {\n"
    for i, members in enumerate(drawn):
        text += f'  printf("s{i} %zu\\n", sizeof(struct s{i}));\n'
        for j, part in enumerate(members):
            for ours, theirs in leaves(part, f"m{j}", ""):
                place = f"offsetof(struct s{i}, {theirs}), sizeof v{i}.{theirs}"
                text += f'  printf("s{i} {ours} %zu %zu\\n", {place});\n'
    return text + "  return 0;\n}\n"


@given(structs)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_field_lies_where_the_compiler_puts_it(drawn: list[list[Part]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        words = ["gcc", "-g", "-x", "c", "-", "-o", str(program)]
        subprocess.run(words, input=source(drawn), text=True, check=True, capture_output=True)
        truth = subprocess.run([program], text=True, check=True, capture_output=True).stdout
        symbols = _engine.Symbols(str(program))
        sizes = {row[0]: row[2] for row in symbols.layouts()}
        for line in truth.splitlines():
            name, *rest = line.split()
            if len(rest) == 1:
                assert sizes[f"struct {name}"] == int(rest[0])
                continue
            path, offset, size = rest[0], int(rest[1]), int(rest[2])
            found = symbols.field(f"struct {name}", offset)
            # In a union, others lie there too, some of them shorter; a fourth is not named.
            names = found[0].rsplit(".", 1)[0]
            assert path in found[0] or "|" in found[0], (line, found)
            assert found[1] == offset, (line, found)
            assert found[2] <= size or "|" not in names, (line, found)
            assert not found[3]
