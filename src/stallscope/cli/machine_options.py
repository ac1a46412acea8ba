# SPDX-License-Identifier: Apache-2.0
"""What the verbs that look at misses share: which machine, which event, how sampled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

SAMPLING = (
    "event",
    "period",
    "seed",
    "sampling",
    "min_latency",
    "handler_cost",
    "perturb",
    "budget",
)


def sampling_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How the machine's PMU samples; what the words mean is in stallscope.sampling."""
    for option in (
        click.option(
            "--budget",
            metavar="SHARE",
            help="Change the period so that the handler takes this share of the run, e.g. 1%.",
        ),
        click.option(
            "--perturb", is_flag=True, help="Let the handler's own accesses go through the caches."
        ),
        click.option(
            "--handler-cost",
            type=int,
            metavar="CYCLES",
            help="Of an interrupt [8800 with --perturb or --budget, else 0].",
        ),
        click.option(
            "--min-latency",
            type=int,
            metavar="CYCLES",
            help="Count and sample only accesses that take at least this.",
        ),
        click.option(
            "--sampling",
            metavar="counter|tagged",
            help="Interrupt every N misses, or follow one load at a time [counter].",
        ),
        click.option("--seed", type=int, help="Of the sampling [1]."),
        click.option("--period", type=int, help="Misses a sample [for 10,000 samples or more]."),
        click.option(
            "--event",
            metavar="LEVEL",
            help="Count and sample misses of this level: l1, l1i, l2, llc, dtlb, … [l1].",
        ),
    ):
        function = option(function)
    return function


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Without the sampling options that nobody gave; what they are then is not told here."""
    return {
        name: value
        for name, value in options.items()
        if name not in SAMPLING or (value is not None and value is not False)
    }


def machine_options(function: Callable[..., Any]) -> Callable[..., Any]:
    machine = click.option(
        "--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded]."
    )
    return naming_options(machine(sampling_options(function)))


def naming_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which processes, and what their heap blocks are called."""
    for option in (
        click.option(
            "--process",
            metavar="PID|all",
            help="Of this process [all, what has one name together].",
        ),
        click.option(
            "--depth", type=click.IntRange(1, 16), default=3, help="Functions in a site's name."
        ),
        click.option(
            "--wrapper", multiple=True, metavar="FUNC", help="Skip this function in sites."
        ),
    ):
        function = option(function)
    return function


def region_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--region", metavar="NAME", help="Only what happens in this region of the program."
    )(function)


def view_of(recording: str | None, **options: Any) -> Any:
    """A MissView, or a LiveView of a recording at native speed. The options are those above. Says
    which processes nothing is known of."""
    from stallscope.analyses.objects import MissView
    from stallscope.viewing import view

    found = view(recording, **given(options))
    missing = getattr(found.replay, "left_out", ()) if isinstance(found, MissView) else ()
    if missing:
        names = ", ".join(image.meta.name for image in missing)
        click.echo(f"stallscope: left out, as they have no trace: {names}", err=True)
    return found


def show(
    verb: str,
    result: Any,
    draw: Callable[..., None],
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None = None,
) -> None:
    """As a document or for people, and as a picture when one is asked for."""
    import msgspec

    from stallscope.views import document

    if plot is not None:
        from stallscope.views import plots

        plots.plot(result, plot, limit)
    if as_json:
        body = msgspec.to_builtins(result)
        document.print_json(verb, body | {"rows": body["rows"][: limit or None]})
    elif as_csv:
        document.print_csv([msgspec.to_builtins(row) for row in result.rows[: limit or None]])
    else:
        from rich.console import Console

        draw(result, Console(highlight=False), 20 if limit is None else limit)
