# SPDX-License-Identifier: Apache-2.0
"""stallscope regions"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import machine_options, show, view_of
from stallscope.cli.options import (
    csv_option,
    json_option,
    limit_option,
    plot_option,
    recording_argument,
)


@click.command("regions")
@recording_argument
@machine_options
@json_option
@csv_option
@limit_option
@plot_option
def command(
    recording: str | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """The regions that the program marks in itself, with all that is inside each."""
    from stallscope.analyses.regions import regions
    from stallscope.views.terminal.regions import show_regions

    result = regions(view_of(recording, **options))
    show("regions", result, show_regions, as_json, as_csv, limit, plot)
