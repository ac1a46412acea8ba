# SPDX-License-Identifier: Apache-2.0
"""What `functions` and `lines` share: both show misses by code, one finer than the other."""

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


def places_command(verb: str, *, by_line: bool) -> click.Command:
    @click.command(verb, help=f"Which {verb} miss the caches, ordered by the time they cost.")
    @recording_argument
    @region_option
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
        from stallscope.analyses.objects import places
        from stallscope.views.terminal.objects import show_places

        result = places(view_of(recording, **options), by_line=by_line)
        show(verb, result, show_places, as_json, as_csv, limit, plot)

    return command
