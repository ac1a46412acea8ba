# SPDX-License-Identifier: Apache-2.0
"""stallscope query"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.options import csv_option, json_option, limit_option


@click.command("query")
@click.argument("words", nargs=-1, required=True, metavar="[RECORDING] SQL")
@click.option("--machine", metavar="NAME|FILE", help="Add the tables of a replay on this machine.")
@json_option
@csv_option
@limit_option
def command(
    words: tuple[str, ...], machine: str | None, as_json: bool, as_csv: bool, limit: int | None
) -> None:
    """Ask a recording's tables in SQL.

    thread, module, block, operation, site, object, event and quality; watched where `watch` made
    the recording; with --machine also level, bucket, miss, code_miss, eviction, sample, region,
    region_level, miss_class, resident and type. RECORDING left out means the newest here.
    """
    from stallscope.analyses.query import query
    from stallscope.errors import StallscopeError
    from stallscope.recording import open_recording
    from stallscope.tables import schemas
    from stallscope.views import document

    if len(words) > 2:
        raise StallscopeError("too many words", now="stallscope query [RECORDING] 'SELECT …'")
    recording = open_recording(words[0] if len(words) == 2 else None)
    tables = {name: recording.table(name) for name in recording.table_names()}
    if machine is not None:
        from stallscope import machines, results

        probe = results.Probe(evictions=True, classify=True)
        replay = results.replay(recording, machines.load(machine), machine, probe)
        tables |= {name: replay.table(name) for name in (*schemas().results, "type")}
    rows: list[dict[str, Any]] = query(words[-1], tables).to_pylist()
    if as_json:
        document.print_json("query", {"rows": rows[: limit or None]})
    elif as_csv:
        document.print_csv(rows[: limit or None])
    else:
        from rich.console import Console

        from stallscope.views.terminal.query import show

        show(rows, Console(highlight=False), 20 if limit is None else limit)
