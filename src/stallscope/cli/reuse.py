# SPDX-License-Identifier: Apache-2.0
"""stallscope reuse"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import naming_options, show
from stallscope.cli.options import (
    Count,
    csv_option,
    json_option,
    limit_option,
    plot_option,
    recording_argument,
)


@click.command("reuse")
@recording_argument
@click.option(
    "--counts",
    type=click.Path(),
    metavar="RECORDING",
    help="Of the same program by Valgrind: how often each instruction accesses memory.",
)
@click.option(
    "--per-second",
    type=Count(),
    metavar="N",
    help="Touches of memory a second of processor time, where they are known without --counts.",
)
@click.option(
    "--granule",
    type=click.IntRange(1, 1 << 20),
    metavar="BYTES",
    help="Of a trace: what is looked at as one; a power of two [8].",
)
@naming_options
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
    """How long data goes untouched, which threads touch the same, and what a cache would keep.

    Of a recording made with --watch, by what was put under breakpoints; of one with a trace,
    exactly.
    """
    from stallscope.reusing import reuse
    from stallscope.views.terminal.reuse import show_reuse

    show("reuse", reuse(recording, **options), show_reuse, as_json, as_csv, limit, plot)
