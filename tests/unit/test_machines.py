# SPDX-License-Identifier: Apache-2.0
"""Machine files: what they mean, and what is said of wrong ones."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stallscope import machines
from stallscope.cli.machines import command
from stallscope.errors import StallscopeError
from stallscope.machines import keys
from stallscope.machines.lines import lines
from stallscope.machines.model import Cache, Machine, Mapping, Prefetcher, Tlb, from_engine
from stallscope.scale.plan import shares_a_pass
from stallscope.views.terminal.machines import show

ROOT = Path(__file__).parents[2]
SMALL = """\
memory_latency = 100   # line 1

[[cache]]              # line 3
name = "L1D"
holds = "data"
size = "32K"           # line 6
ways = 8
latency = 4

[[cache]]              # line 10
name = "L2"
size = "1M"
ways = 16              # line 13
latency = 14

[[tlb]]                # line 16
name = "DTLB"
entries = 64
"""


def refusal(text: str) -> StallscopeError:
    with pytest.raises(StallscopeError) as caught:
        machines.parse(text, "my.toml")
    return caught.value


def changed(old: str, new: str) -> StallscopeError:
    """What is said of SMALL with one thing changed."""
    assert old in SMALL
    return refusal(SMALL.replace(old, new, 1))


# What a file means


def test_a_small_file_gives_its_machine_and_the_documented_defaults() -> None:
    machine = machines.parse(SMALL, "folder/my.toml")
    assert machine.name == "my"
    assert machine.memory_latency == 100
    inner, outer = machine.caches
    assert (inner.size, inner.ways, inner.line, inner.sets) == (32768, 8, 64, 64)
    assert (outer.holds, outer.policy, outer.inclusion) == ("both", "lru", "neither")
    assert (outer.write_allocate, outer.write_back) == (True, True)
    assert machine.tlbs[0].ways == 64, "left out, a TLB is fully associative"
    assert machine.tlbs[0].page == 4096
    assert machine.prefetcher == Prefetcher()
    assert machine.mapping == Mapping(kind="identity", seed=1)


def test_a_prefetcher_left_without_a_cache_fills_the_innermost_for_data() -> None:
    machine = machines.parse(SMALL + '[prefetch]\nkind = "stride"\n', "my.toml")
    assert machine.prefetcher == Prefetcher(kind="stride", cache="L1D", degree=1)


def test_the_engine_gets_plain_values_only() -> None:
    plain = machines.load("power5").to_engine()
    assert json.loads(json.dumps(plain)) == plain
    assert list(plain) == [
        "caches", "tlbs", "prefetcher", "mapping", "memory_latency", "page_walk", "seed",
    ]  # fmt: skip
    assert plain["caches"][3]["inclusion"] == "exclusive"


def test_keys_and_structs_declare_the_same() -> None:
    for section, struct in (
        ("cache", Cache),
        ("tlb", Tlb),
        ("prefetch", Prefetcher),
        ("mapping", Mapping),
    ):
        declared = keys.section(section).keys
        fields = {field.name: field.default for field in msgspec.structs.fields(struct)}
        assert {key.name for key in declared} == set(fields)
        for key in declared:
            if fields[key.name] is not msgspec.NODEFAULT and key.default is not None:
                assert fields[key.name] == key.default, (section, key.name)
    for key in keys.section("").keys:
        field = next(f for f in msgspec.structs.fields(Machine) if f.name == key.name)
        assert field.default == key.default


def test_the_docs_have_the_tables_of_keys_as_declared() -> None:
    assert keys.tables().strip() in (ROOT / "docs/machines.md").read_text()


# Presets


@pytest.mark.parametrize("name", machines.names())
def test_every_name_gives_a_machine_of_that_name(name: str) -> None:
    machine = machines.load(name)
    assert machine.name == name
    assert machine.description
    assert machine.simulates == (name != "none")


def shape(machine: Machine, cache: str) -> tuple[int, int, int, int]:
    (found,) = [c for c in machine.caches if c.name == cache]
    return found.size, found.ways, found.line, found.latency


def test_the_machines_of_the_original_studies_have_their_published_shapes() -> None:
    alpha, risc = machines.load("alpha-2m"), machines.load("risc-64k")
    assert [c.holds for c in (*alpha.caches, *risc.caches)] == ["data", "data"]
    assert shape(alpha, "L1D")[:3] == (2 << 20, 2, 64)
    assert shape(risc, "L1D")[:3] == (64 << 10, 4, 32)
    assert risc.memory_latency - risc.caches[0].latency == 20
    itanium, power = machines.load("itanium2"), machines.load("power5")
    assert shape(itanium, "L1D") == (16 << 10, 4, 64, 1)
    assert shape(itanium, "L2") == (256 << 10, 8, 128, 5)
    assert shape(itanium, "L3") == (3 << 20, 12, 128, 12)
    assert shape(power, "L2") == (1920 << 10, 10, 128, 14)
    assert shape(power, "L3") == (36 << 20, 12, 128, 91)
    assert power.memory_latency == 280
    assert [c.sets for c in power.caches][2:] == [1536, 24576]


def test_the_default_is_plain_enough_for_the_exact_filter() -> None:
    machine = machines.load("default")
    assert {c.policy for c in machine.caches} == {"lru"}
    assert {c.inclusion for c in machine.caches} == {"neither"}
    assert all(c.sets & (c.sets - 1) == 0 for c in machine.caches)
    assert machine.prefetcher.kind == "none"
    assert machine.mapping.kind == "identity"
    assert [c.name for c in machine.caches] == ["L1I", "L1D", "L2", "L3"]


def test_an_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(StallscopeError) as caught:
        machines.load("itanium")
    assert "'itanium'" in caught.value.what
    assert all(name in caught.value.why for name in machines.names())
    assert caught.value.now == "itanium2"


def test_a_file_is_read_by_its_path_and_named_in_its_errors(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(SMALL)
    bad.write_text(SMALL.replace("ways = 16", "ways = 12"))
    assert machines.load(good) == machines.load(str(good))
    with pytest.raises(StallscopeError) as caught:
        machines.load(bad)
    assert caught.value.what.startswith(f"{bad}, line 13: L2.ways = 12: ")


def test_files_that_cannot_be_read_are_refused_in_a_sentence(tmp_path: Path) -> None:
    binary, huge = tmp_path / "binary.toml", tmp_path / "huge.toml"
    binary.write_bytes(b'name = "x"\n\xff')
    huge.write_bytes(b"#" * (1 << 20) + b"#")
    for path, words in (
        (tmp_path / "none.toml", "No such file"),
        (tmp_path / ".", "directory"),
        (binary, "line 2: not UTF-8"),
        (huge, "larger than 1 MiB"),
    ):
        with pytest.raises(StallscopeError) as caught:
            machines.load(f"{path}/" if path.is_dir() else path)
        assert words in str(caught.value), caught.value


# Wrong values


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() -> None:
    error = changed("ways = 16 ", "wayz = 16 ")
    assert error.what == 'my.toml, line 13: L2 has no key "wayz"'
    assert error.why.startswith("[[cache]] has name, holds, size, ways, ")
    assert error.now == "ways"
    error = changed("memory_latency", "memory_latencies")
    assert error.what == 'my.toml, line 1: a machine has no key "memory_latencies"'
    assert error.now == "memory_latency"
    assert changed("[[tlb]] ", "[[tlbs]]").now == "tlb"


@pytest.mark.parametrize(
    ("old", "new", "line", "what", "why"),
    [
        ("ways = 16 ", 'ways = "a"', 13, 'L2.ways = "a"', "a whole number was expected, not text"),
        ("ways = 16 ", "ways = true", 13, "L2.ways = true", "not true or false"),
        ("ways = 16 ", "ways = 8.0", 13, "L2.ways = 8.0", "not a fraction"),
        ("ways = 16 ", "ways = 0", 13, "L2.ways = 0", "from 1 to 65,536"),
        ("ways = 16 ", "ways = [1]", 13, "L2.ways = [1]", "not a list"),
        ("ways = 16 ", "ways = 1979-05-27", 13, "L2.ways = 1979-05-27", "not a date or time"),
        ("ways = 16 ", "ways = {a = 1}", 13, "L2.ways", "not a table"),
        ('"32K"', '"32Q"', 6, 'L1D.size = "32Q"', "a size was expected"),
        ('"32K"', '"0.3K"', 6, 'L1D.size = "0.3K"', "a whole number of bytes"),
        ('"32K"', "-5", 6, "L1D.size = -5", "a size from 1 to 16G"),
        ('"32K"', "1.5", 6, "L1D.size = 1.5", "not a fraction"),
        ('holds = "data"', 'holds = "code"', 5, "L1D.holds", "data, instructions, both"),
        ('holds = "data"', 'policy = "mru"', 5, "L1D.policy", "lru, plru, fifo, random, srrip"),
        ('holds = "data"', "policy = 3", 5, "L1D.policy = 3", "lru, plru, fifo, random, srrip"),
        ('holds = "data"', 'write_allocate = "no"', 5, "L1D.write_allocate", "true or false"),
        ('name = "L2"', "name = 2", 11, "[[cache]] number 2.name = 2", "text in quotes"),
        ('name = "L2"', 'name = "L 2"', 11, 'L 2.name = "L 2"', "letters, digits"),
        ("= 100 ", '= "soon"', 1, 'memory_latency = "soon"', "a whole number"),
    ],
)
def test_a_wrong_value_gets_its_line_and_what_was_expected(
    old: str, new: str, line: int, what: str, why: str
) -> None:
    error = changed(old, new)
    assert error.what.startswith(f"my.toml, line {line}: {what}"), error.what
    assert why in error.why


def test_a_missing_key_is_asked_for_at_its_table() -> None:
    error = changed("ways = 8\n", "")
    assert error.what == "my.toml, line 3: L1D has no ways"
    assert error.why == "[[cache]] needs ways: lines in a set"
    assert changed('name = "L1D"\n', "").what == "my.toml, line 3: [[cache]] number 1 has no name"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("ways = 16 ", "ways = 12", 13, "1M / 64 B / 12 ways is not a whole number of sets"),
        ('"32K"', '"100"', 6, "not a whole number of lines of 64 bytes"),
        ('"32K"', '"32"', 6, "not a whole number of lines of 64 bytes"),
        ('"32K"', '"16G"', 6, "268,435,456 lines"),
        ("ways = 8\n", "ways = 8\nline = 48\n", 8, "L1D.line = 48: not a power of two"),
        ("ways = 8\n", "ways = 8\nline = 128\n", 11, "smaller than the line of L1D"),
        ('"32K"', "256", 7, "the cache has only 4 lines"),
        ('name = "L2"', 'name = "l1d"', 11, "l1d is the name of [[cache]] number 1 already"),
        ('"DTLB"', '"L2"', 17, "L2 is the name of [[cache]] number 2 already"),
        ('name = "L2"', 'name = "prefetch"', 11, "prefetch is no name for a cache"),
        ('holds = "data"', 'inclusion = "exclusive"', 5, "there is no cache inside it"),
        ("entries = 64", 'entries = 64\npage = "5K"', 19, "DTLB.page = 5K: not a power of two"),
        ("entries = 64", "entries = 64\nways = 65", 19, "the TLB has only 64 entries"),
        ("entries = 64", "entries = 64\nways = 6", 19, "64 entries / 6 ways"),
        ("ways = 8\n", "ways = 8\nline = 4096\n", 11, "L2.line = 64"),
    ],
)
def test_an_impossible_geometry_is_refused_where_it_stands(
    old: str, new: str, line: int, words: str
) -> None:
    error = changed(old, new)
    assert error.what.startswith(f"my.toml, line {line}: "), error.what
    assert words in error.what


def test_policies_that_cannot_have_so_many_ways_say_so() -> None:
    error = changed("ways = 16 ", 'ways = 64\npolicy = "srrip" ')
    assert "L2.ways = 64: too many for srrip" in error.what
    error = changed('"32K"           # line 6\nways = 8', '"48K"\nways = 12\npolicy = "plru"')
    assert error.what.endswith('L1D.policy = "plru": 12 ways are not a power of two')


def test_outer_parts_fit_the_inner_ones() -> None:
    outer = '\n[[cache]]\nname = "L3"\nsize = "8M"\nways = 16\nlatency = 50\n'
    assert machines.parse(SMALL + outer + 'inclusion = "exclusive"\n', "my.toml")
    error = refusal(SMALL + outer + 'inclusion = "exclusive"\nline = 128\n')
    assert "L3.line = 128: L2 inside it has 64" in error.what
    wide = SMALL.replace("ways = 16 ", "ways = 16\nline = 128 ")
    assert machines.parse(wide + outer + 'inclusion = "exclusive"\nline = 128\n', "my.toml")
    through = SMALL.replace("ways = 16 ", "ways = 16\nwrite_back = false ")
    error = refusal(through + outer + 'inclusion = "exclusive"\n')
    assert "L3.inclusion" in error.what
    assert "L2 inside it does not write back" in error.what
    second = '\n[[tlb]]\nname = "STLB"\nentries = 128\npage = "2K"\n'
    assert "STLB.page = 2K: smaller than the page of DTLB" in refusal(SMALL + second).what


def test_a_machine_needs_a_cache_for_data() -> None:
    only = SMALL[: SMALL.index("[[tlb]]")].replace('holds = "data"', 'holds = "instructions"')
    error = refusal(only.replace('name = "L2"', 'name = "L2"\nholds = "instructions"'))
    assert error.what == "my.toml, line 3: there is no cache for data"
    assert refusal("memory_latency = 3\n").what == "my.toml: there is no cache for data"
    assert refusal("").what == "my.toml: there is no cache for data"


def test_more_levels_than_the_simulator_has_are_refused() -> None:
    more = "".join(
        f'\n[[cache]]\nname = "X{n}"\nsize = "1M"\nways = 16\nlatency = 20\n' for n in range(5)
    )
    assert "7 levels of [[cache]]" in refusal(SMALL + more).what


def test_sections_in_the_wrong_form_are_shown_the_right_one() -> None:
    assert refusal("[cache]\nsize = 3\n").now == "[[cache]]"
    assert refusal("cache = 3\n").what == "my.toml, line 1: cache is not a list"
    assert refusal("cache = [\n1]\n").what == "my.toml, line 2: cache number 1 is not a table"
    assert refusal("prefetch = 1\n" + SMALL).now == "[prefetch]"
    assert refusal(SMALL + "[[mapping]]\n").now == "[mapping]"


def test_a_prefetcher_names_a_cache_that_there_is() -> None:
    error = refusal(SMALL + '[prefetch]\nkind = "stream"\ncache = "L3"\n')
    assert error.what.startswith('my.toml, line 21: prefetch.cache = "L3": there is no such cache')
    assert error.why == "there is: L1D, L2"
    last = '\n[[cache]]\nname = "L3"\nsize = "8M"\nways = 16\nlatency = 50\n'
    victim = last + 'inclusion = "exclusive"\n[prefetch]\nkind = "stream"\ncache = "l3"\n'
    assert 'prefetch.cache = "L3": it is exclusive' in refusal(SMALL + victim).what


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = \n", 1),
        ("[[cache]]\nname = L1\n", 2),
        ('x = 1\n\nname = "L1\n', 3),
        ("x = 1\nx = 2\n", 2),
        ("x = [1,\n2\n", 2),
        ('x = """\n\n', 2),
    ],
)
def test_text_that_is_not_toml_gets_its_line(text: str, line: int) -> None:
    error = refusal(text)
    assert error.what.startswith(f"my.toml, line {line}: "), error.what
    assert error.why == "this is not TOML"


