# SPDX-License-Identifier: Apache-2.0
"""stallscope info"""

from __future__ import annotations

import click

from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("info")
@recording_argument
@json_option
@csv_option
@limit_option
def command(recording: str | None, as_json: bool, as_csv: bool, limit: int | None) -> None:
    """What was run, how it ended, and how much it did.

    Totals cover the whole process tree. RECORDING left out means the newest here.
    """
    from stallscope.analyses.info import info
    from stallscope.recording import open_recording
    from stallscope.views import document

    result = info(open_recording(recording))
    if as_json:
        document.print_json("info", result)
    elif as_csv:
        import msgspec

        document.print_csv([msgspec.to_builtins(row) for row in result.processes])
    else:
        from rich.console import Console

        from stallscope.views.terminal.info import show

        show(result, Console(highlight=False), 20 if limit is None else limit)
