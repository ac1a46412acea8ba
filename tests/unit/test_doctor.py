# SPDX-License-Identifier: Apache-2.0
"""What the doctor says, of this machine and of machines that are told to it."""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from stallscope.analyses import doctor as analysis
from stallscope.analyses.doctor import Check, Doctor, doctor
from stallscope.cli.doctor import command
from stallscope.errors import StallscopeError
from stallscope.record import host, perf_probe
from stallscope.record.perf_probe import Outcome
from stallscope.views.terminal.doctor import show

ROOT = Path(__file__).parents[2]
GROUPS = 6


@pytest.fixture(scope="module")
def here() -> host.Host:
    return host.probe(lambda: Outcome("capture tool", True, "ran /bin/true"))


def told(here: host.Host, **changes: object) -> host.Host:
    """This machine with other settings: an ordinary user's, and what `changes` says."""
    user = {"user": 1000, "capabilities": (), "seccomp": False, "container": ""}
    settings = dataclasses.replace(here.settings, **(user | changes))  # type: ignore[arg-type]
    return dataclasses.replace(here, settings=settings)


def row(result: Doctor, name: str) -> Check:
    (found,) = [r for r in result.rows if r.name == name]
    return found


def rendered(result: Doctor, **options: object) -> str:
    out = io.StringIO()
    show(result, Console(file=out, width=100, **options))  # type: ignore[arg-type]
    return out.getvalue()


# This machine


def test_every_row_that_does_not_work_says_why(here: host.Host) -> None:
    result = doctor(here)
    assert {r.status for r in result.rows} <= {"works", "limited", "missing"}
    assert len({r.group for r in result.rows}) == GROUPS
    for r in result.rows:
        assert r.detail, r
        assert bool(r.why) == (r.status != "works"), r


def test_caches_agree_with_what_the_kernel_exports(here: host.Host) -> None:
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    if not folder.exists():
        pytest.skip("this kernel shows no caches")
    indexes = list(folder.glob("index[0-9]*"))
    assert len(here.machine.caches) >= len(indexes)
    for cache in here.machine.caches:
        if cache.ways and cache.sets:
            assert cache.size == cache.ways * cache.sets * cache.line


def test_a_watched_variable_is_caught_at_every_write() -> None:
    outcome = perf_probe.watchpoint()
    if outcome.error:
        pytest.skip(f"no breakpoints here: {outcome.error}")
    assert outcome.detail == "10 of 10 writes caught"


def test_clock_samples_arrive_with_registers_in_proportion_to_time() -> None:
    outcome = perf_probe.clock_sampling(100)
    if outcome.error:
        pytest.skip(f"no clock sampling here: {outcome.error}")
    (samples,) = re.findall(r"^(\d+) samples", outcome.detail)
    assert 10 <= int(samples) <= 110


def test_counts_are_of_what_was_done() -> None:
    by_name = {o.name: o for o in perf_probe.software()}
    faults = by_name["page faults"]
    if faults.error:
        pytest.skip(f"no software events here: {faults.error}")
    (count,) = re.findall(r"counted (\d+)", faults.detail)
    assert 16 <= int(count) < 32


def test_an_event_that_cannot_exist_gives_an_errno() -> None:
    attributes = perf_probe.Attributes(type=0x7FFFFFFF, config=1)
    outcome = perf_probe.counted("none", attributes, lambda: None)
    assert not outcome.works
    assert outcome.error in errno.errorcode.values()


def test_probing_leaves_no_descriptor_and_no_child_behind() -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    host.probe(lambda: Outcome("capture tool", True, "x"))
    before = open_files()
    host.probe(lambda: Outcome("capture tool", True, "x"))
    assert open_files() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


# The capture tool


