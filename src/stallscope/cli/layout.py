# SPDX-License-Identifier: Apache-2.0
"""stallscope layout"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import machine_options, show, view_of
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("layout")
@recording_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a policy here.")
@click.option(
    "--predict",
    is_flag=True,
    help="Replay with the blocks moved, and show misses before and after.",
)
@click.option(
    "--confirm", is_flag=True, help="Run the program again with its blocks placed, and compare."
)
@click.option("--policy", type=click.Path(path_type=Path), help="Predict this policy instead.")
@click.option(
    "--runs",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Native runs of each kind to confirm; 0 for none.",
)
@machine_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None,
    output: Path | None,
    predict: bool,
    confirm: bool,
    policy: Path | None,
    runs: int,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """Where heap blocks should lie so that they evict each other less.

    With -o, what is found becomes a policy, by which the near allocator places the blocks of a
    program that is started with it. --predict tells beforehand what it will do, --confirm whether
    it does."""
    from stallscope.actions import layout as action
    from stallscope.views.terminal.layout import show_layout

    view = view_of(recording, evictions=True, **options)
    result = action.layout(view, predict=predict, confirm=confirm, policy=policy, runs=runs)
    show("layout", result, show_layout, as_json, as_csv, limit)
    if output is None:
        return
    action.write(action.policy_of(result), output)
    words = " ".join(f"{name}={value}" for name, value in action.environment(output).items())
    click.echo(f"stallscope: {len(result.rows)} sites in {output}", err=True)
    click.echo(f"  next: {words} PROGRAM", err=True)
