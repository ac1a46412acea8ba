# SPDX-License-Identifier: Apache-2.0
"""Time that a program has had, whoever else wanted the processor."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stallscope.actions.running import PATIENCE, Run
from stallscope.actions.trial import Ended


@contextmanager
def _accompanied(*command: str) -> Iterator[Run]:
    """Signals are blocked as when a program is launched."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    process = subprocess.Popen(command)
    run = Run(process.pid, cast(Any, SimpleNamespace()), time.monotonic())
    try:
        yield run
    finally:
        if run.status is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        process.returncode = 0
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_program_that_runs_gets_what_it_is_given() -> None:
    with _accompanied("sh", "-c", "while :; do :; done") as run:
        before = run.watched.used()
        run.let_run(0.05)
        assert run.watched.used() - before >= 0.05


def test_a_program_that_wants_nothing_is_not_waited_for_in_vain() -> None:
    with _accompanied("sleep", "60") as run:
        began = time.monotonic()
        run.let_run(0.01)
        assert time.monotonic() - began >= PATIENCE * 0.01
        assert run.status is None


def test_a_program_that_ends_meanwhile_is_told() -> None:
    with _accompanied("sh", "-c", ":") as run, pytest.raises(Ended):
        run.let_run(60)