def test_text_that_breaks_the_parser_is_refused_too() -> None:
    assert "is no machine file" in refusal("x = " + "[" * 20000).what
    assert "is no machine file" in refusal("x = " + "9" * 5000).what


# Lines of keys

TRICKY = '''\
# ways = 3
description = """
[[cache]]
ways = 5 \\""" still text
"""
prefetch.kind = "stride" # dotted
"page_walk" = 7

[[cache]] # name = "no"
name = 'L1#D'
note = \'\'\'
[tlb]
''\'\'\'
ways = 8
[cache.deep]
x = [ # comment ]
  1, "]",
  {a = "}", b.c = 2},
]
[[cache]]
"odd key" = {ways = 1, 'line' = "x = 3"}
when = 1979-05-27 07:32:00
ways = 9
[mapping]
seed = 1
'''


def test_lines_are_found_through_strings_comments_and_inline_tables() -> None:
    found = lines(TRICKY, tomllib.loads(TRICKY))
    assert found["description",] == 2
    assert found["prefetch", "kind"] == 6
    assert found["page_walk",] == 7
    assert found["cache", 0] == 9
    assert found["cache", 0, "ways"] == 14
    assert found["cache", 0, "deep", "x", 1] == 17
    assert found["cache", 0, "deep", "x", 2, "b", "c"] == 18
    assert found["cache", 1] == 20
    assert found["cache", 1, "odd key", "line"] == 21
    assert found["cache", 1, "ways"] == 23
    assert found["mapping", "seed"] == 25


