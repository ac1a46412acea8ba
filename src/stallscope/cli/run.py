# SPDX-License-Identifier: Apache-2.0
"""stallscope run"""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--logs",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Where its allocation log goes [a private folder in memory].",
)
@click.argument("command", nargs=-1, required=True, metavar="PROGRAM [ARGS]...")
def command(logs: Path | None, command: tuple[str, ...]) -> None:
    """Become a program that logs its allocations, and record nothing.

    Who looks at the process while it runs (record -p, top -p, the agent) then has names for its
    heap blocks.
    """
    from stallscope.record import heap_log
    from stallscope.record.life import environment
    from stallscope.record.preflight import preflight

    target = preflight(list(command), native=True)
    given = {os.fsdecode(name): os.fsdecode(value) for name, value in environment().items()}
    if target.is_static:
        click.echo(f"stallscope: {target.program} is static: it runs without a log", err=True)
    else:
        given = heap_log.environment(logs or heap_log.home(), given)
    os.execve(target.argv[0], list(target.argv), given)
