# SPDX-License-Identifier: Apache-2.0
"""stallscope pages, and the verbs below it"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stallscope.cli.options import (
    Count,
    Size,
    csv_option,
    json_option,
    limit_option,
    plot_option,
    recording_argument,
)


class WithDefault(click.Group):
    """A group whose own name is a verb too: `pages REC` beside `pages replacement REC`."""

    default = "curve"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = args[:1] in (["--help"], ["-h"])
        if not asks_for_help and (not args or args[0] not in self.commands):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.commands[self.default].format_help(ctx, formatter)
        with formatter.section("Verbs below it"):
            formatter.write_dl(
                [
                    (name, one.get_short_help_str(100))
                    for name, one in self.commands.items()
                    if name != self.default
                ]
            )


def page_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is looked at, and the sizes of the PATH units; [] is what recordings have."""
    sizes = (
        ("--page-size", Size(), "BYTES", "Size of a page [4096]."),
        ("--hot", int, "N", "Leave out references to the N pages used last [16]."),
        ("--cores", int, "N", "Cores that threads share [one for each thread]."),
        ("--tlb-entries", int, "N", "Of a core's TLB [128]."),
        ("--tlb-ways", int, "N", "Of a core's TLB [16]."),
        ("--buffer-entries", int, "N", "Of the page access buffer behind it [2048]."),
        ("--buffer-ways", int, "N", "Of the page access buffer [4]."),
        ("--filter-entries", int, "N", "Of the LRU filter behind that [64]."),
        ("--log-entries", int, "N", "Of the log, which is read when it is full [128]."),
    )
    for name, kind, metavar, text in reversed(sizes):
        function = click.option(name, type=kind, metavar=metavar, help=text)(function)
    for option in (
        click.option("--process", metavar="PID|all", help="Of this process [all]."),
        click.option(
            "--depth", type=click.IntRange(1, 16), default=3, help="Functions in a site's name."
        ),
        click.option(
            "--wrapper", multiple=True, metavar="FUNC", help="Skip this function in sites."
        ),
    ):
        function = option(function)
    return function


def view_of(recording: str | None, options: dict[str, Any]) -> Any:
    from stallscope.viewing import page_view

    return page_view(recording, **{k: v for k, v in options.items() if v is not None})


@click.group("pages", cls=WithDefault, invoke_without_command=True)
def command() -> None:
    """How much memory a program needs."""


@command.command("curve")
@recording_argument
@click.option("--thread", type=int, metavar="N", help="Only references of this thread.")
@click.option("--object", "object_name", metavar="NAME", help="Only references to this object.")
@click.option("--region", metavar="NAME", help="Only what happens in this region of the program.")
@click.option(
    "--window", type=Count(), default=0, metavar="N", help="Instructions of a working set [1%]."
)
@page_options
@json_option
@csv_option
@limit_option
@plot_option
def curve(
    recording: str | None,
    thread: int | None,
    object_name: str | None,
    region: str | None,
    window: int,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """How a program's page misses fall as it gets more memory, under LRU, and where that ends.

    --json and --csv have every size of memory, or as many as --limit says."""
    from stallscope.analyses.pages import pages
    from stallscope.views.terminal.pages import show_pages

    found = pages(
        view_of(recording, options),
        thread=thread,
        object_name=object_name,
        region=region,
        window=window,
    )
    _show("pages", found, "curve", show_pages, as_json, as_csv, limit, plot)


def _show(
    verb: str,
    result: Any,
    table: str,
    draw: Callable[..., None],
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
) -> None:
    """As a document or for people; `table` is what --limit and --csv are about."""
    import msgspec

    from stallscope.views import document

    if plot is not None:
        from stallscope.views import plots

        plots.plot(result, plot, limit)
    if as_json:
        body = msgspec.to_builtins(result)
        document.print_json(verb, body | {table: body[table][: limit or None]})
    elif as_csv:
        rows = getattr(result, table)[: limit or None]
        document.print_csv([msgspec.to_builtins(row) for row in rows])
    else:
        from rich.console import Console

        draw(result, Console(highlight=False), 20 if limit is None else limit)