def test_lines_are_found_in_inline_tables_and_with_windows_line_ends() -> None:
    text = (
        'cache = [\r\n  {name = "A", size = "1K", ways = 1, latency = 1},\r\n'
        '  {name = "B", size = "1K", ways = 3, latency = 1},\r\n]\r\n'
    )
    error = refusal(text)
    assert error.what.startswith("my.toml, line 3: B.ways = 3: ")


def test_without_lines_the_table_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines("a = 1\n", {"a": 1, "b": 2}) == {}, "not what tomllib found: no lines at all"
    monkeypatch.setattr("stallscope.machines.reading.lines", lambda text, document: {})
    error = changed("ways = 16 ", "ways = 12 ")
    assert error.what.startswith("my.toml, in [[cache]] number 2: L2.ways = 12")


_names = st.text("abcxyz_-019", min_size=1, max_size=4)
_scalars = st.sampled_from(["1", "true", "1.5", '"#"', "'['", '"""\n[a]\n"""', "'''\n\n'''"])


@given(
    st.lists(st.tuples(st.booleans(), st.dictionaries(_names, _scalars, max_size=4)), max_size=5)
)
def test_lines_are_those_that_the_text_was_written_on(
    tables: list[tuple[bool, dict[str, str]]],
) -> None:
    text, expected, line = "", {}, 1
    for index, (blank, pairs) in enumerate(tables):
        text += "\n# [[t]]\n" * blank + "[[t]]\n"
        line += 2 * blank
        expected["t", index] = line
        line += 1
        for key, value in pairs.items():
            expected["t", index, key] = line
            text += f"{key} = {value} # {key} = 0\n"
            line += 1 + value.count("\n")
    found = lines(text, tomllib.loads(text))
    assert {path: n for path, n in found.items() if path != ("t",)} == expected