def test_a_missing_capture_tool_is_said_to_be_missing(
    here: host.Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = importlib.import_module("stallscope.record.tool")

    def absent() -> Path:
        raise StallscopeError("the capture tool is not installed")

    monkeypatch.setattr(tool, "capture_folder", absent)
    outcome = host.run_capture_tool()
    assert not outcome.works
    result = doctor(dataclasses.replace(here, capture=(outcome, *here.capture[1:])))
    assert row(result, "capture tool").status == "missing"
    assert "make build" in row(result, "capture tool").fix
    monkeypatch.setattr(tool, "capture_folder", lambda: tmp_path)
    assert "is missing" in host.run_capture_tool().detail


def test_a_capture_tool_that_fails_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = importlib.import_module("stallscope.record.tool")
    monkeypatch.setattr(tool, "capture_folder", lambda: tmp_path)
    (tmp_path / "launch").write_text("#!/bin/sh\necho no luck >&2\nexit 7\n")
    (tmp_path / "launch").chmod(0o755)
    outcome = host.run_capture_tool()
    assert not outcome.works
    assert outcome.detail.endswith("ended with status 7: no luck")


def test_the_packaged_capture_tool_runs() -> None:
    outcome = host.run_capture_tool()
    if "not installed" in outcome.detail:
        pytest.skip(outcome.detail)
    assert outcome.works, outcome.detail


# Explanations


def refusal(here: host.Host, error: str, **changes: object) -> Check:
    counters = (Outcome("cycles", False, error=error),)
    return row(doctor(dataclasses.replace(told(here, **changes), counters=counters)), "cycles")


def test_a_paranoid_kernel_gives_value_needed_value_and_command(here: host.Host) -> None:
    check = refusal(here, "EACCES", perf_event_paranoid=3)
    assert "EACCES" in check.why
    assert "perf_event_paranoid is 3; 2 or lower is needed" in check.why
    assert check.fix == "sudo sysctl kernel.perf_event_paranoid=2"


def test_a_filter_in_a_container_is_blamed_when_the_setting_is_not(here: host.Host) -> None:
    check = refusal(here, "EPERM", perf_event_paranoid=1, seccomp=True, container="Docker")
    assert "seccomp filter of Docker" in check.why
    assert "--cap-add PERFMON" in check.fix


def test_hidden_counters_are_explained_by_the_kind_of_machine(here: host.Host) -> None:
    counters = (Outcome("cycles", False, error="ENOENT"),)
    for virtual, word in ((True, "virtual machine"), (False, "no driver")):
        machine = dataclasses.replace(here.machine, virtual=virtual)
        other = dataclasses.replace(here, counters=counters, machine=machine)
        check = row(doctor(other), "cycles")
        assert check.status == "missing"
        assert word in check.why
        assert "ENOENT" in check.why


@pytest.mark.parametrize(
    ("value", "status"), [(-1, "works"), (1, "works"), (2, "limited"), (4, "missing")]
)
def test_the_paranoid_level_is_judged_for_an_ordinary_user(
    here: host.Host, value: int, status: str
) -> None:
    check = row(doctor(told(here, perf_event_paranoid=value)), "perf_event_paranoid")
    assert check.status == status
    privileged = told(here, perf_event_paranoid=value, capabilities=("CAP_PERFMON",))
    assert row(doctor(privileged), "perf_event_paranoid").status == "works"


def test_yama_limits_attaching(here: host.Host) -> None:
    assert row(doctor(told(here, ptrace_scope=None)), "attaching").status == "works"
    check = row(doctor(told(here, ptrace_scope=1)), "attaching")
    assert check.status == "limited"
    assert check.fix == "sudo sysctl kernel.yama.ptrace_scope=0"


@pytest.mark.parametrize(("mib", "status"), [(20, "missing"), (64, "limited"), (1024, "works")])
def test_little_shared_memory_is_noticed(here: host.Host, mib: int, status: str) -> None:
    other = dataclasses.replace(told(here, container="Docker"), shared_memory_free=mib << 20)
    check = row(doctor(other), "shared memory")
    assert check.status == status
    assert ("--shm-size" in check.fix) == (status != "works")


def test_the_size_of_a_ring_is_the_one_that_is_declared() -> None:
    spec = importlib.util.spec_from_file_location("ring", ROOT / "schemas" / "ring.py")
    assert spec is not None
    assert spec.loader is not None
    ring = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ring)
    size = ring.HEADER_BYTES + 8 * (ring.BUFFERS * ring.BUFFER_WORDS + ring.COUNTERS)
    assert (analysis.RING_MIB - 1) << 20 < size <= analysis.RING_MIB << 20


# Views


