# SPDX-License-Identifier: Apache-2.0
"""The workloads do what their truths say, as other tools see it: cachegrind counts accesses and
misses, DHAT counts allocations. None of our own recording is involved."""

from __future__ import annotations

import bisect
import functools
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallscope import workloads
from stallscope.errors import StallscopeError

NAMES = workloads.names()
# Every workload in every form; None for those that have only one.
CASES = [
    (name, form)
    for name in NAMES
    for form in [known.name for known in workloads.truth(name).forms] or [None]
]
CURED = [(name, form) for name in NAMES for form in workloads.truth(name).forms[1:]]
SHARED = [(name, form) for name in NAMES for form in workloads.truth(name).forms if form.shares]
D1_BYTES, D1_WAYS, LINE = 16384, 8, 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workloads")


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


def quick(name: str, folder: Path, form: str | None = None) -> list[str]:
    """The command of a workload at its smallest size."""
    arguments = workloads.truth(name).command_arguments("quick", form)
    return [str(workloads.build(name, folder)), *arguments]


def close(measured: int, expected: int, tolerance: float) -> bool:
    # The few accesses of entry and exit matter only where nothing else is expected.
    return abs(measured - expected) <= max(tolerance * expected, 64)


# --- the truths themselves


def test_every_workload_of_the_issue_is_there() -> None:
    wanted = {"array", "bst", "churn", "hashjoin", "list", "matmul", "scoreboards"}
    cured = {"multigrid", "shallow_water", "mesh", "lzw", "quake", "placement"}
    assert wanted | cured <= set(NAMES)
    assert {name for name, _ in CURED} == cured


@pytest.mark.parametrize("name", NAMES)
def test_a_truth_names_functions_and_lines_that_exist(name: str) -> None:
    known = workloads.truth(name)
    source = workloads.find(name).read_text()
    sites = [(thing.function, thing.text) for thing in known.objects if thing.kind == "heap"]
    for misses in filter(None, (known.misses, *(form.misses for form in known.forms))):
        sites.append((misses.function, misses.text))
        assert misses.object in {thing.name for thing in known.objects}
    for function, text in sites:
        line = known.line_of(text)
        heads = re.findall(
            r"^[A-Za-z].*?(\w+)\([^;\n]*$", "\n".join(source.splitlines()[:line]), re.M
        )
        assert heads[-1] == function
    functions = [row.function for row in (*known.allocations, *known.accesses)]
    assert all(re.search(rf"\b{function}\(", source) for function in functions)


@pytest.mark.parametrize(("name", "form"), CASES)
def test_every_expression_has_a_value(name: str, form: str | None, folder: Path) -> None:
    known = workloads.truth(name)
    values = known.values("quick", run(*quick(name, folder, form)).stdout, form)
    rows = [*known.objects, *known.allocations, *known.accesses, known.misses_of(form)]
    fields = ("bytes", "count", "calls", "loads", "stores", "modifies", "footprint")
    expressions = [getattr(row, field, None) for row in rows for field in fields]
    for expression in filter(None, (known.threads, known.frees, *expressions)):
        assert workloads.evaluate(expression, values) >= 0


def test_a_truth_with_an_unknown_key_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = workloads.find("array").with_suffix(".toml").read_text()
    (tmp_path / "array.toml").write_text(f'colour = "red"\n{text}')
    monkeypatch.setattr(workloads, "_folder", lambda: tmp_path)
    with pytest.raises(StallscopeError, match="cannot read the truth"):
        workloads.truth("array")


def test_scoreboard_groups_follow_from_the_arguments() -> None:
    known = workloads.truth("scoreboards")
    assert known.thread_groups({"threads": 5, "groups": 2, "equal": 1, "unequal": 0}) == [
        ["worker-0-0", "worker-0-1", "worker-0-2"],
        ["worker-1-0", "worker-1-1"],
    ]
    assert workloads.truth("list").thread_groups({"nodes": 5}) == []


# --- expressions


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * n ** 3", 54),
        ("(n + 2) // 2 - 1", 1),
        ("-n % 2", 1),
        ("min(n, 2) + max(1, n)", 5),
        ("7", 7),
    ],
)
def test_expressions_are_whole_number_arithmetic(expression: str, value: int) -> None:
    assert workloads.evaluate(expression, {"n": 3}) == value


