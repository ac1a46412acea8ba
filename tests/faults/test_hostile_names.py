# SPDX-License-Identifier: Apache-2.0
"""Names that would steer a terminal, a markup language or a page stay text."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Made, Ran, Recorder

HOSTILE = {
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "markup": "[/bold][link=x]",
    "newline": "one\ntwo\r\tthree",
    "direction": "abc\u202edef\u2066ghi\u200f",
    "page": "</script><script>alert(1)</script>",
    "format": "%s%n{0}{{}}",
    "nothing": "",
    "quotes": 'it\'s "so" `id` $(id) \\',
}
# What a terminal obeys, or what turns text around.
FORBIDDEN = "\x1b\x07\r\t\u202e\u2066\u200f"

NAMED_THREAD = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
static void* work(void* name) {
  prctl(PR_SET_NAME, name);
  return NULL;
}
int main(int argc, char** argv) {
  (void)argc;
  pthread_t thread;
  pthread_create(&thread, NULL, work, argv[1]);
  pthread_join(thread, NULL);
  return 0;
}
"""


def check_text(shown: str) -> None:
    assert not set(FORBIDDEN) & set(shown)


def shown_by(verb: str, made: Made, stallscope: Callable[..., Ran], *options: str) -> str:
    ran = stallscope(verb, made.path, *options, env={**os.environ, "COLUMNS": "1000"})
    assert ran.status == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    check_text(ran.stderr.replace("\n", ""))
    return ran.stdout


@pytest.mark.parametrize("kind", HOSTILE)
def test_arguments_stay_text(
    kind: str, record: Recorder, stallscope: Callable[..., Ran], program: Callable[..., Path]
) -> None:
    text = HOSTILE[kind]
    made = record(program("exit_code"), "0", text)
    assert made.info.command[2] == text
    shown = shown_by("info", made, stallscope)
    check_text(shown)
    [line] = [line for line in shown.splitlines() if line.startswith("command")]
    if text.isprintable() and "'" not in text:
        assert text in line
    document = json.loads(shown_by("info", made, stallscope, "--json"))
    assert document["command"][2] == text


@pytest.fixture(scope="module")
def named_thread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    (folder / "named.c").write_text(NAMED_THREAD)
    words = ["cc", "-O1", folder / "named.c", "-o", folder / "named", "-pthread"]
    subprocess.run(words, check=True)
    return folder / "named"


@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if kind != "nothing"])
def test_thread_names_stay_text(
    kind: str, record: Recorder, stallscope: Callable[..., Ran], named_thread: Path
) -> None:
    cut = HOSTILE[kind].encode()[:15]
    made = record(named_thread, cut)
    assert made.rows("thread")[1]["name"] == cut.decode(errors="backslashreplace")
    check_text(shown_by("info", made, stallscope))


def test_a_thread_name_that_is_no_text_is_shown_escaped(
    record: Recorder, stallscope: Callable[..., Ran], named_thread: Path
) -> None:
    made = record(named_thread, b"\xff\xfe\x80name")
    assert made.rows("thread")[1]["name"] == r"\xff\xfe\x80name"
    assert r"\xff\xfe\x80name" in shown_by("info", made, stallscope)


def test_arguments_that_are_no_text_reach_the_target_and_the_recording(
    record: Recorder, stallscope: Callable[..., Ran], program: Callable[..., Path]
) -> None:
    made = record("/bin/sh", "-c", '"$@"; exit', "sh", program("environment"), b"\xff\xfe argument")
    assert b"argv[1]=\xff\xfe argument\n" in made.ran.out
    assert [row.command[-1] for row in made.info.processes] == [r"\xff\xfe argument"] * 3
    check_text(shown_by("info", made, stallscope))
    json.loads(shown_by("info", made, stallscope, "--json"))


@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if kind not in ("nothing", "page")])
def test_a_program_of_any_name_is_recorded_and_named_as_text(
    kind: str,
    record: Recorder,
    stallscope: Callable[..., Ran],
    program: Callable[..., Path],
    tmp_path: Path,
) -> None:
    place = tmp_path / HOSTILE[kind].replace("/", "_")
    shutil.copy(program("exit_code"), place)
    made = record(place, "3")
    assert made.status == 3
    assert str(place) in [row["path"] for row in made.rows("module")]
    check_text(shown_by("info", made, stallscope))
    check_text(shown_by("info", made, stallscope, "--csv"))


def test_errors_about_odd_names_stay_text(stallscope: Callable[..., Ran]) -> None:
    for text in HOSTILE.values():
        if not text:
            continue
        for words in (["info", text], ["record", "-o", "/dev/null/x", text], [text]):
            ran = stallscope(*words)
            assert ran.status in (2, 125, 127)
            check_text(ran.stderr)
            assert "Traceback" not in ran.stderr


def test_the_words_after_a_recording_name_its_folder_as_text(
    stallscope: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = stallscope("record", "-o", tmp_path / HOSTILE["escape"], "/bin/true")
    assert ran.status == 0
    check_text(ran.stderr)
