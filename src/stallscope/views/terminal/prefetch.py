# SPDX-License-Identifier: Apache-2.0
"""Draws what running ahead of the misses would bring, brought, or could be written down as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import table
from stallscope.views.terminal.text import amount, clean, many

if TYPE_CHECKING:
    from stallscope.actions.prefetch import PrefetchReport
    from stallscope.actions.trying import SiteReport
    from stallscope.analyses.advice import Advice
    from stallscope.analyses.prediction import Prediction


def show_prediction(result: Prediction, console: Console, limit: int) -> None:
    where = "a thread of the same core" if result.threads == "smt" else "another core"
    hardware = "with" if result.hardware else "without"
    console.print(
        Text(f"on {result.machine}, {where} for the assist thread, {hardware} its prefetchers")
    )
    runs = table(
        ("", False), ("misses", True), ("in flight", True), ("removed", True), ("late", True),
        ("cycles", True), ("speedup", True),
    )  # fmt: skip
    for row in result.rows:
        runs.add_row(
            row.run,
            amount(row.misses),
            amount(row.in_flight),
            f"{row.removed:.1%}",
            f"{row.late:.1%}",
            amount(row.cycles),
            f"{row.speedup:.2f}",
        )
    console.print(runs)
    if result.choices:
        console.print()
    chosen = table(
        ("load", True), ("where", False), ("class", False), ("delivery", False), ("removed", True),
        ("speedup", True),
    )  # fmt: skip
    for choice in result.choices[: limit or None]:
        how = f"{choice.delivery}, {choice.distance} ahead" if choice.distance else choice.delivery
        chosen.add_row(
            f"{choice.pc:#x}",
            Text(clean(_place(choice.function, choice.line))),
            choice.kind,
            how,
            f"{choice.removed:.1%}",
            f"{choice.speedup:.2f}",
        )
    if result.choices:
        console.print(chosen)
    else:
        console.print(Text("no load is delinquent, or none can be helped"))
    for reason in result.declined:
        console.print(Text(clean(f"left alone: {reason}")))


def show_report(report: PrefetchReport, console: Console) -> None:
    kept = [row for row in report.rows if row.state == "kept"]
    what = (
        f"{len(kept)} of {len(report.rows)} loads helped" if report.rows else "no load delinquent"
    )
    console.print(
        Text(
            f"stallscope: {what}; {report.patched_seconds:.1f} of {report.seconds:.1f} s with "
            "prefetches"
        )
    )
    for row in report.rows:
        console.print(Text(clean(f"  {_told(row)}")))
    if report.rows and report.cpu_seconds and report.lost_seconds > 0:
        cost = report.lost_seconds / report.cpu_seconds
        console.print(Text(f"  looking and trying cost about {cost:.1%} of its processor time"))
    faults = report.caught + report.assist_faults
    if faults:
        console.print(Text(f"  {many(faults, 'fault')} of prefetch code caught"))


def _told(row: SiteReport) -> str:
    where = _place(row.function, row.line) or "the program"
    how = f"inline, {row.distance} ahead" if row.delivery == "inline" else row.delivery
    how = f"assist, slack {row.slack}" if row.delivery == "assist" else how
    told = f"{where} {row.kind}: {row.state}"
    if row.delivery != "none":
        told += f", {how}"
    if row.gain is not None:
        told += f", {row.gain:.2f} times as fast ({row.low:.2f} to {row.high:.2f})"
    return f"{told}; {row.reason}" if row.reason else told


def show_advice(result: Advice, console: Console, limit: int) -> None:
    if not result.rows:
        console.print(Text(f"on {result.machine} no prefetch pays"))
    for row in result.rows[: limit or None]:
        where = f"{_place(row.function, row.line)} {row.kind}"
        console.print(
            Text(clean(f"{where}: {row.words} (predicted {row.speedup:.2f} times as fast)"))
        )
    if result.patch:
        console.print()
    for line in result.patch.splitlines():
        console.print(Text(clean(line)), soft_wrap=True)


def _place(function: str, line: int | None) -> str:
    return function if line is None else f"{function}:{line}"
