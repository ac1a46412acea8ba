# SPDX-License-Identifier: Apache-2.0
"""stallscope misses"""

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


@click.command("misses")
@recording_argument
@click.option("--classify", is_flag=True, help="Why: cold, capacity or conflict.")
@click.option("--level", metavar="NAME", help="Only this level.")
@click.option(
    "--by",
    type=click.Choice(["level", "object", "function", "line"]),
    help="What rows tell apart [level; object with --classify].",
)
@click.option("--object", "object_name", metavar="NAME", help="Only misses on this object.")
@click.option(
    "--stack-by-function", is_flag=True, help="Tell <stack> apart by the function of the frame."
)
@region_option
@machine_options
@json_option
@csv_option
@limit_option
@plot_option
def command(
    recording: str | None,
    classify: bool,
    level: str | None,
    by: str | None,
    object_name: str | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """How often each cache and TLB misses, and why.

    Cold: the line was never looked up before. Capacity: a fully associative LRU cache of the same
    size would have missed too. Conflict: it would have hit.
    """
    from stallscope.analyses.misses import misses
    from stallscope.views.terminal.misses import show_misses

    view = view_of(recording, classify=classify, **options)
    result = misses(view, classify=classify, by=by, level=level, object_name=object_name)
    show("misses", result, show_misses, as_json, as_csv, limit, plot)