def test_markup_and_escapes_in_data_stay_text(here: host.Host) -> None:
    nasty = "[/bold] [red]x[/red] \x1b[31m \u202e"
    machine = dataclasses.replace(here.machine, model=nasty, product="[link=x]y")
    text = rendered(doctor(dataclasses.replace(here, machine=machine)))
    assert "[/bold] [red]x[/red]" in text
    assert "[link=x]y" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_table_names_every_check_and_is_plain_in_a_pipe(here: host.Host) -> None:
    result = doctor(here)
    text = rendered(result)
    assert all(r.name in text and r.status in text for r in result.rows)
    assert "\x1b" not in text
    assert "\x1b[" in rendered(result, force_terminal=True)


def test_json_has_the_schema_the_rows_and_the_machine() -> None:
    run = CliRunner().invoke(command, ["--json"], catch_exceptions=False)
    assert run.exit_code == 0
    document = json.loads(run.stdout)
    assert document["schema"] == "stallscope.doctor/1"
    fields = {"name", "group", "status", "detail", "why", "fix"}
    assert all(set(r) == fields for r in document["rows"])
    assert document["machine"]["cpus"] == len(os.sched_getaffinity(0))


def test_the_table_is_printed_and_the_status_is_zero() -> None:
    run = CliRunner().invoke(command, [], catch_exceptions=False)
    assert run.exit_code == 0
    assert "clock sampling" in run.stdout


def test_an_ordinary_user_gets_a_full_answer(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become somebody else")
    # The folder of the sources may be closed to others: hand them a copy.
    copy = tmp_path / "stallscope"
    package = Path(host.__file__).parents[1]
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and "pytest" in str(folder):
            folder.chmod(0o755)
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]);"
        "from stallscope.record.host import probe;"
        "from stallscope.record.perf_probe import Outcome;"
        "from stallscope.analyses.doctor import doctor;"
        "r = doctor(probe(lambda: Outcome('capture tool', True, 'x')));"
        "print(json.dumps([[c.name, c.status, c.why, c.fix] for c in r.rows]))"
    )
    python = Path(sys.executable).resolve()
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    run = subprocess.run(
        [*become, python, "-S", "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"},
    )
    if run.returncode == 126 or "Permission denied" in run.stderr:
        pytest.skip("the interpreter itself is closed to others")
    assert run.returncode == 0, run.stderr
    rows = {name: (status, why, fix) for name, status, why, fix in json.loads(run.stdout)}
    assert rows["capabilities"][0] == "works"
    paranoid = host.settings().perf_event_paranoid
    if paranoid is not None and paranoid >= 2:
        assert rows["uprobes"][0] == "missing"
        assert "sysctl kernel.perf_event_paranoid" in rows["perf_event_paranoid"][2]


# Units that sample loads, by folders laid out as the kernel's


def devices(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")
    return folder


def test_loads_of_newer_intel_processors_are_opened_behind_their_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[perf_probe.Attributes, perf_probe.Attributes | None]] = []

    def count(attributes: perf_probe.Attributes, work: object, leader: Any = None) -> int:
        asked.append((attributes, leader))
        return 7

    monkeypatch.setattr(perf_probe, "_count", count)
    loads = {"cpu/type": "4", "cpu/events/mem-loads": "event=0xcd,umask=0x1,ldlat=3"}
    monkeypatch.setattr(perf_probe, "_DEVICES", devices(tmp_path, loads))
    assert perf_probe.precise_loads().works
    ((attributes, leader),) = asked
    assert (attributes.config, attributes.config1, leader) == (0x1CD, 3, None)
    devices(tmp_path, {"cpu/events/mem-loads-aux": "event=0x03,umask=0x82"})
    assert perf_probe.precise_loads().works
    attributes, leader = asked[-1]
    assert leader is not None
    assert (leader.type, leader.config, leader.sample_period) == (4, 0x8203, 0)


def test_a_unit_of_arm_that_does_not_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_probe, "_DEVICES", devices(tmp_path, {"arm_spe_0/type": "9999"}))
    outcome = perf_probe.precise_loads()
    assert not outcome.works
    assert outcome.error in ("ENOENT", "EACCES", "EPERM", "EINVAL", "ENOSYS")
