# SPDX-License-Identifier: Apache-2.0
"""stallscope doctor: what works on this machine, why not, and what to do about it."""

from __future__ import annotations

import dataclasses
import json

import click


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Show what works on this machine, why the rest does not, and what to do about it."""
    from stallscope.analyses.doctor import doctor
    from stallscope.record.host import probe

    result = doctor(probe())
    if as_json:
        document = {"schema": "stallscope.doctor/1", **dataclasses.asdict(result)}
        click.echo(json.dumps(document, indent=2))
        return

    from rich.console import Console

    from stallscope.views.terminal.doctor import show

    show(result, Console())
