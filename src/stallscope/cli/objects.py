# SPDX-License-Identifier: Apache-2.0
"""stallscope objects"""

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
from stallscope.errors import StallscopeError


@click.command("objects")
@recording_argument
@click.option("--object", "object_name", metavar="NAME", help="The lines that miss on this object.")
@click.option("--function", metavar="FUNC", help="The objects that this function misses on.")
@click.option(
    "--offsets", is_flag=True, help="Where inside of objects (or of --object) misses fall."
)
@click.option("--by-function", is_flag=True, help="With --offsets: and which functions miss there.")
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
    object_name: str | None,
    function: str | None,
    offsets: bool,
    by_function: bool,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """Which variables and heap blocks miss the caches, ordered by the time they cost."""
    from stallscope.analyses.objects import objects, places
    from stallscope.views.terminal.objects import show_objects, show_places

    if by_function and not offsets:
        raise StallscopeError("--by-function is for --offsets", now="--offsets --by-function")
    if offsets and function is not None:
        raise StallscopeError("--offsets is not for --function", now="--offsets --by-function")
    view = view_of(recording, offsets=offsets, **options)
    if offsets:
        from stallscope.analyses.offsets import offsets as places_in
        from stallscope.views.terminal.offsets import show_offsets

        inside = places_in(view, object_name, by_function=by_function)
        show("objects", inside, show_offsets, as_json, as_csv, limit, plot)
    elif object_name is not None:
        lines = places(view, by_line=True, object_name=object_name)
        show("objects", lines, show_places, as_json, as_csv, limit, plot)
    else:
        show("objects", objects(view, function), show_objects, as_json, as_csv, limit, plot)
