# SPDX-License-Identifier: Apache-2.0
"""stallscope loads"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.load_options import limit_options, limits_of, load_view
from stallscope.cli.machine_options import machine_options, show
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("loads")
@recording_argument
@limit_options
@machine_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None, as_json: bool, as_csv: bool, limit: int | None, **options: Any
) -> None:
    """The few loads that cause most misses, and how their addresses come about.

    Of a recording by Valgrind, misses of the last cache unless --event names another level. Of one
    by a clock, the loads that the program was found waiting for.

    Classes: stride, indirect (a[b[i]]), chase (a list), walk (a tree or a hash table), irregular.
    """
    from stallscope.analyses.live import LiveView
    from stallscope.analyses.loads import loads
    from stallscope.views.terminal.loads import show_loads

    view = load_view(recording, options)
    limits, _ = limits_of(options, live=isinstance(view, LiveView))
    show("loads", loads(view, limits), show_loads, as_json, as_csv, limit, plot=None)
