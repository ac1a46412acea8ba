# SPDX-License-Identifier: Apache-2.0
"""stallscope place"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


def cores_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How threads are replayed on several cores, and their misses sampled."""
    options = (
        click.option(
            "--machine",
            default="power5-2x2x2",
            show_default=True,
            metavar="NAME|FILE",
            help="With several cores.",
        ),
        click.option("--process", metavar="PID", help="Of this process [the most threads]."),
        click.option(
            "--period",
            type=click.IntRange(0),
            default=10,
            show_default=True,
            metavar="N",
            help="Sample one in N remote misses; 0: one in a thousand instructions.",
        ),
        click.option("--seed", type=int, default=1, show_default=True, help="Of all chance."),
        click.option(
            "--grain",
            type=click.IntRange(0),
            default=10,
            show_default=True,
            metavar="BLOCKS",
            help="Threads that may run together alternate after so many; 0: as recorded.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def apply_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--undo", type=int, metavar="PID", help="Give its threads back what they had before."
        ),
        click.option(
            "--apply", type=int, metavar="PID", help="Set the affinity of a live process's threads."
        ),
    ):
        function = option(function)
    return function


def apply_placement(rows: Sequence[Any], pid: int) -> None:
    from stallscope.actions.place import apply
    from stallscope.placing import on_host

    here = os.sched_getaffinity(0)
    if any(row.processor not in here for row in rows):
        print(
            f"the simulated machine has other processors than this one, which has {len(here)}: "
            "its chips are spread over them",
            file=sys.stderr,
        )
        rows = on_host(rows, {})
    for line in apply(rows, pid):
        print(line, file=sys.stderr)


def undo_placement(pid: int, as_json: bool) -> None:
    from stallscope.actions.place import undo
    from stallscope.views import document

    restored = undo(pid)
    if as_json:
        document.print_json("place", {"pid": pid, "restored": restored})
    else:
        print(f"{restored} threads of process {pid} may run where they could before")


@click.command("place")
@recording_argument
@cores_options
@click.option(
    "--placement",
    metavar="THREAD=CPU,…",
    help="Predict this one instead; threads by name or number.",
)
@click.option("--pages", is_flag=True, help="Also move pages to the chips that use them.")
@click.option(
    "--host", is_flag=True, help="Spread over the processors of this machine, not the simulated."
)
@apply_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None,
    apply: int | None,
    undo: int | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """Where threads that share data should run: as taskset commands, OMP_PLACES, a cpuset, and what
    that would save."""
    if undo is not None:
        undo_placement(undo, as_json)
        return
    import msgspec

    from stallscope.placing import place
    from stallscope.views import document

    found = place(recording, **options)
    if apply is not None:
        apply_placement(found.rows, apply)
    if as_json:
        body = msgspec.to_builtins(found)
        document.print_json("place", body | {"rows": body["rows"][: limit or None]})
    elif as_csv:
        document.print_csv([msgspec.to_builtins(row) for row in found.rows[: limit or None]])
    else:
        from rich.console import Console

        from stallscope.views.terminal.sharing import show_placement

        show_placement(found, Console(highlight=False), 20 if limit is None else limit)
