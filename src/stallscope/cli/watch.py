# SPDX-License-Identifier: Apache-2.0
"""stallscope watch"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import show
from stallscope.cli.options import csv_option, json_option, limit_option
from stallscope.errors import StallscopeError

SOURCES = ("valgrind", "live")


class _WithProgram(click.Command):
    """What stands behind -- is a program to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command("watch", cls=_WithProgram)
@click.argument("words", nargs=-1, metavar="TARGET... [RECORDING] [-- PROGRAM ARGS...]")
@click.option("--reads", is_flag=True, help="Only accesses that read.")
@click.option("--writes", is_flag=True, help="Only accesses that write.")
@click.option("--stop", type=click.IntRange(min=1), metavar="N", help="End at the N-th hit.")
@click.option("--log", is_flag=True, help="Show hits one by one, with the calls that led there.")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=10_000,
    metavar="N",
    help="Hits to keep one by one [10000].",
)
@click.option("--process", metavar="PID", help="Of this process.")
@click.option(
    "--source",
    type=click.Choice(SOURCES),
    default="valgrind",
    show_default=True,
    help="How a program is run: in the capture tool, or at native speed, watched by "
    "breakpoints of the processor (up to four words) or page protection (more).",
)
@click.option(
    "--if", "condition", metavar="'value == 5'", help="Only when it holds this afterwards."
)
@click.option("--snapshot", is_flag=True, help="Keep what is watched as it is at each hit.")
@click.option(
    "-p", "--pid", type=click.IntRange(min=1), metavar="PID", help="Of a process that runs already."
)
@click.option("--duration", type=float, metavar="SECONDS", help="With --pid: end then.")
@click.option("-o", "--output", type=click.Path(), help="Recording to make of a program.")
@click.option("-f", "--force", is_flag=True, help="Overwrite a recording of that name.")
@json_option
@csv_option
@limit_option
@click.pass_context
def command(
    context: click.Context,
    /,
    words: tuple[str, ...],
    reads: bool,
    writes: bool,
    log: bool,
    source: str,
    pid: int | None,
    duration: float | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """Every access to watched memory, and none beside it.

    TARGET is an address (0x4c2040+16), a variable or part of one ('table[*].count'), the blocks of
    an allocation site (heap:FUNCTION) or one byte past each of them (past:FUNCTION, past:*).
    """
    from stallscope.views.terminal.watch import show_watched
    from stallscope.watch_verb import watch_process, watch_program, watch_recording

    targets, recording = _split(words)
    options |= {"reads": reads or not writes, "writes": writes or not reads}
    program = context.meta.get("program")
    if pid is not None:
        _check_running(program, recording, options)
        words_of = ("reads", "writes", "snapshot")
        how = {name: options[name] for name in words_of}
        result = watch_process(targets, pid, stop=options["stop"] or 0, duration=duration, **how)
    elif duration is not None:
        raise StallscopeError("--duration is for a process that runs already", now="--pid PID")
    elif program is not None:
        if recording is not None:
            raise StallscopeError("a recording and a program cannot be watched at once")
        result = watch_program(targets, program, source, **options)
    else:
        result = watch_recording(targets, recording, **options)
    show(
        "watch",
        result,
        lambda found, console, rows: show_watched(found, console, rows, log),
        as_json,
        as_csv,
        limit,
    )


def _check_running(program: Any, recording: str | None, options: dict[str, Any]) -> None:
    if program is not None or recording is not None:
        raise StallscopeError("--pid is watched alone", now="stallscope watch TARGET --pid PID")
    if options["condition"] is not None:
        raise StallscopeError(
            "--if needs what memory held at each access, and a process that runs is not held up",
            now="--source live -- PROGRAM",
        )
    if options["output"] is not None or options["force"] or options["process"] is not None:
        raise StallscopeError("-o, -f and --process are for recordings")


def _split(words: tuple[str, ...]) -> tuple[list[str], str | None]:
    """The last word is a recording when there is such a folder."""
    if words and (Path(words[-1]) / "meta.json").exists():
        return list(words[:-1]), words[-1]
    if words and words[-1].endswith(".stallscope"):
        raise StallscopeError(f"there is no recording {words[-1]}")
    return list(words), None
