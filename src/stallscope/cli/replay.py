# SPDX-License-Identifier: Apache-2.0
"""stallscope replay"""

from __future__ import annotations

from typing import Any

import click

from stallscope.cli.machine_options import machine_options, region_option, show, view_of
from stallscope.cli.options import csv_option, json_option, limit_option, recording_argument
from stallscope.record import PROBES


@click.command("replay")
@recording_argument
@click.argument("other", required=False, type=click.Path())
@click.option(
    "--slice",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Of two programs: instructions that each runs in turn.",
)
@click.option(
    "--probe",
    "probes",
    multiple=True,
    type=click.Choice(PROBES),
    help="What to count on the machine [misses].",
)
@click.option(
    "--shards",
    type=click.IntRange(1),
    metavar="N",
    help="In so many parts of the caches' sets, by several processes; exact, or refused.",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Of those [all processors].")
@region_option
@machine_options
@json_option
@csv_option
@limit_option
def command(
    recording: str | None,
    other: str | None,
    slice: int,
    probes: tuple[str, ...],
    shards: int | None,
    jobs: int | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    **options: Any,
) -> None:
    """Run a kept trace through a machine, and keep the result for the other verbs.

    With two recordings: both at once on one machine of several cores, and who slows whom."""
    if recording is not None and other is not None:
        from stallscope.together import together
        from stallscope.views.terminal.together import show_together

        machine = {"machine": options["machine"]} if options.get("machine") else {}
        both = together(recording, other, slice=slice, **machine)
        show("replay", both, show_together, as_json, as_csv, limit)
        return
    if shards is not None:
        from stallscope.scale.shards import replay_in_shards
        from stallscope.views.terminal.objects import show_levels

        if set(probes) - {"misses"}:
            raise click.UsageError("--shards counts misses; other probes need the whole replay")
        chosen = {name: options[name] for name in ("machine", "process")}
        found = replay_in_shards(recording, shards, jobs=jobs, **chosen)
        show("replay", found.levels(), show_levels, as_json, as_csv, limit)
        return
    from stallscope.analyses.levels import levels
    from stallscope.views.terminal.objects import show_levels

    counted = {name: name in probes for name in PROBES if name not in ("misses", "frames")}
    view = view_of(recording, stack_by_function="frames" in probes, **counted, **options)
    show("replay", levels(view), show_levels, as_json, as_csv, limit)
