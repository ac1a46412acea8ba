# SPDX-License-Identifier: Apache-2.0
"""The man page and the shells' completions, from what the verbs say of themselves. The build writes
them into the package (cmake/manual.py), so they need nothing but click and the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from stallscope import __version__
from stallscope.cli.main import QUESTIONS, cli
from stallscope.errors import StallscopeError

VARIABLE = "_STALLSCOPE_COMPLETE"
SHELLS = {
    "bash": "share/bash-completion/completions/stallscope",
    "zsh": "share/zsh/site-functions/_stallscope",
    "fish": "share/fish/vendor_completions.d/stallscope.fish",
}
MAN = "share/man/man1/stallscope.1"


def completion(shell: str) -> str:
    """A script that the shell reads; it asks the command itself what fits."""
    known = get_completion_class(shell) if shell in SHELLS else None
    if known is None:
        raise StallscopeError(
            f"there are no completions for {shell}", f"there are: {', '.join(SHELLS)}, man"
        )
    made = known(cli, {}, "stallscope", VARIABLE)
    return made.source_template % made.source_vars()


def man_page() -> str:
    lines = [
        f'.TH STALLSCOPE 1 "" "stallscope {__version__}" "User Commands"',
        ".SH NAME",
        "stallscope \\- where programs lose time in the memory system",
        ".SH SYNOPSIS",
        ".B stallscope",
        "VERB [options] [\\-\\-] PROGRAM ARGS",
        ".br",
        ".B stallscope",
        "VERB [options] RECORDING",
        ".SH DESCRIPTION",
        *_text(cli.help or ""),
        ".PP",
        "RECORDING left out means the newest in the current folder.",
    ]
    context = click.Context(cli, info_name="stallscope")
    for question, verbs in QUESTIONS.items():
        lines.append(f".SH {_escaped(question.upper())}")
        for verb in verbs:
            command = cli.get_command(context, verb)
            assert command is not None
            lines += _verb(command, click.Context(command, context, info_name=verb), verb)
    lines += [
        ".SH EXIT STATUS",
        "That of the program for record (128+n for a signal); 0 for done; 1 for done, and the gate "
        "failed; 2 for a wrong option or input; 125 for a failure of stallscope itself.",
    ]
    return "\n".join(lines) + "\n"


def _verb(command: click.Command, context: click.Context, name: str) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_escaped(name)} {_escaped(usage)}"
    yield from _text(command.help or "")
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield ".TP"
            yield f".B {_escaped(record[0])}"
            yield _escaped(record[1]) or "\\&"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                below = click.Context(found, context, info_name=inner)
                yield from _verb(found, below, f"{name} {inner}")


def _text(text: str) -> Iterator[str]:
    """Paragraphs."""
    for number, part in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield _escaped(" ".join(part.replace("\b", "").split()))


def _escaped(text: str) -> str:
    shown = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{shown}" if shown.startswith((".", "'")) else shown


def write_all(folder: Path) -> None:
    """Where a prefix has them."""
    files = {MAN: man_page(), **{SHELLS[shell]: completion(shell) for shell in SHELLS}}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
