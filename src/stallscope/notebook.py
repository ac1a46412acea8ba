# SPDX-License-Identifier: Apache-2.0
"""In Jupyter: `%load_ext stallscope`, then `%%stallscope` above a cell with a program, and
`%stallscope VERB` to ask something of the newest recording."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import stallscope
from stallscope.errors import StallscopeError

# Verbs that need no more than a recording, and what each asks: a view of misses, or the recording.
OF_VIEWS = ("evictions", "functions", "lines", "loads", "misses", "objects", "offsets", "regions")
OF_RECORDINGS = ("advise", "info", "layout", "loops", "pages", "place", "sharing", "stalls")
LANGUAGES = ("python", "c")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise StallscopeError(f"%stallscope: {message}", now="%stallscope VERB [RECORDING]")


def load_ipython_extension(shell: Any) -> None:
    shell.register_magic_function(line, "line", "stallscope")
    shell.register_magic_function(cell, "cell", "stallscope")


def line(text: str) -> Any:
    """%stallscope VERB [RECORDING] [--machine NAME]: the result, which shows itself as a table."""
    parser = _Parser(prog="%stallscope", add_help=False)
    parser.add_argument("verb")
    parser.add_argument("recording", nargs="?")
    parser.add_argument("--machine")
    given = parser.parse_args(shlex.split(text))
    return ask(given.verb, given.recording, given.machine)


def ask(verb: str, recording: str | None, machine: str | None) -> Any:
    if verb in OF_VIEWS:
        needs: dict[str, Any] = {"evictions": verb == "evictions", "offsets": verb == "offsets"}
        seen = stallscope.view(recording, machine=machine, **needs)
        return getattr(stallscope, verb)(seen)
    if verb not in OF_RECORDINGS:
        raise StallscopeError(
            f"%stallscope {verb}: there is no such verb here",
            f"there is: {', '.join(sorted((*OF_VIEWS, *OF_RECORDINGS)))}",
        )
    words: dict[str, Any] = {} if machine is None else {"machine": machine}
    if verb == "info":
        return stallscope.info(stallscope.open(recording))
    if verb == "layout":
        return stallscope.layout(stallscope.view(recording, evictions=True, **words))  # type: ignore[arg-type]
    if verb == "stalls":
        return stallscope.stalls(stallscope.core_view(recording, **words))
    if verb == "pages":
        return stallscope.pages(stallscope.page_view(recording, **words))
    return getattr(stallscope, verb)(recording, **words)


def cell(text: str, program: str) -> Any:
    """%%stallscope [--language c] [--machine NAME] [--trace] [-o RECORDING] [ARGUMENTS]: runs the
    cell as a program of its own and records it; the objects that miss are shown."""
    parser = _Parser(prog="%%stallscope", add_help=False)
    parser.add_argument("--language", choices=LANGUAGES, default="python")
    parser.add_argument("--source", default="valgrind")
    parser.add_argument("--machine")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("-o", "--output", default="cell.stallscope")
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args(shlex.split(text))
    options: dict[str, Any] = {"output": given.output, "force": True, "source": given.source}
    if given.machine:
        options["machine"] = given.machine
    if given.trace:
        options["trace"] = True
    with tempfile.TemporaryDirectory(prefix="stallscope-cell-") as folder:
        command = [*_built(program, given.language, Path(folder)), *given.arguments]
        recorded = stallscope.record(command, **options)
        # Types are read from the program's file, which is there only now.
        result = stallscope.objects(stallscope.view(recorded.recording))
    for warning in recorded.warnings:
        print(warning, file=sys.stderr)
    if recorded.exit_status:
        print(f"the program ended with status {recorded.exit_status}", file=sys.stderr)
    return result


def _built(program: str, language: str, folder: Path) -> list[str]:
    if language == "python":
        path = folder / "cell.py"
        path.write_text(program, encoding="utf-8")
        return [sys.executable, str(path)]
    path = folder / "cell.c"
    path.write_text(program, encoding="utf-8")
    words = ["cc", "-g", "-O2", str(path), "-o", str(folder / "cell"), "-lm", "-pthread"]
    try:
        made = subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        raise StallscopeError("there is no C compiler", str(error.strerror)) from error
    if made.returncode:
        first = re.sub(re.escape(str(folder)) + "/", "", made.stderr).strip().splitlines()
        raise StallscopeError("the cell does not compile", first[0] if first else "")
    return [str(folder / "cell")]