@pytest.mark.parametrize(
    "expression",
    [
        "n / 2",
        "1.5",
        "True",
        "'a' * 9",
        "m",
        "n // 0",
        "n ** 9",
        "n ** -1",
        "abs(n)",
        "min()",
        "min(n, key=n)",
        "n.real",
        "[n][0]",
        "__import__('os')",
        "n +",
        "n if n else 1",
        "(lambda: 1)()",
    ],
)
def test_everything_else_is_refused(expression: str) -> None:
    with pytest.raises(StallscopeError, match="cannot evaluate"):
        workloads.evaluate(expression, {"n": 3})


# --- building


def test_a_second_build_reuses_the_first(tmp_path: Path) -> None:
    first = workloads.build("list", tmp_path)
    made = first.stat().st_mtime_ns, first.stat().st_ino
    assert workloads.build("list", tmp_path) == first
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == made


def test_no_compiler_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(StallscopeError, match="need a C compiler"):
        workloads.build("list", tmp_path / "out")


def test_an_unknown_workload_lists_the_known_ones() -> None:
    with pytest.raises(StallscopeError) as caught:
        workloads.find("lists")
    assert "hashjoin" in caught.value.now


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", NAMES)
def test_workloads_compile_without_warnings_and_agree(
    name: str, compiler: str, folder: Path, tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    known = workloads.truth(name)
    program = tmp_path / name
    flags = ["-Wall", "-Wextra", "-Werror", "-o", program]
    built = run(*workloads.command(name, compiler), *flags)
    assert built.returncode == 0, built.stderr
    expected = run(*quick(name, folder))
    other = run(program, *known.command_arguments("quick"))
    assert (other.returncode, other.stdout) == (0, expected.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_in_the_source_are_the_defaults_of_the_truth(name: str, folder: Path) -> None:
    program = workloads.build(name, folder)
    bare = run(program)
    full = run(program, *workloads.truth(name).command_arguments())
    assert re.match(rf"{name} .*checksum=\d+\n", bare.stdout)
    assert bare.stdout == full.stdout


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", ["0", "many", "-1x"])
def test_a_wrong_argument_is_refused(name: str, wrong: str, folder: Path) -> None:
    ran = run(workloads.build(name, folder), wrong)
    assert ran.returncode == 2
    assert "argument 1" in ran.stderr


# --- accesses and misses, by cachegrind


class Counts:
    """Cachegrind's counts by function and by line of the workload's source."""

    def __init__(self, text: str, source: str) -> None:
        self.by_function: dict[str, Counter[str]] = {}
        self.by_line: dict[int, Counter[str]] = {}
        self.total: Counter[str] = Counter()
        events: list[str] = []
        file = function = ""
        for line in text.splitlines():
            if line.startswith("events:"):
                events = line.split()[1:]
            elif line.startswith("fl="):
                file = line[3:]
            elif line.startswith("fn="):
                function = line[3:]
            elif line[:1].isdigit():
                number, *counts = map(int, line.split())
                row = Counter(dict(zip(events, counts, strict=False)))
                self.by_function.setdefault(function, Counter()).update(row)
                self.total.update(row)
                if Path(file).name == source:
                    self.by_line.setdefault(number, Counter()).update(row)
        self.misses = self.total["D1mr"] + self.total["D1mw"]


@functools.cache
def cachegrind(name: str, folder: Path, form: str | None = None) -> tuple[Counts, str]:
    out = folder / f"{name}.cachegrind"
    ran = run(
        *("valgrind", "--tool=cachegrind", f"--cachegrind-out-file={out}", "--I1=32768,8,64"),
        *(f"--D1={D1_BYTES},{D1_WAYS},{LINE}", "--LL=1048576,16,64"),
        *quick(name, folder, form),
    )
    assert ran.returncode == 0, ran.stderr
    return Counts(out.read_text(), workloads.truth(name).source), ran.stdout


@pytest.mark.parametrize(("name", "form"), CASES)
def test_access_counts_agree_with_cachegrind(name: str, form: str | None, folder: Path) -> None:
    known = workloads.truth(name)
    counts, output = cachegrind(name, folder, form)
    values = known.values("quick", output, form)
    for row in known.accesses:
        measured = counts.by_function.get(row.function, Counter())
        loads, stores, modifies = (
            workloads.evaluate(expression, values)
            for expression in (row.loads, row.stores, row.modifies)
        )
        # Cachegrind counts a locked addition as two reads.
        assert close(measured["Dr"], loads + 2 * modifies, row.tolerance), row
        assert close(measured["Dw"], stores, row.tolerance), row


@pytest.mark.parametrize(
    ("name", "form"), [case for case in CASES if workloads.truth(case[0]).misses_of(case[1])]
)
def test_the_stated_line_dominates_misses_in_cachegrind(
    name: str, form: str | None, folder: Path
) -> None:
    known = workloads.truth(name)
    misses = known.misses_of(form)
    assert misses is not None
    counts, output = cachegrind(name, folder, form)
    values = known.values("quick", output, form)
    assert workloads.evaluate(misses.footprint, values) > 2 * D1_BYTES, "quick size too small"
    line = counts.by_line[known.line_of(misses.text)]
    measured = line["D1mr"] + line["D1mw"]
    assert measured >= misses.share * counts.misses
    if misses.count is not None:
        assert close(measured, workloads.evaluate(misses.count, values), misses.tolerance)


# --- forms


@pytest.mark.parametrize(("name", "form"), CURED, ids=lambda case: getattr(case, "name", case))
def test_a_cured_form_computes_the_same_with_fewer_misses(
    name: str, form: workloads.Form, folder: Path
) -> None:
    slow, expected = cachegrind(name, folder, workloads.truth(name).forms[0].name)
    cured, output = cachegrind(name, folder, form.name)
    assert output == expected
    assert form.fewer < 1
    assert cured.misses <= form.fewer * slow.misses


@pytest.mark.parametrize("name", sorted({name for name, _ in CURED}))
def test_forms_are_the_choices_of_the_argument(name: str) -> None:
    known = workloads.truth(name)
    argument = next(argument for argument in known.arguments if argument.name == "form")
    assert argument.choices == tuple(form.name for form in known.forms)
    assert argument.default == known.forms[0].name
    with pytest.raises(StallscopeError, match="has no form 'quick'"):
        known.command_arguments("quick", "quick")


@pytest.mark.parametrize("name", sorted({name for name, _ in CURED}))
def test_an_unknown_form_is_refused_by_the_program(name: str, folder: Path) -> None:
    *words, _ = quick(name, folder)
    ran = run(*words, "fast")
    assert ran.returncode == 2
    assert "must be one of: slow" in ran.stderr


def test_values_tell_the_form() -> None:
    values = workloads.truth("quake").values("quick", form="packed")
    assert (values["slow"], values["packed"], values["static"]) == (0, 1, 0)


@pytest.mark.parametrize("name", NAMES)
def test_global_variables_have_the_stated_size(name: str, folder: Path) -> None:
    known = workloads.truth(name)
    values = known.values("quick")
    sizes = {symbol: size for _, size, symbol in symbols(workloads.build(name, folder))}
    for thing in known.objects:
        if thing.kind == "global":
            assert sizes[thing.name] == workloads.evaluate(thing.bytes, values)


def symbols(program: Path) -> list[tuple[int, int, str]]:
    """Address, size and name of the variables of a program."""
    rows = (line.split() for line in run("nm", "-S", program).stdout.splitlines())
    return sorted((int(r[0], 16), int(r[1], 16), r[3]) for r in rows if len(r) == 4)


@pytest.mark.parametrize(("name", "form"), SHARED, ids=lambda case: getattr(case, "name", case))
def test_shares_of_objects_agree_with_a_plain_simulation(
    name: str, form: workloads.Form, folder: Path
) -> None:
    # At a fixed address, so that symbols tell where variables are.
    program = folder / f"{name}.fixed"
    run(*workloads.command(name, "gcc"), "-no-pie", "-o", program)
    known = symbols(program)
    starts = [start for start, _, _ in known]
    missed: Counter[str] = Counter()
    for address in data_misses(
        program, workloads.truth(name).command_arguments("quick", form.name)
    ):
        start, size, symbol = known[max(bisect.bisect(starts, address) - 1, 0)]
        missed[symbol if start <= address < start + size else ""] += 1
    everything = sum(missed.values())
    for symbol, share in form.shares.items():
        assert missed[symbol] / everything == pytest.approx(share, abs=0.02)


def data_misses(program: Path, arguments: list[str]) -> Iterator[int]:
    """Addresses that miss in an LRU cache, from the accesses that lackey prints."""
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", str(program), *arguments]
    sets: list[dict[int, None]] = [{} for _ in range(D1_BYTES // D1_WAYS // LINE)]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as lackey,
        # Rows of data begin with a space; most rows are of instructions.
        subprocess.Popen(
            ["grep", "^ [LSM]"], stdin=lackey.stderr, stdout=subprocess.PIPE, text=True
        ) as rows,
    ):
        assert rows.stdout is not None
        for row in rows.stdout:
            address, size = row[3:].split(",")
            start = int(address, 16)
            for line in range(start // LINE, (start + int(size) - 1) // LINE + 1):
                ways = sets[line % len(sets)]
                if line in ways:
                    del ways[line]
                else:
                    yield start
                    if len(ways) == D1_WAYS:
                        del ways[next(iter(ways))]
                ways[line] = None
    assert lackey.returncode == 0


# --- allocations, by DHAT


def dhat(
    name: str, folder: Path, form: str | None = None
) -> tuple[Counter[str], Counter[str], str]:
    """Blocks and bytes by allocating function, and the output."""
    out = folder / f"{name}.dhat"
    ran = run("valgrind", "--tool=dhat", f"--dhat-out-file={out}", *quick(name, folder, form))
    assert ran.returncode == 0, ran.stderr
    profile = json.loads(out.read_text())
    blocks: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for point in profile["pps"]:
        frames = [profile["ftbl"][frame] for frame in point["fs"]]
        callers = (frame for frame in frames if "vgpreload" not in frame)
        function = next(callers).split(": ", 1)[1].split(" (")[0]
        blocks[function] += point["tbk"]
        sizes[function] += point["tb"]
    return blocks, sizes, ran.stdout


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if case[0] != "churn"])
def test_allocations_agree_with_dhat(name: str, form: str | None, folder: Path) -> None:
    known = workloads.truth(name)
    blocks, sizes, output = dhat(name, folder, form)
    values = known.values("quick", output, form)
    expected_blocks: Counter[str] = Counter()
    expected_sizes: Counter[str] = Counter()
    placed = 0
    for row in known.allocations:
        if row.allocator == "near":  # which is no part of the C library, so DHAT does not see it
            placed += workloads.evaluate(row.calls, values)
            continue
        expected_blocks[row.function] += workloads.evaluate(row.calls, values)
        expected_sizes[row.function] += workloads.evaluate(row.bytes or "0", values)
    for function in expected_blocks:
        assert (blocks[function], sizes[function]) == (
            expected_blocks[function],
            expected_sizes[function],
        )
    assert placed + sum(expected_blocks.values()) == workloads.evaluate(known.frees, values)


def test_churn_makes_and_frees_what_it_prints(folder: Path) -> None:
    known = workloads.truth("churn")
    ran = run("valgrind", "--tool=memcheck", *quick("churn", folder))
    values = known.values("quick", ran.stdout)
    calls = sum(workloads.evaluate(row.calls, values) for row in known.allocations)
    assert calls == values["steps"]
    usage = re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees", ran.stderr)
    assert usage is not None
    allocs, frees = (int(number.replace(",", "")) for number in usage.groups())
    # Memcheck counts a realloc as both; printf's buffer is one more of each.
    assert (allocs, frees) == (
        calls + 1,
        workloads.evaluate(known.frees, values) + values["grown"] + 1,
    )
    assert "ERROR SUMMARY: 0 errors" in ran.stderr


def test_scoreboards_shows_its_threads_by_name(folder: Path) -> None:
    known = workloads.truth("scoreboards")
    values = {"threads": 4, "groups": 2, "rounds": 1 << 40, "seed": 1}
    words = [str(values[argument.name]) for argument in known.arguments if not argument.choices]
    values |= {"equal": 1, "unequal": 0}
    expected = {name for group in known.thread_groups(values) for name in group}
    with subprocess.Popen([workloads.build("scoreboards", folder), *words]) as process:
        try:
            assert any(expected <= names for names in thread_names(process.pid))
        finally:
            process.kill()


def thread_names(pid: int) -> Iterator[set[str]]:
    """The names of a process's threads, again and again until they had time to appear."""
    for _ in range(2000):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        yield {(task / "comm").read_text().strip() for task in tasks}
