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

LATENCY = 1_000_000  # cycles that a page fault takes


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
        ("--refresh", int, "N", "Read hot pages after so many entries; 0: never [0]."),
        ("--departures", click.IntRange(0, 1), "0|1", "Log what leaves TLB and buffer, too [1]."),
    )
    for name, kind, metavar, text in reversed(sizes):
        function = click.option(name, type=kind, metavar=metavar, help=text)(function)
    for option in (
        click.option("--process", metavar="PID|all", help="Of this process [all]."),
        click.option(
            "--machine", metavar="NAME|FILE", help="Whose PATH units are meant [as recorded]."
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
@click.option(
    "--mru", is_flag=True, help="Also MRU's curve, and that of reversed ranks, which is not MRU."
)
@click.option(
    "--group", metavar="N|SIZE", help="Only sizes of whole groups of so many pages [every size]."
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
    mru: bool,
    group: str | None,
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
        mru=mru,
        group=group,
    )
    _show("pages", found, "curve", show_pages, as_json, as_csv, limit, plot)


@command.command("exact")
@recording_argument
@click.option(
    "--shards", type=click.IntRange(1), default=2, show_default=True, metavar="N", help="Pieces."
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes [all processors].")
@click.option("--page-size", type=Size(), default=4096, metavar="BYTES", help="Of a page [4096].")
@click.option("--process", metavar="PID", help="Of this process.")
@json_option
@csv_option
@limit_option
def exact(
    recording: str | None,
    shards: int,
    jobs: int | None,
    page_size: int,
    process: str | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
) -> None:
    """The LRU curve alone, from pieces of the trace by several processes. Exact all the same."""
    from stallscope.cli.machine_options import show
    from stallscope.scale.curves import exact_curve
    from stallscope.views.terminal.pages import show_exact

    found = exact_curve(recording, shards, page_size=page_size, process=process, jobs=jobs)
    show("pages.exact", found, show_exact, as_json, as_csv, limit)


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


def latency_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--latency",
        type=Count(),
        default=LATENCY,
        show_default=True,
        metavar="CYCLES",
        help="That a page fault takes.",
    )(function)


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--log",
        type=click.Choice(("order", "path")),
        default="order",
        show_default=True,
        help="All references but to the pages used last, or what PATH logged.",
    )(latency_option(function))


def memory_option(several: bool = True, needed: bool = False) -> Callable[..., Any]:
    return click.option(
        "--memory",
        multiple=several,
        required=needed,
        metavar="N|SIZE",
        help="A number of pages, or bytes with K, M or G" + ("; also several." if several else "."),
    )


def epoch_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--epoch",
        type=Count(),
        default=0,
        metavar="N",
        help="References after which it is decided anew [a 200th of all].",
    )(function)


