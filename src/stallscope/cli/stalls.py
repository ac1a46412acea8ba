# SPDX-License-Identifier: Apache-2.0
"""What the processor waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import show
from stallscope.cli.options import (
    Count,
    csv_option,
    json_option,
    limit_option,
    plot_option,
    recording_argument,
)


@click.command("stalls")
@recording_argument
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@click.option("--process", metavar="PID|all", help="Of this process [all].")
@click.option(
    "--mode",
    metavar="real|single|inorder",
    default="real",
    help="Bundles of instructions out of order, one instruction a bundle, or these in order.",
)
@click.option(
    "--by",
    metavar="cause|function|line|instruction|object",
    default="cause",
    help="What the rows are [cause].",
)
@click.option(
    "--without",
    multiple=True,
    metavar="CAUSE",
    help="Replay with this cause made ideal, and show what is really gained. May be repeated.",
)
@click.option(
    "--shards",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="In so many pieces of time, by several processes: not exact, and says how far [1].",
)
@click.option(
    "--warmup",
    type=Count(),
    metavar="N",
    help="Instructions that each piece runs before its first one [1M].",
)
@json_option
@csv_option
@limit_option
@plot_option
def command(
    recording: str | None,
    machine: str | None,
    process: str | None,
    mode: str,
    by: str,
    without: tuple[str, ...],
    shards: int,
    warmup: int | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
) -> None:
    """Cycles per instruction by what the processor waited for.

    Replays a kept trace (record --trace) through the pipeline of a machine. CPI is completion CPI
    plus the stalls by cause, exactly.

    \b
    stallscope stalls                           the newest recording here
    stallscope stalls prog.stallscope --by line --machine server
    stallscope stalls --without data_cache      what a perfect data cache would gain
    stallscope stalls --shards 8                a large trace, by several processes
    """
    from stallscope.analyses.stalls import stalls
    from stallscope.pipelines import core_view
    from stallscope.views.terminal.stalls import show_stalls

    split = {"pieces": shards} | ({} if warmup is None else {"warmup": warmup})
    view = core_view(recording, machine=machine, process=process, mode=mode, **split)
    result = stalls(view, by=by, without=without)
    _say_what_is_missing(view)
    if as_csv:
        return _print_csv(result.rows[: limit or None])
    return show("stalls", result, show_stalls, as_json, as_csv, limit, plot)


def _print_csv(rows: list[Any]) -> None:
    """A column for each cause."""
    import msgspec

    from stallscope.analyses.stalls import SHOWN
    from stallscope.views import document

    plain = [msgspec.to_builtins(row) for row in rows]
    document.print_csv(
        [
            {key: value for key, value in row.items() if key != "causes"}
            | {cause: row["causes"].get(cause, 0) for cause in SHOWN if "causes" in row}
            for row in plain
        ]
    )


def _say_what_is_missing(view: Any) -> None:
    if view.left_out:
        names = ", ".join(image.meta.name for image in view.left_out)
        click.echo(f"stallscope: left out, as they have no trace: {names}", err=True)
