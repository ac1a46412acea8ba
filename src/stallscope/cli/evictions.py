# SPDX-License-Identifier: Apache-2.0
"""stallscope evictions"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import machine_options, region_option, show, view_of
from stallscope.cli.options import (
    csv_option,
    json_option,
    limit_option,
    plot_option,
    recording_argument,
)


@click.command("evictions")
@recording_argument
@click.option("--level", metavar="NAME", help="Only this level.")
@click.option("--by-line", is_flag=True, help="Also at which line of code.")
@region_option
@machine_options
@json_option
@csv_option
@limit_option
@plot_option
def command(
    recording: str | None,
    level: str | None,
    by_line: bool,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """Which objects throw which out of the caches."""
    from stallscope.analyses.evictions import evictions
    from stallscope.views.terminal.objects import show_evictions

    view = view_of(recording, evictions=True, **options)
    result = evictions(view, level=level, by_line=by_line)
    show("evictions", result, show_evictions, as_json, as_csv, limit, plot)
