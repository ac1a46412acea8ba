# SPDX-License-Identifier: Apache-2.0
"""stallscope sharing"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.options import (
    csv_option,
    json_option,
    limit_option,
    plot_option,
    recording_argument,
)
from stallscope.cli.place import apply_options, cores_options


@click.command("sharing")
@recording_argument
@cores_options
@click.option(
    "--sampling",
    type=click.Choice(("exact", "register")),
    default="exact",
    show_default=True,
    help="Samples have a wanted source for sure, or are the last miss when a counter overflows.",
)
@click.option(
    "--above",
    type=click.FloatRange(0, 1),
    default=0.005,
    show_default=True,
    metavar="SHARE",
    help="Look for clusters from this share of cycles spent waiting for other chips.",
)
@click.option(
    "--gains",
    type=click.IntRange(0),
    default=4,
    show_default=True,
    help="Falsely shared lines whose cure is replayed.",
)
@click.option("--line-size", type=int, metavar="BYTES", help="Also what would collide with these.")
@click.option(
    "--shift", type=click.IntRange(0, 4096), default=0, metavar="BYTES",
    help="Also what would collide if all data lay so many bytes further on.",
)  # fmt: skip
@click.option("--depth", type=click.IntRange(1, 16), default=3, help="Functions in a site's name.")
@click.option("--wrapper", multiple=True, metavar="FUNC", help="Skip this function in sites.")
@apply_options
@json_option
@csv_option
@limit_option
@plot_option
def command(
    recording: str | None,
    apply: int | None,
    undo: int | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """Which threads share data, which lines they pass around, and what placing them would save.

    --json has threads, clusters, remote misses before and after, and lines; --csv has the lines.
    """
    if undo is not None:
        from stallscope.cli.place import undo_placement

        undo_placement(undo, as_json)
        return
    import msgspec

    from stallscope.clustering import sharing
    from stallscope.views import document

    found = sharing(recording, **options)
    if plot is not None:
        from stallscope.views import plots

        plots.plot(found, plot, limit)
    if apply is not None:
        from stallscope.cli.place import apply_placement

        apply_placement(found.thread_rows, apply)
    if as_json:
        body = msgspec.to_builtins(found, str_keys=True)
        document.print_json("sharing", body | {"lines": body["lines"][: limit or None]})
    elif as_csv:
        rows = [msgspec.to_builtins(row) for row in found.lines[: limit or None]]
        for row in rows:
            del row["uses"]
        document.print_csv(rows)
    else:
        from rich.console import Console

        from stallscope.views.terminal.sharing import show_sharing

        show_sharing(found, Console(highlight=False), 10 if limit is None else limit)
