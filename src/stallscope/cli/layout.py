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
@machine_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None,
    output: Path | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """Where heap blocks should lie so that they evict each other less.

    With -o, what is found becomes a policy, by which the near allocator places the blocks of a
    program that is started with it."""
    from stallscope.actions.layout import environment, policy
    from stallscope.analyses.layout import layout
    from stallscope.errors import StallscopeError
    from stallscope.views.terminal.layout import show_layout

    result = layout(view_of(recording, evictions=True, **options))
    show("layout", result, show_layout, as_json, as_csv, limit)
    if output is None:
        return
    try:
        output.write_text(policy(result), encoding="utf-8")
    except OSError as error:
        raise StallscopeError(f"cannot write {output}", str(error.strerror)) from error
    words = " ".join(f"{name}={value}" for name, value in environment(output).items())
    click.echo(f"stallscope: {len(result.rows)} sites in {output}", err=True)
    click.echo(f"  next: {words} PROGRAM", err=True)
