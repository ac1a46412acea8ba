# SPDX-License-Identifier: Apache-2.0
"""stallscope top: what a running process waits for, now."""

from __future__ import annotations

import sys
import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from stallscope.cli.options import json_option, limit_option
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.analyses.live import LiveView
    from stallscope.analyses.reuse import Reuse
    from stallscope.record.clock import Watch
    from stallscope.views.terminal.top import Answers


@click.command("top")
@click.option(
    "-p",
    "--pid",
    type=click.IntRange(min=1),
    required=True,
    metavar="PID",
    help="Process to watch.",
)
@click.option(
    "--rate",
    type=int,
    default=251,
    show_default=True,
    metavar="N",
    help="Samples for each second of a thread's processor time.",
)
@click.option(
    "--window",
    type=float,
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How far back the screen looks; 0 for since the start.",
)
@click.option(
    "--interval",
    type=float,
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="Between two pictures.",
)
@click.option(
    "--duration",
    type=float,
    metavar="SECONDS",
    help="Without a screen: look this long, then print what there is [5].",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Put sampled addresses under breakpoints until they are touched again (key r).",
)
@click.option("--no-children", is_flag=True, help="Do not follow processes that it starts.")
@json_option
@limit_option
def command(
    pid: int,
    rate: int,
    window: float,
    interval: float,
    duration: float | None,
    watch: bool,
    no_children: bool,
    as_json: bool,
    limit: int | None,
) -> None:
    """What a running process waits for, on a screen that refreshes; the process never notices.

    Where standard output is no terminal, or with --duration or --json, one picture is printed at
    the end."""
    from stallscope.record import clock

    if interval <= 0 or window < 0 or (duration is not None and duration <= 0):
        raise StallscopeError("--interval, --window and --duration are seconds, more than 0")
    granule = clock.WATCHED[0] if watch else 0
    with clock.watch(pid, rate=rate, children=not no_children, reuse=granule) as watched:
        if duration is None and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            _screen(watched, pid, window, interval)
        else:
            _once(watched, duration or 5, as_json, limit)


def _view(watched: Watch, window: float) -> LiveView:
    from stallscope.analyses.live import LiveView
    from stallscope.record.sampled import images_of

    images = images_of(watched.run, watched.live)
    if not images:
        raise StallscopeError("nothing was seen of the process", now="stallscope doctor")
    since = max(0, int((watched.run.seconds - window) * 1e9)) if window else 0
    return LiveView(images[0], images, since=since)


def _reuse(view: LiveView) -> Reuse | None:
    """Of all that was watched since the start: there is too little of it to leave some out."""
    from stallscope.analyses.reuse import watched_reuse

    return watched_reuse(view.images) if view.recording.meta.options.get("watch") else None


def _answers(view: LiveView) -> Answers:
    from stallscope.analyses.live import live_objects, live_places
    from stallscope.views.terminal.top import Answers

    return Answers(
        live_objects(view),
        live_places(view, by_line=True),
        live_places(view, by_line=False),
        _reuse(view),
    )


def _screen(watched: Watch, pid: int, window: float, interval: float) -> None:
    from rich.console import Console

    from stallscope.views.terminal.top import run

    def save() -> str:
        from stallscope.record.clock import save

        return save(watched).path.name

    title = f"{PurePath(watched.run.command[0]).name} ({pid})"
    console = Console(highlight=False)
    run(title, watched.poll, lambda: _answers(_view(watched, window)), save, interval, console)


def _once(watched: Watch, duration: float, as_json: bool, limit: int | None) -> None:
    from stallscope.analyses.live import live_objects
    from stallscope.cli.machine_options import show
    from stallscope.views.terminal.live import show_objects

    end = time.monotonic() + duration
    try:
        while watched.poll() and time.monotonic() < end:
            time.sleep(min(0.05, max(0, end - time.monotonic())))
    except KeyboardInterrupt:
        pass
    view = _view(watched, 0)
    reuse, result = _reuse(view), live_objects(view)
    if as_json and reuse is not None:
        _print_both(result, reuse, limit)
        return
    show("top", result, show_objects, as_json, False, limit)
    if reuse is not None:
        _show_reuse(reuse, limit)


def _print_both(result: Any, reuse: Reuse, limit: int | None) -> None:
    import msgspec

    from stallscope.views import document

    body = msgspec.to_builtins(result)
    more = {"rows": body["rows"][: limit or None], "reuse": msgspec.to_builtins(reuse)}
    document.print_json("top", body | more)


def _show_reuse(reuse: Reuse, limit: int | None) -> None:
    from rich.console import Console

    from stallscope.views.terminal.reuse import show_reuse

    console = Console(highlight=False)
    console.print()
    if reuse.watches:
        show_reuse(reuse, console, 20 if limit is None else limit)
    else:
        console.print("nothing was watched: no sample waited at an address that is known")
