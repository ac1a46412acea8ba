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
    default=0.001,
    show_default=True,
    help="The chance of reporting anything where nothing changed.",
)
@_output
def diff(before: str, after: str, alpha: float, fleet: str, **options: Any) -> None:
    """What got worse or better between two builds, by how much, where and since when."""
    from stallscope.scale.fleet import diff as find
    from stallscope.views.terminal.fleet import show_diff

    _show("diff", find(before, after, fleet, alpha=alpha), show_diff, options)
