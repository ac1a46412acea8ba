# SPDX-License-Identifier: Apache-2.0
"""stallscope monitor"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import show
from stallscope.cli.options import csv_option, json_option, limit_option
from stallscope.errors import StallscopeError


class _WithProgram(click.Command):
    """What stands behind -- is a program to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


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


@command.command("run", cls=_WithProgram)
@click.argument("monitor")
@click.argument("recordings", nargs=-1, metavar="[RECORDING]... [-- PROGRAM ARGS...]")
@click.option("--with", "others", multiple=True, metavar="MONITOR", help="Another one beside it.")
@click.option("--machine", default="four-core", show_default=True, metavar="NAME|FILE")
@click.option("--cores", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option(
    "--protocol",
    metavar="moesi|dragon",
    default="moesi",
    show_default=True,
    help="Of the caches, to begin with.",
)
@click.option("--prefetch", is_flag=True, help="With the prefetcher on, to begin with.")
@click.option("--check", is_flag=True, help="Check every line's state after each change.")
@click.option(
    "--slice",
    "slice_",
    type=click.IntRange(min=1000),
    metavar="CYCLES",
    help="Recordings share the cores by slices, instead of running one after the other.",
)
@click.option("--memory-bound", is_flag=True, help="With --slice: one memory-bound one at a time.")
@click.option(
    "--watch",
    multiple=True,
    metavar="TARGET",
    help="Memory whose accesses are the event `watched`, in the words of stallscope watch.",
)
@click.option("--live", is_flag=True, help="Run PROGRAM as it is, at native speed.")
@click.option("--pid", type=click.IntRange(min=1), metavar="PID", help="Look at a running process.")
@click.option("--duration", type=float, metavar="SECONDS", help="With --live or --pid: end then.")
@json_option
@csv_option
@limit_option
@click.pass_context
def run(
    context: click.Context,
    /,
    monitor: str,
    recordings: tuple[str, ...],
    others: tuple[str, ...],
    slice_: int | None,
    memory_bound: bool,
    watch: tuple[str, ...],
    live: bool,
    pid: int | None,
    duration: float | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    machine: str,
    **options: Any,
) -> None:
    """Run recorded programs on four cores with MONITOR beside them, and show what it did.

    With --live or --pid MONITOR runs beside a live process, and is told what that lets one see."""
    from stallscope import monitors, systems
    from stallscope.monitors.watches import Watches
    from stallscope.views.terminal.monitor import show_live, show_run

    program = context.meta.get("program")
    chosen: list[Any] = list(recordings)
    loaded = [monitors.load(name) for name in (monitor, *others)]
    if live or pid is not None:
        _check_live(chosen, program, pid)
        from stallscope.living import monitor_live

        result = monitor_live(loaded, program or (), pid=pid, watch=watch, duration=duration)
        show("monitor-live", result, show_live, as_json, as_csv, limit)
        return
    if duration is not None:
        raise StallscopeError("--duration is for live processes", now="--live or --pid")
    if program is not None and (chosen or not program):
        raise StallscopeError(
            "either recordings or a program", now="stallscope monitor run MONITOR -- PROGRAM"
        )
    if memory_bound and not slice_:
        raise StallscopeError("--memory-bound is a way of giving slices", now="--slice 50000")
    watches = Watches.of(loaded, watch)
    if program is not None:
        system = systems.recorded(program, machine, watches)
    else:
        system = systems.System(chosen or [systems.newest()], machine, watches)
    how = {"slice": slice_, "memory_bound": memory_bound} if slice_ else {"sequential": True}
    show("monitor-run", system.run(loaded, **how, **options), show_run, as_json, as_csv, limit)


def _check_live(recordings: list[Any], program: list[str] | None, pid: int | None) -> None:
    if recordings or (program is not None) == (pid is not None) or program == []:
        raise StallscopeError(
            "a live process is a program or a process that runs",
            now="stallscope monitor run MONITOR --live -- PROGRAM, or --pid PID",
        )


@command.command("reproduce")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Where recordings are kept [a temporary folder].",
)
@json_option
def reproduce(folder: Path | None, as_json: bool) -> None:
    """The table of protocols and the scheduling experiment of the study that monitors come from."""
    from stallscope import monitor_study
    from stallscope.views import document
    from stallscope.views.terminal.monitor import show_study

    found = monitor_study.reproduce(folder)
    if as_json:
        document.print_json("monitor-reproduce", found)
    else:
        show_study(found)
