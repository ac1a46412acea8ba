# SPDX-License-Identifier: Apache-2.0
"""A policy made from a recording: the same program placed by it misses less, and computes the same.
The preloaded allocator stands in malloc's place, and no policy can break a program."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stallscope import workloads
from stallscope.actions.layout import environment

PROGRAMS = Path(__file__).parent / "near"
STALLSCOPE = Path(sys.executable).with_name("stallscope")
HEAD = "stallscope-near-policy 1\n"


def run(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **(env or {})},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layout")


def program(name: str, folder: Path) -> Path:
    target = folder / name
    if not target.exists():
        source = PROGRAMS / f"{name}.c"
        built = run("gcc", "-O2", "-g", "-Wall", "-Wextra", source, "-pthread", "-o", target)
        assert built.returncode == 0, built.stderr
    return target


def build_id(target: Path) -> str:
    found = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", target).stdout)
    assert found is not None
    return found[1]


def return_addresses(target: Path) -> list[str]:
    """Of all calls of allocation functions, as offsets."""
    lines = run("objdump", "-d", "--no-show-raw-insn", target).stdout.splitlines()
    calls = [i for i, line in enumerate(lines) if re.search(r"call.*<(m|c|re)alloc@plt>", line)]
    return [lines[i + 1].split(":")[0].strip() for i in calls]


# --- the verb


def misses(recording: Path) -> int:
    shown = json.loads(run(STALLSCOPE, "objects", recording, "--json").stdout)
    return next(int(row["misses"]) for row in shown["levels"] if row["level"] == "L1D")


def test_arrays_that_evict_each_other_are_moved_apart(folder: Path) -> None:
    arrays, policy = program("arrays", folder), folder / "arrays.policy"
    command = ["--machine", "default", "--probe", "evictions", "--", arrays, 20000, 3]
    plain = run(STALLSCOPE, "record", "-o", folder / "plain.stallscope", *command)
    made = run(STALLSCOPE, "layout", folder / "plain.stallscope", "-o", policy, "--json")
    assert made.returncode == 0, made.stderr
    rows = json.loads(made.stdout)["rows"]
    assert len(rows) == len({row["line"] for row in rows}) == 12

    placed = run(
        *(STALLSCOPE, "record", "-o", folder / "placed.stallscope", *command),
        env=environment(policy),
    )
    assert (placed.returncode, placed.stdout) == (0, plain.stdout)
    assert misses(folder / "placed.stallscope") < misses(folder / "plain.stallscope") / 3
    native = run(arrays, 20000, 3, env=environment(policy))
    assert (native.returncode, native.stdout, native.stderr) == (0, plain.stdout, "")


def test_an_unwritable_policy_is_one_clear_sentence(folder: Path) -> None:
    recording = folder / "small.stallscope"
    run(STALLSCOPE, "record", "--trace", "-o", recording, "--", program("arrays", folder), 2000, 1)
    ran = run(STALLSCOPE, "layout", recording, "-o", folder / "no" / "policy")
    assert ran.returncode == 2
    assert "cannot write" in ran.stderr


# --- prediction


def recorded(name: str, command: list[object], folder: Path) -> Path:
    recording = folder / f"{name}-trace.stallscope"
    if not recording.exists():
        made = run(
            STALLSCOPE, "record", "--trace", "--machine", "none", "-o", recording, "--", *command
        )
        assert made.returncode == 0, made.stderr
    return recording


def workload(name: str) -> list[object]:
    return [workloads.build(name), *workloads.truth(name).command_arguments("quick")]


def confirmed(recording: Path, *options: object) -> dict[str, Any]:
    ran = run(STALLSCOPE, "layout", recording, "--confirm", "--runs", 1, "--json", *options)
    assert ran.returncode == 0, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


@pytest.mark.parametrize(
    ("name", "better"), [("arrays", 0.25), ("placement", 0.97), ("list", 0.9), ("bst", 0.6)]
)
def test_a_prediction_comes_true(name: str, better: float, folder: Path) -> None:
    """The recorder sees under the preloaded library what replay said; sites keep their names."""
    command = [program("arrays", folder), 20000, 3] if name == "arrays" else workload(name)
    document = confirmed(recorded(name, command, folder))
    level = next(row for row in document["levels"] if row["level"] == "L1D")
    assert level["predicted"] < better * level["before"]
    assert abs(level["error"]) < 0.03
    placed = [row for row in document["objects"] if row["placed"]]
    assert {row["object"] for row in placed} == {row["object"] for row in document["rows"]}
    for row in placed:
        assert abs(row["predicted"] - row["confirmed"]) <= 0.01 * row["confirmed"] + 50, row
    assert document["moved_blocks"] == sum(row["blocks"] for row in document["rows"])
    assert document["native"]["runs"] == 1


def test_a_policy_of_other_programs_is_predicted_to_change_nothing(folder: Path) -> None:
    recording, policy = recorded("list", workload("list"), folder), folder / "others.policy"
    policy.write_text(f"{HEAD}site abc+0x10 packed\n")
    ran = run(STALLSCOPE, "layout", recording, "--policy", policy, "--json")
    document = json.loads(ran.stdout)
    assert document["moved_blocks"] == 0
    assert {row["ratio"] for row in document["levels"]} == {1}


def test_a_prediction_is_computed_once(folder: Path) -> None:
    recording = recorded("list", workload("list"), folder)
    first = run(STALLSCOPE, "layout", recording, "--predict", "--json")
    kept = sorted((recording / "results").iterdir())
    assert run(STALLSCOPE, "layout", recording, "--predict", "--json").stdout == first.stdout
    assert sorted((recording / "results").iterdir()) == kept


def test_a_tree_of_processes_is_predicted_and_run_again_as_a_whole(folder: Path) -> None:
    words = " ".join(map(str, workload("list")))
    recording = recorded("tree", ["/bin/sh", "-c", f"{words}; {words}"], folder)
    document = confirmed(recording)
    assert document["moved_blocks"] == 2 * int(workload("list")[1])  # type: ignore[call-overload]
    (placed,) = (row for row in document["objects"] if row["placed"])
    assert placed["predicted"] == pytest.approx(placed["confirmed"], rel=0.01)
    pid = json.loads((recording / "meta.json").read_text())["pid"]
    assert "only a whole recording" in refused(recording, "--confirm", "--process", pid)


def refused(*words: object) -> str:
    ran = run(STALLSCOPE, "layout", *words)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    return ran.stderr


def test_what_cannot_be_predicted_or_confirmed_is_one_clear_sentence(folder: Path) -> None:
    recording, policy = recorded("list", workload("list"), folder), folder / "bad.policy"
    policy.write_text(f"{HEAD}site abc+0x10 loose\n")
    assert "the policy is wrong in line 2" in refused(recording, "--policy", policy)
    assert "cannot read the policy" in refused(recording, "--policy", folder / "none")

    without, gone = folder / "without.stallscope", folder / "gone"
    gone.mkdir()
    probe = ("--machine", "default", "--probe", "evictions")
    made = run(STALLSCOPE, "record", *probe, "-o", without, "--", *workload("list"))
    assert made.returncode == 0, made.stderr
    assert "has no trace" in refused(without, "--predict")

    changing = folder / "changing"
    changing.write_bytes(program("arrays", folder).read_bytes())
    changing.chmod(0o755)
    changed = recorded("changing", [changing, 2000, 1], folder)
    run("gcc", "-O1", PROGRAMS / "arrays.c", "-o", changing)
    assert "has changed since it was recorded" in refused(changed, "--confirm")

    copy = gone / "copy"
    copy.write_bytes(Path("/bin/true").read_bytes())
    copy.chmod(0o755)
    elsewhere = recorded("elsewhere", [copy], folder)
    copy.unlink()
    assert "no such program" in refused(elsewhere, "--confirm")


# --- the library


@pytest.mark.parametrize("threads", [1, 4])
def test_every_block_is_placed_where_its_policy_says(threads: int, folder: Path) -> None:
    target, policy = program("preloaded", folder), folder / "all.policy"
    sites = [f"site {build_id(target)}+0x{offset}" for offset in return_addresses(target)]
    assert len(sites) == 3
    lines = [line for site in sites for line in (f"{site} packed", f"{site} line 9 step 7")]
    policy.write_text(HEAD + "\n".join(lines) + "\n")
    ran = run(target, threads, 30000, env=environment(policy))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "faults=0 all_at_line=1\n", "")


def test_without_a_policy_malloc_is_the_c_librarys(folder: Path) -> None:
    ran = run(
        program("preloaded", folder),
        4,
        env={**environment(Path("x")), "STALLSCOPE_NEAR_POLICY": ""},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "faults=0 all_at_line=0\n", "")


def test_steps_move_on_for_each_block(folder: Path) -> None:
    source = folder / "steps.c"
    source.write_text(
        """#include <stdio.h>
        #include <stdlib.h>
        int main(void) {
          for (int i = 0; i < 4; i++) printf("%d ", (int)((size_t)malloc(5000) / 64 % 64));
          return 0;
        }
        """
    )
    target, policy = folder / "steps", folder / "steps.policy"
    assert run("gcc", "-O1", source, "-o", target).returncode == 0
    (offset,) = return_addresses(target)
    policy.write_text(f"{HEAD}site {build_id(target)}+0x{offset} line 60 step 3\n")
    assert run(target, env=environment(policy)).stdout == "60 63 2 5 "


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stallscope-near-policy 2\n",
        f"{HEAD}site abc line 1 step 1\n",
        f"{HEAD}site abc+0x10 line 64 step 1\n",
        f"{HEAD}site abc+0x10 line 1\n",
        f"{HEAD}site abc+0x10 line 1 step 1 more\n",
        f"{HEAD}site abc+0x10 loose\n",
        f"{HEAD}place abc+0x10 packed\n",
        HEAD + "#" * 300_000,
    ],
)
def test_a_wrong_policy_is_refused_and_the_program_runs(text: str, folder: Path) -> None:
    policy = folder / "wrong.policy"
    policy.write_text(text)
    ran = run("/bin/echo", "unharmed", env=environment(policy))
    assert (ran.returncode, ran.stdout) == (0, "unharmed\n")
    assert f"the policy {policy} is not used" in ran.stderr


@pytest.mark.parametrize("text", [HEAD, f"{HEAD}# words\n\nsite abc+0x10 packed\n"])
def test_a_policy_of_other_programs_changes_nothing(text: str, folder: Path) -> None:
    policy = folder / "other.policy"
    policy.write_text(text)
    ran = run(sys.executable, "-c", "print(sum(range(10)))", env=environment(policy))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "45\n", "")
