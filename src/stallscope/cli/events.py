# SPDX-License-Identifier: Apache-2.0
"""stallscope events"""

from __future__ import annotations

import click

from stallscope.cli.machine_options import show
from stallscope.cli.options import csv_option, json_option, limit_option


@click.command("events")
@click.option("--counters", "count", type=int, metavar="N", help="Physical ones [the machine's].")
@click.option("--machine", default="default", metavar="NAME|FILE", help="[default]")
@json_option
@csv_option
@limit_option
def command(
    count: int | None, machine: str, as_json: bool, as_csv: bool, limit: int | None
) -> None:
    """The events that a core counts: what each means, and on which counters it may sit."""
    from stallscope.counting import events
    from stallscope.views.terminal.counters import show_events

    limit = 0 if limit is None else limit
    show("events", events(machine, count), show_events, as_json, as_csv, limit)
