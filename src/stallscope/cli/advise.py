# SPDX-License-Identifier: Apache-2.0
"""stallscope advise"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.machine_options import naming_options, show
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("advise")
@recording_argument
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only changes of this kind.")
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@naming_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None, as_json: bool, as_csv: bool, limit: int | None, **options: Any
) -> None:
    """What to change, by the cycles that it would save.

    Each change is replayed: the trace runs once more with data where the change puts it. What
    does not save a hundredth of the cycles is not advised."""
    from stallscope.advising import advise
    from stallscope.views.terminal.advise import show_advise

    show("advise", advise(recording, **options), show_advise, as_json, as_csv, limit)
