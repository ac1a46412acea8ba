# SPDX-License-Identifier: Apache-2.0
"""stallscope monitor"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from stallscope.cli.options import csv_option, json_option
from stallscope.errors import StallscopeError


@click.group("monitor")
def command() -> None:
    """Programs for the small core that watches a machine and acts on it."""


@command.command("list")
@json_option
@csv_option
def list_monitors(as_json: bool, as_csv: bool) -> None:
    """The bundled monitors, and what a monitor can watch and change."""
    from stallscope.monitors.catalogue import catalogue
    from stallscope.views import document

    found = catalogue()
    if as_json:
        document.print_json("monitor-list", found)
    elif as_csv:
        document.print_csv(found["rows"])
    else:
        from stallscope.views.terminal.monitor import show_catalogue

        show_catalogue(found)


@command.command("asm")
@click.argument("monitor")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the image here.")
@click.option("--source", is_flag=True, help="Print the assembly that a declaration becomes.")
@json_option
def asm(monitor: str, output: Path | None, source: bool, as_json: bool) -> None:
    """Assemble MONITOR (a file, or the name of a bundled one) and list what came out."""
    from stallscope import monitors
    from stallscope.monitors.assembler import listing
    from stallscope.views import document
    from stallscope.views.terminal.monitor import show_listing

    made = monitors.load(monitor)
    if output is not None:
        try:
            output.write_bytes(made.image.scratch)
        except OSError as error:
            raise StallscopeError(f"cannot write {output}", error.strerror or "") from error
    if source:
        sys.stdout.write(made.assembly)
    elif as_json:
        rows = [
            {"address": r.address, "label": r.label, "text": r.text} for r in listing(made.image)
        ]
        document.print_json(
            "monitor-asm", {"name": made.name, "boot": made.image.boot, "rows": rows}
        )
    else:
        show_listing(made.image, listing(made.image))


@command.command("step")
@click.argument("monitor")
@click.option(
    "--event",
    "happenings",
    multiple=True,
    metavar="NAME[@CYCLE][:ADDRESS[:DATA[:CORE]]]",
    help="Something that happens, e.g. store@500:0x1000; may be repeated.",
)
@click.option("--limit", type=click.IntRange(min=1), default=1000, help="Instructions to show.")
@json_option
def step(monitor: str, happenings: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Run MONITOR on its core alone and show every instruction."""
    from stallscope import monitors
    from stallscope.monitors.stepping import stepped
    from stallscope.views import document
    from stallscope.views.terminal.monitor import show_steps

    found = stepped(monitors.load(monitor), happenings, limit)
    if as_json:
        document.print_json("monitor-step", found)
    else:
        show_steps(found)