# Sizes


@pytest.mark.parametrize(
    ("text", "number"),
    [("512", 512), ("32K", 32768), ("32k", 32768), ("32 KiB", 32768), ("1.5MB", 1572864),
     ("36 MB", 36 << 20), ("2G", 2 << 30), (" 8K ", 8192), ("0.5K", 512), ("64B", 64)],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text: str, number: int) -> None:
    assert keys.size(text) == number


@pytest.mark.parametrize(
    "text", ["", "K", "1e3", "-1K", "1,920K", "3KK", "0x10", "1.K", "٣K", "1T"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(keys.Wrong):
        keys.size(text)


@given(st.integers(min_value=0, max_value=1 << 45))
def test_a_size_survives_being_written(number: int) -> None:
    assert keys.size(keys.size_text(number)) == number


@given(st.integers(0, 10**6), st.sampled_from("KMG"), st.integers(0, 1023))
def test_a_fraction_of_a_unit_is_exact_or_refused(whole: int, unit: str, part: int) -> None:
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[unit]
    assert keys.size(f"{whole + part / 1024:.10f}{unit}") == whole * factor + part * factor // 1024


# Written and read again


@st.composite
def any_machine(draw: st.DrawFn) -> Machine:
    pick, number = draw, st.integers(0, 1000)
    line, caches = 16, []
    for level in range(pick(st.integers(1, 4))):
        line = pick(st.sampled_from([line, line * 2]))
        ways = pick(st.sampled_from([1, 2, 3, 4, 8, 10, 16]))
        policies = ["lru", "fifo", "random", "srrip"] + ["plru"] * (ways & (ways - 1) == 0)
        caches.append(
            Cache(
                name=f"L{level}",
                holds=pick(st.sampled_from(["data", "both"])) if level else "both",
                size=line * ways * pick(st.integers(1, 5000)),
                ways=ways,
                line=line,
                latency=pick(number),
                policy=pick(st.sampled_from(policies)),
                write_allocate=pick(st.booleans()),
                write_back=pick(st.booleans()),
                inclusion=pick(st.sampled_from(["neither", "inclusive"])) if level else "neither",
            )
        )
    tlbs = [
        Tlb(name=f"T{n}", holds="both", entries=ways * 3, ways=ways, page=4096 << n)
        for n, ways in enumerate(pick(st.lists(st.integers(1, 64), max_size=3)))
    ]
    chosen = Prefetcher(kind="stride", cache=caches[-1].name, degree=pick(st.integers(1, 64)))
    return Machine(
        name="any",
        description=pick(st.text(max_size=30)),
        caches=tuple(caches),
        tlbs=tuple(tlbs),
        prefetcher=pick(st.sampled_from([Prefetcher(), chosen])),
        mapping=Mapping(
            kind="random",
            seed=pick(st.integers(0, 2**63 - 1)),
            first_touch=pick(st.sampled_from(keys.FIRST_TOUCHES)),
        ),
        memory_latency=pick(number),
        page_walk=pick(number),
        seed=pick(number),
    )


@given(any_machine())
def test_a_machine_survives_being_written_and_read(machine: Machine) -> None:
    assert machines.parse(machine.to_toml(), "any.toml") == machine
    assert machines.from_engine(machine.to_engine(), "any").to_engine() == machine.to_engine()


@pytest.mark.parametrize("name", [name for name in machines.names() if name != "none"])
def test_every_machine_can_begin_a_file(name: str) -> None:
    machine = machines.load(name)
    assert machines.parse(machine.to_toml(), f"{name}.toml") == machine


def test_a_kept_machine_that_was_damaged_is_refused() -> None:
    plain = machines.load("default").to_engine()
    plain["caches"][0]["ways"] = 7
    with pytest.raises(StallscopeError, match="damaged"):
        machines.from_engine(plain, "default")
    with pytest.raises(StallscopeError, match="damaged"):
        machines.from_engine({"caches": 3}, "default")


# Digests and changes


def test_the_digest_tells_machines_apart_by_what_they_do() -> None:
    machine = machines.load("default")
    renamed = msgspec.structs.replace(machine, name="x", description="y")
    assert renamed.digest() == machine.digest()
    assert len({machines.load(name).digest() for name in machines.names()}) == len(machines.names())
    more = machine.with_values({"chips.cores": "4"})
    assert more.digest() == machine.digest() and more.chips != machine.chips
    assert machine.with_values({"seed": 2}).digest() != machine.digest()


def test_the_digest_is_the_same_in_another_process() -> None:
    code = "from stallscope import machines; print(machines.load('default').digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert run.stdout.strip() == machines.load("default").digest()


def test_keys_are_changed_by_dotted_names() -> None:
    machine = machines.load("default").with_values(
        {"l2.size": "512K", "L1D.ways": "4", "memory_latency": 300, "dtlb.entries": 128,
         "prefetch.kind": "stride", "l1d.write_allocate": "false", "mapping.kind": "random"}
    )  # fmt: skip
    sizes = {cache.name: (cache.size, cache.ways) for cache in machine.caches}
    assert sizes["L2"] == (512 << 10, 16)
    assert sizes["L1D"] == (32 << 10, 4)
    assert machine.memory_latency == 300
    assert machine.tlbs[1].entries == 128
    assert machine.prefetcher == Prefetcher(kind="stride", cache="L1D", degree=1)
    assert machine.mapping.kind == "random"
    assert not machine.caches[1].write_allocate
    assert machine.name.startswith("default with l2.size=512K, L1D.ways=4")
    assert machines.load("default").with_values({}) == machines.load("default")


def test_a_fully_associative_tlb_stays_so_when_it_grows() -> None:
    grown = machines.load("itanium2").with_values({"dtlb1.entries": 64})
    assert (grown.tlbs[1].entries, grown.tlbs[1].ways) == (64, 64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"l2.sise": 3}, "try: l2.size"),
        ({"l9.size": "1M"}, 'has no "l9.size"'),
        ({"l2": "1M"}, 'has no "l2"'),
        ({"l2.name": "L9"}, 'has no "l2.name"'),
        ({"l2.size": "lots"}, "a size was expected"),
        ({"l2.ways": "x"}, "a whole number was expected"),
        ({"l2.policy": "mru"}, "lru, plru, fifo, random, srrip"),
        ({"l2.ways": 12}, "default with l2.ways=12: L2.ways = 12: 1M / 64 B / 12 ways"),
        ({"l1d.line": 128}, "L2.line = 64: smaller than the line of L1D"),
        ({"prefetch.kind": "stream", "prefetch.cache": "l8"}, "no such cache for data"),
    ],
)
def test_changes_are_checked_as_files_are(change: dict[str, object], words: str) -> None:
    with pytest.raises(StallscopeError) as caught:
        machines.load("default").with_values(change)
    assert words in str(caught.value)