@command.command("replacement")
@recording_argument
@memory_option()
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Only this one [all].")
@epoch_option
@click.option(
    "--patience", type=click.IntRange(1), default=3, help="Epochs before a region's policy changes."
)
@click.option(
    "--threshold", type=Count(), default=0, metavar="N", help="Misses of an epoch that count."
)
@log_options
@page_options
@json_option
@csv_option
@limit_option
@plot_option
def replacement(
    recording: str | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """Which replacement policy would serve a program in so much memory."""
    from stallscope.analyses import page_replacement
    from stallscope.views.terminal.pages import show_replacement

    words = ("memory", "policies", "epoch", "patience", "threshold", "log", "latency")
    asked = {name: options.pop(name) for name in words}
    found = page_replacement.replacement(view_of(recording, options), **asked)
    _show("pages.replacement", found, "rows", show_replacement, as_json, as_csv, limit, plot)


@command.command("epochs")
@recording_argument
@memory_option(several=False)
@click.option(
    "--group", metavar="N|SIZE", help="Of memory, that it might have more or less [a 16th]."
)
@click.option(
    "--epoch", type=Count(), default=0, metavar="N", help="References of one [a 20th of all]."
)
@click.option(
    "--log",
    type=click.Choice(("order", "path")),
    default="order",
    show_default=True,
    help="All references but to the pages used last, or what PATH logged.",
)
@page_options
@json_option
@csv_option
@limit_option
@plot_option
def epochs(
    recording: str | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """How a program's need of memory changes over time, around so much of it.

    Each epoch has what a group of pages less would cost (penalty), what one more would save
    (benefit), and where more memory would have stopped to pay."""
    from stallscope.analyses import page_epochs
    from stallscope.views.terminal.page_epochs import show_epochs

    asked = {name: options.pop(name) for name in ("memory", "group", "epoch", "log")}
    found = page_epochs.epochs(view_of(recording, options), **asked)
    _show("pages.epochs", found, "rows", show_epochs, as_json, as_csv, limit, plot)


@command.command("allocate")
@click.argument("recordings", nargs=-1, type=click.Path())
@memory_option(several=False, needed=True)
@click.option(
    "--priority",
    "priorities",
    type=float,
    multiple=True,
    metavar="N",
    help="Of each program: the higher, the fewer misses [1].",
)
@click.option(
    "--level",
    "levels",
    type=float,
    multiple=True,
    metavar="N",
    help="Of each program: misses per million cycles that it may have at most.",
)
@epoch_option
@latency_option
@page_options
@json_option
@csv_option
@limit_option
@plot_option
def allocate(
    recordings: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """How to share memory among programs that run together: A B …

    Global LRU against pools of their own, sized for throughput, for equal miss rates or for service
    levels; with limits in bytes, as memory.max of a cgroup takes them."""
    from stallscope.analyses import page_allocation
    from stallscope.views.terminal.page_sharing import show_allocation

    asked = {
        name: options.pop(name) for name in ("memory", "priorities", "levels", "epoch", "latency")
    }
    views = [view_of(recording, options) for recording in recordings]
    found = page_allocation.allocate(views, **asked)
    _show("pages.allocate", found, "rows", show_allocation, as_json, as_csv, limit, plot)


@command.command("prefetch")
@recording_argument
@memory_option()
@click.option(
    "--prefetcher", "prefetchers", multiple=True, metavar="NAME", help="Only this one [all]."
)
@click.option("--most", type=click.IntRange(1), default=64, help="Pages at once.")
@click.option("--degree", type=click.IntRange(1), default=10, help="Edges of a page in the graph.")
@click.option("--scan", type=click.IntRange(1), default=64, help="Pages looked at on a fault.")
@click.option("--graph-depth", type=click.IntRange(1), default=3, help="In the graph.")
@click.option(
    "--unused", type=click.FloatRange(0, 1), default=0.1, help="Of memory, prefetched and unused."
)
@log_options
@page_options
@json_option
@csv_option
@limit_option
@plot_option
def prefetch(
    recording: str | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """What bringing in pages ahead of time would save, and what it would read in vain."""
    from stallscope.analyses import page_prefetching
    from stallscope.views.terminal.page_sharing import show_prefetching

    words = ("memory", "prefetchers", "most", "degree", "scan", "unused", "log", "latency")
    asked = {name: options.pop(name) for name in words} | {"depth": options.pop("graph_depth")}
    found = page_prefetching.prefetching(view_of(recording, options), **asked)
    _show("pages.prefetch", found, "rows", show_prefetching, as_json, as_csv, limit, plot)


@command.command("overhead")
@recording_argument
@click.option(
    "--exception-cycles", type=int, default=1500, show_default=True, help="Of a log that is full."
)
@click.option("--entry-cycles", type=float, help="Of an entry of a log [as measured here].")
@click.option(
    "--fault-cycles",
    type=int,
    default=7500,
    show_default=True,
    help="Of a protection fault, by software alone.",
)
@page_options
@json_option
@csv_option
@limit_option
@plot_option
def overhead(
    recording: str | None,
    exception_cycles: int,
    entry_cycles: float | None,
    fault_cycles: int,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """What tracking page accesses costs, with PATH units and by software alone."""
    from stallscope.measuring import page_overhead
    from stallscope.views.terminal.page_sharing import show_overhead

    found = page_overhead(
        view_of(recording, options),
        entry_cycles,
        exception_cycles=exception_cycles,
        fault_cycles=fault_cycles,
    )
    _show("pages.overhead", found, "rows", show_overhead, as_json, as_csv, limit, plot)
