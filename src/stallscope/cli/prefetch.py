# SPDX-License-Identifier: Apache-2.0
"""stallscope prefetch"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stallscope.cli.load_options import limit_options, limits_of, load_view
from stallscope.cli.machine_options import machine_options, show
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.group("prefetch")
def command() -> None:
    """Run ahead of the misses: predict what it brings, do it, or say how the source could."""


def pace_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--pause", type=int, help="Cycles that it waits when too far ahead [1000]."),
        click.option("--slack", type=int, help="Runs of the load it may be ahead [50]."),
        click.option("--chunk", type=int, help="Runs of the load between checks [256]."),
    ):
        function = option(function)
    return function


def pace_of(options: dict[str, Any]) -> Any:
    from stallscope.ahead import Pace

    given = {name: options.pop(name) for name in ("chunk", "slack", "pause")}
    return Pace(**{name: value for name, value in given.items() if value is not None})


@command.command("predict")
@recording_argument
@click.option(
    "--threads",
    type=click.Choice(["smt", "cores"]),
    default="cores",
    help="The assist thread is on the same core, or on one that shares the last cache [cores].",
)
@click.option("--every", is_flag=True, help="Use slices that do not pay as well.")
@click.option("--no-hardware", is_flag=True, help="Without the machine's own prefetchers.")
@pace_options
@limit_options
@machine_options
@json_option
@csv_option
@limit_option
def predict_command(
    recording: str | None,
    threads: str,
    every: bool,
    no_hardware: bool,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """What slices would bring, by replaying program and assist thread through shared caches."""
    from stallscope.ahead import predict
    from stallscope.views.terminal.prefetch import show_prediction

    pace = pace_of(options)
    limits, options = limits_of(options)
    view = load_view(recording, options)
    result = predict(
        view, limits, pace=pace, threads=threads, hardware=not no_hardware, every=every
    )
    show("prefetch-predict", result, show_prediction, as_json, as_csv, limit, plot=None)


@command.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report here.")
@click.option("-q", "--quiet", is_flag=True, help="No report on standard error.")
@click.option("--slack", type=int, help="Runs of a load an assist thread may be ahead [tuned].")
@click.option(
    "--delivery",
    type=click.Choice(["inline", "assist"]),
    multiple=True,
    help="Only this way to bring lines [both].",
)
@click.option("--always", is_flag=True, help="Keep what is tried, whether it pays or not.")
@click.option("--control", is_flag=True, help="The same code without its prefetches: its cost.")
@click.argument("command", nargs=-1, required=True)
def run_command(
    output: Path | None,
    quiet: bool,
    slack: int | None,
    delivery: tuple[str, ...],
    always: bool,
    control: bool,
    command: tuple[str, ...],
) -> int:
    """Run PROGRAM, and run ahead of its misses as long as that pays.

    The program's file, its outputs and its status stay its own. What was tried and what it brought
    goes to standard error, and with -o as JSON into a file.
    """
    from stallscope.actions.launch import launched
    from stallscope.errors import StallscopeError

    if slack is not None and slack < 0:
        raise StallscopeError(f"--slack {slack}: it must be at least 0")
    # The program runs while the rest of us is still being loaded.
    with launched(command) as started:
        from stallscope.actions.prefetch import accompany

        report = accompany(
            started, slack=slack, deliveries=delivery, always=always, control=control
        )
    if output is not None:
        from stallscope.views.document import json_text

        output.write_text(json_text("prefetch-run", report), encoding="utf-8")
    if not quiet:
        from rich.console import Console

        from stallscope.views.terminal.prefetch import show_report

        show_report(report, Console(stderr=True, highlight=False))
    return report.status


@command.command("advise")
@recording_argument
@click.option(
    "--patch", "as_patch", is_flag=True, help="Only the patch, for patch -p1 or git apply."
)
@limit_options
@machine_options
@json_option
@csv_option
@limit_option
def advise_command(
    recording: str | None,
    as_patch: bool,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """Where to write __builtin_prefetch, of what and how far ahead, as a patch of the source."""
    from stallscope.ahead import advise
    from stallscope.views.terminal.prefetch import show_advice

    limits, options = limits_of(options)
    result = advise(load_view(recording, options), limits)
    if as_patch:
        click.echo(result.patch, nl=False)
        return
    show("prefetch-advise", result, show_advice, as_json, as_csv, limit, plot=None)