def test_changes_that_only_fit_together_are_taken_together() -> None:
    machine = machines.load("default").with_values({"l2.ways": 12, "l2.size": "768K"})
    assert machine.caches[2].sets == 1024


# The verb


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_list_has_every_machine() -> None:
    document = json.loads(run("--json"))
    assert document["schema"] == "stallscope.machines/1"
    assert [row["name"] for row in document["rows"]] == machines.names()
    assert all(name in run() for name in machines.names())


def test_one_machine_is_shown_as_json_and_as_a_file(tmp_path: Path) -> None:
    (row,) = json.loads(run("power5", "--json"))["rows"]
    assert row["digest"] == machines.load("power5").digest()
    assert [cache["name"] for cache in row["caches"]] == ["L1I", "L1D", "L2", "L3"]
    file = tmp_path / "mine.toml"
    file.write_text(run("power5", "--toml"))
    assert "mine" in run(str(file))


def test_a_machine_is_drawn_within_eighty_columns() -> None:
    out = io.StringIO()
    show(machines.load("power5"), Console(file=out, width=80))
    drawn = out.getvalue().splitlines()
    (third,) = [line.split() for line in drawn if line.startswith("L3")]
    assert third == ["L3", "both", "36", "MiB", "12", "128", "24,576", "91", "lru", "exclusive"]
    assert any("280 cycles, a page walk adds 100" in line for line in drawn)
    assert "…" not in out.getvalue()


