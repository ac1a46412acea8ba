# SPDX-License-Identifier: Apache-2.0
"""stallscope loops"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.machine_options import show
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("loops")
@recording_argument
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@click.option("--process", metavar="PID", help="Of this process.")
@click.option("--mode", default="real", metavar="real|single|inorder", help="Of the core [real].")
@click.option("--function", metavar="NAME", help="Only loops of this function.")
@json_option
@csv_option
@limit_option
def command(
    recording: str | None, as_json: bool, as_csv: bool, limit: int | None, **options: Any
) -> None:
    """Loops: trip counts, strides, branches, misses, stalls, and what would speed them up.

    Of a recording with a trace. Every suggestion comes with the numbers that speak for it and what
    it should change, and as a pragma or attribute for gcc and clang.
    """
    from stallscope.looping import loops
    from stallscope.views.terminal.loops import show_loops

    show("loops", loops(recording, **options), show_loops, as_json, as_csv, limit)
