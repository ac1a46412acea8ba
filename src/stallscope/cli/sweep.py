# SPDX-License-Identifier: Apache-2.0
"""stallscope sweep"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stallscope.cli.machine_options import show
from stallscope.cli.options import Size, csv_option, json_option, limit_option, plot_option


@click.command("sweep")
@click.argument("recordings", nargs=-1, type=click.Path())
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=A,B,C",
    help="Values of a key of the machine file; of several keys, all combinations. "
    "64K..4M*2 and 1..16 and 4..16+4 are ranges.",
)
@click.option(
    "--designs",
    type=click.Path(),
    metavar="FILE.csv",
    help="Instead: keys in the first line, a design a line.",
)
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="NAME|FILE",
    help="The machine that is changed; several for each of them [default].",
)
@click.option(
    "--probe",
    type=click.Choice(["misses", "classify"]),
    default="misses",
    help="classify: also why each level misses [misses].",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Workers here [all processors].")
@click.option("--cluster", metavar="ADDRESS", help="Of a dask scheduler, whose workers to use.")
@click.option("--tls-ca", type=click.Path(), metavar="FILE", help="Of the cluster: its authority.")
@click.option("--tls-cert", type=click.Path(), metavar="FILE", help="Our certificate.")
@click.option("--tls-key", type=click.Path(), metavar="FILE", help="Our key.")
@click.option(
    "--separately", is_flag=True, help="A replay for each design, even where one pass is exact."
)
@click.option("--max-bytes", type=Size(), help="The best design with at most so much cache.")
@click.option(
    "--max-latency",
    type=float,
    metavar="CYCLES",
    help="The smallest design whose accesses take no longer on average.",
)
@json_option
@csv_option
@limit_option
@plot_option
def command(
    recordings: tuple[str, ...],
    settings: tuple[str, ...],
    machines: tuple[str, ...],
    probe: str,
    separately: bool,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """Kept traces on many machines: a row for each recording, design and level.

    What an earlier sweep computed is kept with the recording and not computed again. A design that
    cannot be is reported in its row, and the others go on.
    """
    from stallscope.scale.grid import parse
    from stallscope.scale.sweep import sweep
    from stallscope.views.terminal.sweep import Bar, show_sweep

    tls = {name: options.pop(f"tls_{name}") for name in ("ca", "cert", "key")}
    with Bar() as bar:
        result = sweep(
            list(recordings),
            parse(settings),
            machine=list(machines) or "default",
            classify=probe == "classify",
            one_pass=not separately,
            tls={name: file for name, file in tls.items() if file is not None},
            on_progress=bar.show,
            **options,
        )
    show("sweep", result, show_sweep, as_json, as_csv, limit, plot)
