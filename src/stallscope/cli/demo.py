# SPDX-License-Identifier: Apache-2.0
"""stallscope demo"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from rich.console import Console

    from stallscope.analyses.live import LiveObjects
    from stallscope.recording import Recording

PROGRAM = "list"
THREADED, GROUPS, TURN = "scoreboards", ("8", "2", "800", "1"), 200
SHORTER = ("8", "2", "100", "1")  # each round waits for a monitor
COUNTER, COUNTING = "rounds_done", "every-hundredth"  # a variable of it, and a monitor
LONGER = ("200000", "60", "shuffled")  # some seconds at native speed


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="demo.stallscope",
    show_default=True,
    help="Folder to make.",
)
def command(output: str) -> None:
    """Record a bundled program and show what was found.

    The program is a linked list whose nodes were shuffled in memory.
    """
    from rich.console import Console
    from rich.text import Text

    from stallscope import workloads
    from stallscope.analyses.info import info
    from stallscope.analyses.objects import lines, objects
    from stallscope.analyses.pages import pages
    from stallscope.analyses.stalls import stalls
    from stallscope.pipelines import core_view
    from stallscope.record import record
    from stallscope.viewing import page_view, view
    from stallscope.views import plots
    from stallscope.views.terminal import info as info_view
    from stallscope.views.terminal.objects import show_objects, show_places
    from stallscope.views.terminal.pages import show_pages
    from stallscope.views.terminal.stalls import show_stalls

    console = Console(highlight=False)
    # The types of its data are read from the program, so it stays until all is shown.
    context = click.get_current_context()
    folder = context.with_resource(tempfile.TemporaryDirectory(prefix="stallscope-demo-"))
    program = workloads.build(PROGRAM, Path(folder))
    arguments = workloads.truth(PROGRAM).command_arguments("default")
    shown = shlex.join([PROGRAM, *arguments])
    console.print(Text(f"$ stallscope record --trace -o {output} -- {shown}", style="bold"))
    recorded = record([str(program), *arguments], output=output, force=True, trace=True)
    native = Path(output).with_suffix(".native" + Path(output).suffix)
    waits = _at_native_speed([str(program), *LONGER], native)
    console.print(Text(f"\n$ stallscope info {output}", style="bold"))
    info_view.show(info(recorded.recording), console, 10)
    picture = Path(output).with_suffix(".objects.html")
    console.print(Text(f"\n$ stallscope objects {output} --plot {picture}", style="bold"))
    misses = view(recorded.recording)
    found = objects(misses)
    show_objects(found, console, 3)
    plots.plot(found, picture)
    _show_slice(recorded.recording, output, console)
    console.print(Text(f"\n$ stallscope lines {output}", style="bold"))
    by_line = lines(misses)
    show_places(by_line, console, 3)
    console.print(Text(f"\n$ stallscope stalls {output}", style="bold"))
    show_stalls(stalls(core_view(recorded.recording)), console, 3)
    top, line = found.rows[0], by_line.rows[0]
    console.print(
        Text(
            f"\n{top.latency_share:.0%} of the waiting is for {top.object}, most of it at "
            f"{line.file}:{line.line}."
        )
    )
    console.print(Text(f"\n$ stallscope pages {output}", style="bold"))
    show_pages(pages(page_view(recorded.recording)), console, 4)
    _show_monitor(recorded.recording, output, console)
    _show_waits(waits, native, console)
    _show_sharing(Path(folder), Path(output), console)
    console.print(Text(f"\nThe recording is {recorded.recording.path}"))
    console.print(Text(f"The picture is {picture.absolute()}"))
    console.print(Text("next: stallscope record -- YOUR PROGRAM"))
    _make_report(recorded.recording, output, console)


def _at_native_speed(command: list[str], output: Path) -> LiveObjects | StallscopeError:
    """What it waits for on this machine, or why that cannot be seen."""
    from stallscope.analyses.live import LiveView, live_objects
    from stallscope.record import record
    from stallscope.viewing import view

    try:
        made = record(command, source="clock", output=output, force=True)
        found = view(made.recording)
        assert isinstance(found, LiveView)
        return live_objects(found)
    except StallscopeError as error:
        return error


def _show_monitor(recording: Recording, output: str, console: Console) -> None:
    """A few lines that watch a machine while the program runs on it."""
    from rich.text import Text

    from stallscope.systems import monitor_run
    from stallscope.views.terminal.monitor import show_run

    console.print(Text(f"\n$ stallscope monitor run miss-rate {output}", style="bold"))
    show_run(monitor_run("miss-rate", recording), console, 3)


def _make_report(recording: Recording, output: str, console: Console) -> None:
    """Everything in one page, whose path is the last line."""
    from rich.text import Text

    from stallscope.reporting import report
    from stallscope.views import html
    from stallscope.views.terminal.report import show_report

    page = Path(output).with_suffix(".html")
    console.print(Text(f"\n$ stallscope report {output} -o {page}", style="bold"))
    found = report(recording)
    show_report(found, page, html.write(found, page, force=True))


def _show_waits(waits: LiveObjects | StallscopeError, output: Path, console: Console) -> None:
    from rich.text import Text

    from stallscope.views.terminal.live import show_objects

    shown = shlex.join([PROGRAM, *LONGER])
    console.print(
        Text(f"\n$ stallscope record --source clock -o {output} -- {shown}", style="bold")
    )
    if isinstance(waits, StallscopeError):
        console.print(Text(f"not here: {waits}"))
        return
    console.print(Text(f"$ stallscope objects {output}", style="bold"))
    show_objects(waits, console, 3)


def _show_sharing(folder: Path, output: Path, console: Console) -> None:
    """Another program: who shares data with whom is a question for several threads."""
    from rich.text import Text

    from stallscope import workloads
    from stallscope.clustering import sharing
    from stallscope.record import record
    from stallscope.views.terminal.sharing import show_sharing

    threads = output.with_suffix(".threads" + output.suffix)
    shown = shlex.join([THREADED, *GROUPS])
    words = f"--trace --turn {TURN} --machine none -o {threads} -- {shown}"
    console.print(Text(f"\n$ stallscope record {words}", style="bold"))
    program = workloads.build(THREADED, folder)
    made = record(
        [str(program), *GROUPS], output=threads, force=True, trace=True, turn=TURN, machine="none"
    )
    console.print(Text(f"$ stallscope sharing {threads}", style="bold"))
    show_sharing(sharing(made.recording, gains=0), console, 2)
    _show_watched(made.recording, threads, console)
    _show_live_monitor(program, console)


def _show_watched(recording: Recording, output: Path, console: Console) -> None:
    """Every access to one variable."""
    from rich.text import Text

    from stallscope.views.terminal.watch import show_watched
    from stallscope.watching import watch

    console.print(Text(f"\n$ stallscope watch {COUNTER} {output}", style="bold"))
    show_watched(watch(COUNTER, recording), console, 2, log=False)


def _show_live_monitor(program: Path, console: Console) -> None:
    """A monitor beside the program itself, at native speed."""
    from rich.text import Text

    from stallscope.living import monitor_live
    from stallscope.views.terminal.monitor import show_live

    shown = shlex.join([THREADED, *SHORTER])
    words = f"monitor run {COUNTING} --watch {COUNTER} --live --limit 2 -- {shown}"
    console.print(Text(f"\n$ stallscope {words}", style="bold"))
    try:
        found = monitor_live(COUNTING, [str(program), *SHORTER], watch=[COUNTER])
        show_live(found, console, 2)
    except StallscopeError as error:
        console.print(Text(f"not here: {error}"))


def _show_slice(recording: Recording, output: str, console: Console) -> None:
    """The code that would run ahead of the misses, of the load that misses most."""
    from rich.text import Text

    from stallscope.ahead import slices
    from stallscope.analyses.objects import MissView
    from stallscope.viewing import view
    from stallscope.views.terminal.slices import show_slices

    console.print(Text(f"\n$ stallscope slices {output} --event l1 --limit 1", style="bold"))
    found = view(recording, event="l1")
    assert isinstance(found, MissView)
    show_slices(slices(found, most=1), console, 1)
