# SPDX-License-Identifier: Apache-2.0
"""stallscope export"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.machine_options import naming_options
from stallscope.cli.options import recording_argument


@click.command("export")
@recording_argument
@click.option(
    "--format",
    required=True,
    metavar="FORMAT",
    help="perfetto, pprof, speedscope, callgrind, firefox, csv, parquet or openmetrics.",
)
@click.option("-o", "--output", type=click.Path(), required=True, help="Write here.")
@click.option("-f", "--force", is_flag=True, help="Overwrite the file.")
@click.option("--anonymize", is_flag=True, help="Numbers instead of names, paths and arguments.")
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@naming_options
def command(recording: str | None, **options: Any) -> None:
    """A recording for another tool: costs by line of code and by object.

    perfetto has threads, regions and the heap over time; docs/export.md says what reads what."""
    from stallscope.exporting import export

    path = export(recording, **options)
    click.echo(f"stallscope: wrote {path}", err=True)