def test_a_description_cannot_steer_the_terminal() -> None:
    out = io.StringIO()
    machine = msgspec.structs.replace(machines.load("default"), description="[/bold]\x1b[31m")
    show(machine, Console(file=out, width=80))
    assert "[/bold]\\x1b[31m" in out.getvalue()


def test_machines_of_several_cores_are_checked() -> None:
    machine = machines.load("power5-2x2x2")
    assert machine.chips.contexts == 8 and machine.chips.chip_of(5) == 1
    for values, words in (
        ({"chips.cores": "40", "chips.chips": "2"}, "80 cores in all"),
        ({"chips.coherent": "L9"}, "no such cache"),
        ({"chips.protocol": "firefly"}, "mesi, moesi, dragon"),
        ({"chips.page": "5000"}, "power of two"),
    ):
        with pytest.raises(StallscopeError) as caught:
            machine.with_values(values)
        assert words in str(caught.value) + caught.value.why


def test_a_page_that_is_first_touched_is_in_memory_unless_a_machine_says_so() -> None:
    assert {machines.load(name).mapping.first_touch for name in machines.names()} == {"memory"}
    cleared = machines.load("default").with_values({"mapping.first_touch": "cleared"})
    assert cleared.to_engine()["mapping"]["first_touch"] == "cleared"
    assert cleared.digest() != machines.load("default").digest()
    assert not shares_a_pass(cleared.to_engine())
    assert shares_a_pass(machines.load("default").to_engine())


def test_a_machine_kept_before_first_touches_were_told_apart_is_as_it_was() -> None:
    document = machines.load("default").to_engine()
    del document["mapping"]["first_touch"]
    assert from_engine(document, "default").mapping.first_touch == "memory"
