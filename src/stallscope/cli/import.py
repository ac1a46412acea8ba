# SPDX-License-Identifier: Apache-2.0
"""stallscope import: thin; the work is in stallscope.record.importing."""

from __future__ import annotations

import sys
from typing import Any

import click

from stallscope.cli.options import Count
from stallscope.record.importing import FORMATS


@click.command("import")
@click.argument("file", type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="Folder to make [FILE.stallscope].")
@click.option("-f", "--force", is_flag=True, help="Overwrite a recording of that name.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no closing words.")
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="What FILE is; auto looks into it.",
)
@click.option(
    "--machine",
    default="default",
    show_default=True,
    metavar="NAME|FILE",
    help="Simulated machine that the verbs use unless told otherwise.",
)
@click.option(
    "--maps", type=click.Path(), help="A copy of the program's /proc/PID/maps, for names."
)
@click.option(
    "--max-accesses", type=Count(), default=0, metavar="N", help="Stop reading after N accesses."
)
def command(file: str, quiet: bool, **options: Any) -> None:
    """Make a recording of what another tool wrote.

    perf: a perf.data file of perf record or perf mem record. lackey: what valgrind --tool=lackey
    --trace-mem=yes prints. champsim: ChampSim's binary trace. drmemtrace: what DynamoRIO's view
    tool prints. csv and parquet: a column address, and any of size, kind, ip, thread and time.
    All but perf and parquet may be packed with gzip, xz or zstd.
    """
    from stallscope.record.importing import import_trace
    from stallscope.views.terminal import importing as view

    status = view.Status(quiet=quiet)
    imported = import_trace(file, on_progress=status.show, **options)
    status.close()
    if not quiet:
        view.closing_words(imported, sys.stderr)
