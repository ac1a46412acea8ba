# SPDX-License-Identifier: Apache-2.0
"""stallscope demo"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

import click

PROGRAM = "list"


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="demo.stallscope",
    show_default=True,
    help="Folder to make.",
)
def command(output: str) -> None:
    """Record a bundled program and show what was found.

    The program is a linked list whose nodes were shuffled in memory.
    """
    from rich.console import Console
    from rich.text import Text

    from stallscope import workloads
    from stallscope.analyses.accesses import accesses
    from stallscope.analyses.info import info
    from stallscope.record import record
    from stallscope.views.terminal import accesses as accesses_view
    from stallscope.views.terminal import info as info_view

    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="stallscope-demo-") as folder:
        program = workloads.build(PROGRAM, Path(folder))
        arguments = workloads.truth(PROGRAM).command_arguments("default")
        shown = shlex.join([PROGRAM, *arguments])
        console.print(Text(f"$ stallscope record --trace -o {output} -- {shown}", style="bold"))
        recorded = record([str(program), *arguments], output=output, force=True, trace=True)
    console.print(Text(f"\n$ stallscope info {output}", style="bold"))
    info_view.show(info(recorded.recording), console, 10)
    console.print()
    accesses_view.show(accesses(recorded.recording), console, 5)
    console.print(Text(f"\nThe recording is {recorded.recording.path}"))
    console.print(Text("next: stallscope record -- YOUR PROGRAM"))
