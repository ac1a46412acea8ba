# SPDX-License-Identifier: Apache-2.0
"""Runs a recorded command again, as it was and with its heap blocks placed by a policy, to see
whether what was predicted comes true: once recorded, and natively in turns.

Its outputs are thrown away, and it reads an empty input; what else it does, it does again."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stallscope.actions.layout import environment, write
from stallscope.analyses.layout import Layout, Native, confirmed
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.analyses.objects import MissView
    from stallscope.recording import Recording

_RECORD = "from stallscope.cli.main import main; main()"


def confirm(made: Layout, view: MissView, text: str, runs: int) -> Layout:
    """A prediction with misses of a recording made under the policy, and times of native runs."""
    recording = view.replay.images[0]
    if recording.parent is not None or len(view.replay.images) != 1 + len(recording.children):
        raise StallscopeError(
            "only a whole recording can be run again", now="leave --process out of --confirm"
        )
    if not Path(recording.meta.folder).is_dir():
        raise StallscopeError(
            f"{recording.path.name} cannot be run again",
            f"it was run in {recording.meta.folder}, which is gone",
        )
    with tempfile.TemporaryDirectory(prefix="stallscope-layout-") as folder:
        file = Path(folder) / "policy"
        write(text, file)
        placed = environment(file)
        again = _recorded(view, recording, placed, Path(folder))
        native = _native(recording, placed, runs) if runs else None
        return confirmed(made, again, native)


def _recorded(
    view: MissView, recording: Recording, placed: Mapping[str, str], folder: Path
) -> MissView:
    """Its tables are gone when the folder is."""
    from stallscope import machines, processes, results
    from stallscope.analyses.objects import MissView
    from stallscope.recording import open_recording

    result, again = view.replay.result, folder / "again.stallscope"
    machine = machines.from_engine(result.machine, result.machine_name)
    (folder / "machine.toml").write_text(machine.to_toml(), encoding="utf-8")
    words = ["record", "-q", "-o", again, "--machine", folder / "machine.toml", "--"]
    command = [sys.executable, "-c", _RECORD, *map(str, words)]
    _run(recording, command, placed)
    _check_same(recording, open_recording(again))
    replay = processes.replay(open_recording(again), machine, result.machine_name, results.Probe())
    return MissView(replay, view.depth, view.wrappers)


def _check_same(before: Recording, again: Recording) -> None:
    """A policy belongs to one build of a program; another one is not placed, and says nothing."""
    builds = [
        {row["path"]: row["build_id"] for row in recording.table("module").to_pylist()}
        for recording in (before, again)
    ]
    for path, build in builds[0].items():
        if build and builds[1].get(path, build) != build:
            raise StallscopeError(
                f"{path} has changed since it was recorded",
                f"its build id was {build} and is {builds[1][path]} now",
                "record the program again",
            )


def _native(recording: Recording, placed: Mapping[str, str], runs: int) -> Native:
    plain_seconds, placed_seconds = [], []
    for _ in range(runs):
        plain_seconds.append(_run(recording, [], {}))
        placed_seconds.append(_run(recording, [], placed))
    pairs = zip(placed_seconds, plain_seconds, strict=True)
    ratios = sorted(mine / max(base, 1e-6) for mine, base in pairs)
    return Native(
        runs,
        statistics.median(plain_seconds),
        statistics.median(placed_seconds),
        statistics.median(ratios),
        ratios[len(ratios) // 4],
        ratios[-1 - len(ratios) // 4],
    )


def _run(recording: Recording, prefix: list[str], added: Mapping[str, str]) -> float:
    """Seconds of the processor that the recorded command took, which must end as it did then."""
    command = [*prefix, *recording.meta.command]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=recording.meta.folder,
            env={**os.environ, **added},
        )
    except OSError as error:
        raise StallscopeError(f"cannot run {command[0]} again", error.strerror or "") from error
    with process:
        assert process.stderr is not None
        said = process.stderr.read().decode(errors="replace").strip()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    meant = -recording.meta.signal if recording.meta.signal else recording.meta.exit_code
    shell = 128 - meant if prefix and meant is not None and meant < 0 else meant
    if process.returncode != shell:
        raise StallscopeError(
            f"{recording.meta.command[0]} did not end as it did when it was recorded",
            f"status {process.returncode}, not {shell}; it said: {said[-200:] or 'nothing'}",
        )
    return used.ru_utime + used.ru_stime
