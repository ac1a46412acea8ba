# SPDX-License-Identifier: Apache-2.0
"""stallscope slices"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.load_options import limit_options, limits_of, load_view
from stallscope.cli.machine_options import machine_options, show
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("slices")
@recording_argument
@click.option("--c", "as_c", is_flag=True, help="As C, where that is possible.")
@limit_options
@machine_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None,
    as_c: bool,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """Of delinquent loads, just the code that computes their addresses.

    The recording must have a trace: it tells which stores feed which loads.
    """
    from functools import partial

    from stallscope.ahead import slices
    from stallscope.views.terminal.slices import show_slices

    limits, options = limits_of(options)
    result = slices(load_view(recording, options), limits)
    show("slices", result, partial(show_slices, as_c=as_c), as_json, as_csv, limit, plot=None)
