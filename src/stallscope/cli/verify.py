# SPDX-License-Identifier: Apache-2.0
"""stallscope verify"""

from __future__ import annotations

import click

from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument


@click.command("verify")
@recording_argument
@json_option
@csv_option
@limit_option
def command(recording: str | None, as_json: bool, as_csv: bool, limit: int | None) -> int:
    """Check a recording against its own invariants: exit status 1 when one is broken.

    Reads everything: checksums, every record of every stream, tables against stream.
    """
    from stallscope.analyses.verify import verify
    from stallscope.recording import open_recording
    from stallscope.views import document

    verdict = verify(open_recording(recording))
    if as_json:
        document.print_json("verify", verdict)
    elif as_csv:
        import msgspec

        document.print_csv([msgspec.to_builtins(row) for row in verdict.rows])
    else:
        from rich.console import Console

        from stallscope.views.terminal.verify import show

        show(verdict, Console(highlight=False), 20 if limit is None else limit)
    return 1 if verdict.errors else 0
