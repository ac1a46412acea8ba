# SPDX-License-Identifier: Apache-2.0
"""stallscope fleet"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from stallscope.cli.machine_options import show
from stallscope.cli.options import csv_option, json_option, limit_option


def _output(function: Callable[..., Any]) -> Callable[..., Any]:
    fleet = click.option(
        "--fleet",
        type=click.Path(),
        default="fleet",
        envvar="STALLSCOPE_FLEET",
        show_default=True,
        metavar="FOLDER",
        help="Where it is; also by the variable STALLSCOPE_FLEET.",
    )
    return fleet(json_option(csv_option(limit_option(function))))


def _show(verb: str, result: Any, draw: Callable[..., None], options: dict[str, Any]) -> None:
    words = (options["as_json"], options["as_csv"], options["limit"])
    show(f"fleet.{verb}", result, draw, *words)


@click.group("fleet")
def command() -> None:
    """What many hosts recorded, by day, program and build."""


@command.command("ingest")
@click.argument("sources", nargs=-1, required=True, type=click.Path())
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Workers [all processors].")
@_output
def ingest(sources: tuple[str, ...], fleet: str, jobs: int | None, **options: Any) -> None:
    """Take in every recording below some folders that is not there yet.

    What cannot be read is skipped and named. Running it again adds nothing twice.
    """
    from stallscope.scale.fleet import ingest as take_in
    from stallscope.views.terminal.fleet import show_ingested

    _show("ingest", take_in(sources, fleet, jobs=jobs), show_ingested, options)


@command.command("symbols")
@click.argument("files", nargs=-1, type=click.Path())
@_output
def symbols(files: tuple[str, ...], fleet: str, **options: Any) -> None:
    """Keep files with symbols, and list those that are there.

    What hosts recorded of a program without symbols is named by the file of the same build id: as
    it was linked, or its .debug file. It does not matter which of them comes first.
    """
    from stallscope.scale.fleet import symbols as keep
    from stallscope.views.terminal.fleet import show_symbols

    _show("symbols", keep(files, fleet), show_symbols, options)


@command.command("compact")
@_output
def compact(fleet: str, **options: Any) -> None:
    """Merge the files that many ingests left. Answers stay the same."""
    from stallscope.scale.fleet import compact as merge
    from stallscope.views.terminal.fleet import show_compacted

    _show("compact", merge(fleet), show_compacted, options)


@command.command("top")
@click.option("--by", type=click.Choice(["program", "object"]), default="program")
@click.option("--since", metavar="DAY", help="Only from this day on: 2026-11-16.")
@_output
def top(fleet: str, by: str, since: str | None, **options: Any) -> None:
    """Where all hosts together wait for memory."""
    from stallscope.scale.fleet import top as find
    from stallscope.views.terminal.fleet import show_top

    _show("top", find(fleet, by=by, since=since), show_top, options)


@command.command("builds")
@_output
def builds(fleet: str, **options: Any) -> None:
    """Which builds of which programs ran when."""
    from stallscope.scale.fleet import builds as find
    from stallscope.views.terminal.fleet import show_builds

    _show("builds", find(fleet), show_builds, options)


@command.command("objects")
@click.argument("program")
@click.option("--build", metavar="ID", help="Only this build; the beginning of its id will do.")
@_output
def objects(program: str, build: str | None, fleet: str, **options: Any) -> None:
    """What a program waits for, as a share of its time, over all hosts."""
    from stallscope.scale.fleet import objects as find
    from stallscope.views.terminal.fleet import show_objects

    _show("objects", find(program, fleet, build=build), show_objects, options)


@command.command("diff")
@click.argument("before", metavar="BUILD1")
@click.argument("after", metavar="BUILD2")
@click.option(
    "--alpha",
    type=float,
    default=0.0001,
    show_default=True,
    help="At most the chance of reporting anything where nothing changed.",
)
@click.option("--program", metavar="NAME", help="Of this program, where several have such builds.")
@_output
def diff(
    before: str, after: str, alpha: float, program: str | None, fleet: str, **options: Any
) -> None:
    """What got worse or better between two builds, by how much, where and since when."""
    from stallscope.scale.fleet import diff as find
    from stallscope.views.terminal.fleet import show_diff

    _show("diff", find(before, after, fleet, program=program, alpha=alpha), show_diff, options)
