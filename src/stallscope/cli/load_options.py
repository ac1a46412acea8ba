# SPDX-License-Identifier: Apache-2.0
"""What the verbs about delinquent loads share: which loads are, and of which misses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stallscope.cli.machine_options import view_of

if TYPE_CHECKING:
    from stallscope.analyses.loads import Limits

_NAMES = ("threshold", "secondary", "buffer", "read_at", "least")


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--least",
            type=int,
            metavar="N",
            help="Runs of a load a visit that its trace is grown to [256].",
        ),
        click.option("--read-at", type=int, metavar="N", help="Samples at which it is read [80]."),
        click.option("--buffer", type=int, metavar="N", help="Samples the buffer holds [100]."),
        click.option(
            "--secondary",
            type=float,
            metavar="SHARE",
            help="Of the threshold, for loads on the trace of a delinquent one [0.5].",
        ),
        click.option(
            "--threshold",
            type=int,
            metavar="N",
            help="Samples that make a load delinquent [500; of a clock's 20].",
        ),
    ):
        function = option(function)
    return function


def limits_of(options: dict[str, Any], live: bool = False) -> tuple[Limits, dict[str, Any]]:
    """The limits, and the options that are left."""
    from stallscope.analyses.loads import LIVE_THRESHOLD, Limits

    given = {name: options[name] for name in _NAMES if options[name] is not None}
    if live:
        given = {"threshold": LIVE_THRESHOLD} | given
    left = {name: value for name, value in options.items() if name not in _NAMES}
    return Limits(**given), left


def load_view(recording: str | None, options: dict[str, Any]) -> Any:
    """By default, of a machine the misses of its last cache."""
    from stallscope.recording import is_sampled, open_recording

    opened: Any = open_recording(recording)
    options = {name: value for name, value in options.items() if name not in _NAMES}
    if options.get("event") is None and not is_sampled(opened.meta):
        options["event"] = "llc"
    return view_of(opened, **options)
