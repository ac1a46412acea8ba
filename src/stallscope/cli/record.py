# SPDX-License-Identifier: Apache-2.0
"""stallscope record: thin; the work is in stallscope.record."""

from __future__ import annotations

import sys
from typing import Any

import click
from click.core import ParameterSource

from stallscope.cli.machine_options import sampling_options
from stallscope.cli.options import Count, Size
from stallscope.errors import StallscopeError
from stallscope.record import PAGES, PROBES, SOURCES, record


@click.command(
    "record",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("-o", "--output", type=click.Path(), help="Folder to make [PROGRAM.stallscope].")
@click.option("-f", "--force", is_flag=True, help="Overwrite a recording of that name.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no closing words.")
@click.option(
    "--source",
    type=click.Choice(SOURCES),
    default="valgrind",
    show_default=True,
    help="Every access through a simulated machine, samples at native speed by a clock, or the "
    "processor's own samples of loads, or pages by protection, at native speed but for faults.",
)
@click.option(
    "-p", "--pid", type=click.IntRange(min=1), metavar="PID", help="Watch a running process."
)
@click.option(
    "--duration", type=float, metavar="SECONDS", help="Stop sampling after this [at its end]."
)
@click.option(
    "--rate",
    type=int,
    metavar="N",
    help="Samples for each second of a thread's processor time [251; perf 1000].",
)
@click.option(
    "--watch",
    is_flag=False,
    flag_value="8",
    type=click.Choice(["8", "16", "32"]),
    help="With --source clock: put sampled addresses under breakpoints, this many bytes [8] around "
    "each, until they are touched again; see stallscope reuse.",
)
@click.option(
    "--active",
    type=int,
    metavar="N",
    help="Pages that may be used without anyone noticing, by --source pages [2048].",
)
@click.option(
    "--machine",
    default="default",
    show_default=True,
    metavar="NAME|FILE",
    help="Simulated machine to run beside the program, or none; see stallscope machines.",
)
@click.option(
    "--probe",
    "probes",
    multiple=True,
    type=click.Choice((*PROBES, PAGES)),
    help="What to count on the machine [misses]; pages: in which order pages are referenced.",
)
@sampling_options
@click.option("--trace", is_flag=True, help="Keep every block execution and address.")
@click.option(
    "--values",
    multiple=True,
    metavar="TARGET|all",
    help="With --trace: keep what accesses to TARGET read or wrote too, up to 8 bytes of it. "
    "TARGET as of stallscope watch; may be repeated.",
)
@click.option("--no-children", is_flag=True, help="Do not follow processes that it starts.")
@click.option("--no-heap", is_flag=True, help="Do not tell heap blocks apart; faster where many.")
@click.option(
    "--from", "from_function", metavar="FUNC", help="Measure from where this function is entered."
)
@click.option("--to", "to_function", metavar="FUNC", help="Stop where this function is entered.")
@click.option("--skip", type=Count(), default=0, metavar="N", help="Skip N instructions first.")
@click.option(
    "--max-instructions", type=Count(), default=0, metavar="N", help="Stop measuring after N."
)
@click.option(
    "--max-size", type=Size(), default=0, metavar="SIZE", help="Cut the trace off here, e.g. 2G."
)
@click.option(
    "--turn",
    type=click.IntRange(1, 100_000),
    default=2000,
    show_default=True,
    metavar="BLOCKS",
    help="Blocks of code that a thread runs before another may.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGS]...")
@click.pass_context
def command(
    context: click.Context,
    /,
    quiet: bool,
    no_children: bool,
    no_heap: bool,
    command: tuple[str, ...],
    **options: Any,
) -> int:
    """Run PROGRAM to its end, with its own output and exit status, and record it.

    With -p PID a running process is watched until it ends, --duration is over, or Ctrl-C."""
    from stallscope.views.terminal import record as view

    options = {
        name: value
        for name, value in options.items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    if options.get("pid") is not None:
        options.setdefault("source", "clock")
    elif not command:
        raise StallscopeError("no program to record", now="stallscope record -- PROGRAM ARGS")
    if "watch" in options:
        options["watch"] = int(options["watch"])
    options |= {"children": False} if no_children else {}
    options |= {"heap": False} if no_heap else {}
    status = view.Status(quiet=quiet)
    recorded = record(command, on_progress=status.show, **options)
    status.close()
    if not quiet:
        view.closing_words(recorded, sys.stderr)
    elif recorded.failures:
        view.failures(recorded, sys.stderr)
    return recorded.exit_status
