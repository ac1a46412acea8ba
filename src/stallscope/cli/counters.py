# SPDX-License-Identifier: Apache-2.0
"""stallscope counters"""

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
)


@click.command("counters")
@click.argument("words", nargs=-1, metavar="[RECORDING | -- PROGRAM ARGS…]")
@click.option(
    "--source",
    default="simulation",
    metavar="simulation|perf",
    help="A recording on a simulated core, or the kernel's events of a program [simulation].",
)
@click.option("--frequency", type=float, default=500.0, help="Of perf: switches a second [500].")
@click.option(
    "--privilege",
    default="both",
    metavar="user|kernel|both",
    help="Of perf: whose events count [both].",
)
@click.option("--alone", is_flag=True, help="Of perf: count nothing fully beside it; costs less.")
@click.option("-e", "--events", multiple=True, metavar="NAMES|all", help="What is counted [all].")
@click.option("--counters", "count", type=int, metavar="N", help="Physical ones [the machine's].")
@click.option("--slice", "slice_length", type=Count(), metavar="CYCLES", help="[200,000]")
@click.option("--ratio", type=int, metavar="N", help="Slices a round [as many as groups].")
@click.option(
    "--by",
    default="cycles",
    metavar="cycles|instructions",
    help="What slices are measured in [cycles].",
)
@click.option(
    "--estimator",
    default="invariants",
    metavar="invariants|linear|interpolation",
    help="How counts of slices become counts of rounds [invariants].",
)
@click.option("--seed", type=int, default=1, help="Of the order of the groups [1].")
@click.option("--skip", type=click.IntRange(min=0), default=0, help="Rounds to warm up [0].")
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and run nothing.")
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="Write each round's vector here when the round ends, one JSON document a line.",
)
@click.option("--machine", metavar="NAME|FILE", help="Simulate this machine [as recorded].")
@click.option("--process", metavar="PID|all", help="Of this process [all].")
@click.option("--mode", default="real", metavar="real|single|inorder", help="[real]")
@json_option
@csv_option
@limit_option
@plot_option
def command(
    words: tuple[str, ...],
    source: str,
    frequency: float,
    privilege: str,
    alone: bool,
    events: tuple[str, ...],
    count: int | None,
    only_plan: bool,
    log: Path | None,
    machine: str | None,
    process: str | None,
    mode: str,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    **options: Any,
) -> int | None:
    """Many events on few counters: multiplexed counts beside the full ones.

    Groups of events that fit on the counters together take turns, in an order that is drawn anew
    in each round; what each counts is scaled to the round. All is counted fully at the same time,
    so that the error is known.

    \b
    stallscope counters prog.stallscope -e loads,from_memory,mispredicts --counters 4
    stallscope counters -e all --ratio 10 --estimator linear --json
    stallscope counters -e all --plan
    stallscope counters --source perf -e page-faults,sched:sched_switch -- PROGRAM
    """
    from stallscope import machines
    from stallscope.analyses.counters import counters, plan
    from stallscope.counting import known_events, round_log
    from stallscope.pipelines import core_view
    from stallscope.views.terminal.counters import show_counters, show_plan

    if source == "perf":
        words_of = options | {"alone": alone}
        return _here(
            words, events, count, frequency, privilege, log, as_json, as_csv, limit, plot, words_of
        )
    recording = _recording(words, source)
    wanted = events or ("all",)
    if only_plan:
        number = count if count is not None else machines.load(machine or "default").core.counters
        kept = {name: options[name] for name in ("slice_length", "ratio", "by")}
        result = plan(known_events(), wanted, number, **kept)
        show("counters-plan", result, show_plan, as_json, as_csv, limit)
        return None
    view = core_view(recording, machine=machine, process=process, mode=mode)
    with round_log(log) as on_round:
        found = counters(view, wanted, count=count, on_round=on_round, **options)
    show("counters", found, show_counters, as_json, as_csv, limit, plot)
    return None


def _recording(words: tuple[str, ...], source: str) -> str | None:
    from stallscope.errors import StallscopeError

    if source != "simulation":
        raise StallscopeError(f"there is no source {source!r}", "simulation or perf")
    if len(words) > 1:
        raise StallscopeError(
            "one recording is expected", f"there are {len(words)} words", "--source perf -- PROGRAM"
        )
    return words[0] if words else None


def _here(
    words: tuple[str, ...],
    events: tuple[str, ...],
    count: int | None,
    frequency: float,
    privilege: str,
    log: Path | None,
    as_json: bool,
    as_csv: bool,
    limit: int | None,
    plot: Path | None,
    options: dict[str, Any],
) -> int:
    """Counts while the program runs; its exit status is the command's."""
    from stallscope.counting import count_here
    from stallscope.views.terminal.counters import show_counters

    result, status = count_here(
        words,
        events,
        counters=4 if count is None else count,
        ratio=options["ratio"],
        frequency=frequency,
        privilege=privilege,
        estimator=options["estimator"],
        seed=options["seed"],
        full=not options["alone"],
        log=log,
    )
    show("counters", result, show_counters, as_json, as_csv, limit, plot)
    return status if status >= 0 else 128 - status
