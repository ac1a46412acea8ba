# SPDX-License-Identifier: Apache-2.0
"""stallscope check"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import naming_options, show
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument
from stallscope.errors import StallscopeError


@click.command("check")
@recording_argument
@click.option(
    "--against",
    type=click.Path(),
    metavar="RECORDING|FILE",
    help="The baseline [of stallscope.toml; stallscope-baseline.json].",
)
@click.option(
    "--config", type=click.Path(), metavar="FILE", help="The budgets [stallscope.toml here]."
)
@click.option("--tolerance", type=float, help="Share that may be worse [0.01; 0.1 with threads].")
@click.option("--update", is_flag=True, help="Write the baseline instead of comparing with it.")
@click.option("--junit", type=click.Path(path_type=Path), help="Also write JUnit XML here.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Also write a summary here.")
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [of the baseline].")
@naming_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None,
    update: bool,
    tolerance: float | None,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> int:
    """Whether a run keeps to its budgets and is no worse than its baseline; exit status 1 if not.

    Budgets stand in stallscope.toml; docs/check.md shows some, and a job for GitHub Actions."""
    from stallscope import comparing
    from stallscope.views.exports import gate
    from stallscope.views.terminal.check import show_check

    if update:
        written = comparing.update_baseline(recording, **options)
        click.echo(f"stallscope: wrote {written}", err=True)
        return 0
    result = comparing.check(recording, tolerance=tolerance, **options)
    for path, made in ((junit, gate.junit), (markdown, gate.markdown)):
        if path is not None:
            try:
                path.write_text(made(result), encoding="utf-8")
            except OSError as error:
                raise StallscopeError(f"cannot write {path}", error.strerror or "") from error
    show("check", result, show_check, as_json, as_csv, limit)
    return 0 if result.passed else 1
