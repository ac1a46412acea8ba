# SPDX-License-Identifier: Apache-2.0
"""stallscope agent"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

from stallscope.cli.options import Size


@click.command("agent")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("stallscope-agent"),
    show_default=True,
    help="Where recordings go.",
)
@click.option("--budget", default="1%", show_default=True, help="Of one processor's time.")
@click.option("--duration", type=float, default=2.0, show_default=True, help="Seconds of a look.")
@click.option("--rate", type=int, default=97, show_default=True, help="Samples a second.")
@click.option("--keep-days", type=float, default=14.0, show_default=True, metavar="DAYS")
@click.option("--max-size", type=Size(), default="1G", show_default=True, help="Of all recordings.")
@click.option(
    "--min-free", type=Size(), default="256M", show_default=True, help="To be left on the disk."
)
@click.option("--program", "programs", multiple=True, help="Only this one; several for more.")
@click.option("--host", default="", help="What this host is called in a fleet [its name].")
@click.option("--listen", type=click.IntRange(0, 65535), metavar="PORT", help="For OpenMetrics.")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Looks, then end [for ever].")
def command(
    folder: Path,
    budget: str,
    max_size: int,
    min_free: int,
    programs: tuple[str, ...],
    listen: int | None,
    rounds: int | None,
    **options: Any,
) -> None:
    """Sample the programs of this host in turn, by the clock, within a budget.

    Recordings go into a folder that `fleet ingest` reads; old ones are removed. Ctrl-C or SIGTERM
    ends it after the look that it is at.
    """
    from stallscope.sampling import share
    from stallscope.scale.agent import Agent, Settings
    from stallscope.scale.metrics import PATH, Server

    def say(text: str) -> None:
        click.echo(f"stallscope: {text}", err=True)

    settings = Settings(
        folder=folder,
        budget=share(budget),
        most_bytes=max_size,
        least_free=min_free,
        programs=programs,
        **options,
    )
    agent = Agent(settings, say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop.set())
    server = Server(agent.numbers, listen) if listen is not None else None
    if server is not None:
        say(f"numbers at http://127.0.0.1:{server.port}{PATH}")
    try:
        agent.run(rounds)
    finally:
        if server is not None:
            server.close()
