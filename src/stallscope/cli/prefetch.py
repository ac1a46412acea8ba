# SPDX-License-Identifier: Apache-2.0
"""stallscope prefetch"""

from __future__ import annotations

from collections.abc import Callable
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
    result = predict(view, limits, pace=pace, threads=threads, hardware=not no_hardware)
    show("prefetch-predict", result, show_prediction, as_json, as_csv, limit, plot=None)
