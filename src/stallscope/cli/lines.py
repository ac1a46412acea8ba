# SPDX-License-Identifier: Apache-2.0
"""stallscope lines"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.machine_options import machine_options, show, view_of
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("lines")
@recording_argument
@machine_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None, as_json: bool, as_csv: bool, limit: int | None, **options: Any
) -> None:
    """Which lines miss the caches, ordered by the time they cost."""
    from stallscope.analyses.objects import places
    from stallscope.views.terminal.objects import show_places

    result = places(view_of(recording, **options), by_line=True)
    show("lines", result, show_places, as_json, as_csv, limit)
