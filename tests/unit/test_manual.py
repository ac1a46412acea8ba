# SPDX-License-Identifier: Apache-2.0
"""The man page and the completions know every verb, and their readers accept them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stallscope.cli import manual
from stallscope.cli.main import QUESTIONS
from stallscope.errors import StallscopeError

STALLSCOPE = Path(sys.executable).with_name("stallscope")


def test_the_man_page_has_every_verb_and_no_complaints() -> None:
    page = manual.man_page()
    for verbs in QUESTIONS.values():
        for verb in verbs:
            assert f"\n.SS {verb} " in page
    if shutil.which("groff"):
        ran = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True
        )
        assert ran.returncode == 0
        assert "error" not in ran.stderr


@pytest.mark.parametrize("shell", list(manual.SHELLS))
def test_completions_are_scripts_of_their_shell(shell: str) -> None:
    script = manual.completion(shell)
    assert "stallscope" in script
    if shutil.which(shell):
        flags = ["--no-execute"] if shell == "fish" else ["-n"]
        subprocess.run([shell, *flags], input=script, text=True, check=True)


def test_the_command_completes_its_verbs() -> None:
    passed = {
        **os.environ,
        "_STALLSCOPE_COMPLETE": "bash_complete",
        "COMP_WORDS": "stallscope obj",
        "COMP_CWORD": "1",
    }
    ran = subprocess.run([STALLSCOPE], env=passed, capture_output=True, text=True)
    assert ran.stdout.strip() == "plain,objects"


def test_an_unknown_shell_gets_one_sentence() -> None:
    with pytest.raises(StallscopeError, match="no completions for tcsh"):
        manual.completion("tcsh")


def test_all_of_it_is_installed_with_the_package() -> None:
    prefix = Path(sys.prefix)
    page = (prefix / manual.MAN).read_text()
    assert all(f"\n.SS {verb} " in page for verbs in QUESTIONS.values() for verb in verbs)
    for shell, path in manual.SHELLS.items():
        assert (prefix / path).read_text() == manual.completion(shell)
