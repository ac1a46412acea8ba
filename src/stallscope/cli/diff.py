# SPDX-License-Identifier: Apache-2.0
"""stallscope diff"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.machine_options import naming_options, show
from stallscope.cli.options import csv_option, json_option, limit_option


@click.command("diff")
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@naming_options
@json_option
@csv_option
@limit_option
def command(
    before: str, after: str, as_json: bool, as_csv: bool, limit: int | None, **options: Any
) -> None:
    """What got better and worse from one recording (or baseline file) to another.

    Objects are matched by name, or by the functions that allocated them where lines have moved."""
    from stallscope.comparing import diff
    from stallscope.views.terminal.diff import show_diff

    show("diff", diff(before, after, **options), show_diff, as_json, as_csv, limit)
