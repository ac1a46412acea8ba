# SPDX-License-Identifier: Apache-2.0
"""stallscope explore"""

from __future__ import annotations

import sys

import click

from stallscope.cli.options import recording_argument
from stallscope.errors import StallscopeError


@click.command("explore")
@recording_argument
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@click.option("--process", metavar="PID|all", help="Of this process [all].")
def command(recording: str | None, machine: str | None, process: str | None) -> None:
    """Walk from objects to functions to lines to source and back, in the terminal, also over ssh.

    \b
    o f l      all objects, functions, lines      s  sort by the next column
    Enter      into the row                       /  filter
    Backspace  back                               y  copy the row's name
    q          quit
    """
    from stallscope.exploring import explore
    from stallscope.views.terminal.explore import Explorer

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise StallscopeError(
            "explore needs a terminal",
            "its input or output is a file or a pipe",
            "stallscope objects --json, or stallscope report",
        )
    Explorer(explore(recording, machine=machine, process=process)).run()
