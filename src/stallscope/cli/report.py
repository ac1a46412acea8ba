# SPDX-License-Identifier: Apache-2.0
"""stallscope report"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.options import json_option, recording_argument
from stallscope.errors import StallscopeError


@click.command("report")
@recording_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="[NAME.html]")
@click.option("-f", "--force", is_flag=True, help="Overwrite the file.")
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@click.option("--process", metavar="PID|all", help="Of this process [all].")
@click.option(
    "--sources",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also look for source files below this folder. May be repeated.",
)
@click.option(
    "--advice/--no-advice",
    default=None,
    help="Replay changes and tell which save cycles [for traces that are not large].",
)
@click.option("--no-source", is_flag=True, help="Put no source code into the page.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=None,
    help="Rows of each table; 0 for as many as fit into 15 MB [3000].",
)
@json_option
def command(
    recording: str | None,
    output: Path | None,
    force: bool,
    machine: str | None,
    process: str | None,
    sources: tuple[Path, ...],
    no_source: bool,
    advice: bool | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """One page with all that is known of a recording: the verdict in plain words, then stalls over
    time, objects, evictions, annotated source, sharing, pages and loads, with pictures.

    The page is one file that opens from disk and needs no network. --json prints the same facts.

    \b
    stallscope report                            the newest recording here, as NAME.html
    stallscope report prog.stallscope -o report.html --machine server
    stallscope report /mnt/fleet -o fleet.html   a fleet: what many hosts recorded
    """
    from stallscope.scale.fleet_folder import is_fleet

    if recording is not None and is_fleet(Path(recording)):
        _refuse(machine=machine, process=process, sources=sources, advice=advice)
        _of_fleet(Path(recording), output, force, limit, as_json)
        return
    from stallscope.recording import open_recording
    from stallscope.reporting import ROWS, report
    from stallscope.views import document, html
    from stallscope.views.terminal.report import show_report, working

    opened = open_recording(recording)
    path = output or Path(opened.path.with_suffix(".html").name)
    if not as_json:
        html.check(path, force=force)  # before the work
    with working() as say:
        found = report(
            opened,
            machine=machine,
            process=process,
            limit=ROWS if limit is None else limit,
            sources=sources,
            source=not no_source,
            advice=advice,
            say=say,
        )
    if as_json:
        document.print_json("report", {k: v for k, v in found.items() if k != "schema"})
        return
    size = html.write(found, path, force=force)
    show_report(found, path, size)


def _refuse(**options: Any) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise StallscopeError(f"--{given[0]} is for recordings", "this is a fleet")


def _of_fleet(
    folder: Path, output: Path | None, force: bool, limit: int | None, as_json: bool
) -> None:
    from stallscope.scale.fleet_report import ROWS, fleet_report
    from stallscope.views import document, html
    from stallscope.views.terminal.report import show_report, working

    path = output or Path(f"{folder.resolve().name}.html")
    if not as_json:
        html.check(path, force=force)
    with working() as say:
        say("fleet")
        found = fleet_report(folder, limit=ROWS if limit is None else limit)
    if as_json:
        document.print_json("fleet", {k: v for k, v in found.items() if k != "schema"})
        return
    show_report(found, path, html.write(found, path, force=force))
