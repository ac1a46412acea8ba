# SPDX-License-Identifier: Apache-2.0
"""Draws logical counters, plans of them, and the list of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean

if TYPE_CHECKING:
    from stallscope.analyses.counters import Counters, Plan
    from stallscope.counting import Events


def show_counters(result: Counters, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"machine {clean(result.machine)}: {len(result.groups)} groups on {result.counters} "
            f"counters, {result.rounds:,} rounds of {result.ratio} slices of "
            f"{result.slice:,} {result.by}, estimator {result.estimator}, "
            f"overhead {result.overhead:.2%}"
        )
    )
    rows = table(
        ("event", False),
        ("full", True),
        ("estimate", True),
        ("95% from", True),
        ("to", True),
        ("error", True),
        ("KL", True),
        ("", False),
    )
    for row in result.rows[: limit or None]:
        rows.add_row(
            row.event,
            "" if row.full is None else amount(row.full),
            amount(row.estimate),
            amount(row.low),
            amount(row.high),
            "" if row.error is None else f"{row.error:.1%}",
            "" if row.kl is None else f"{row.kl:.3f}",
            row.note,
        )
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)


def show_plan(result: Plan, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"{len(result.groups)} groups on {result.counters} counters; a round is "
            f"{result.ratio} slices of {result.slice:,} {result.by}: {result.round:,}"
        )
    )
    groups = table(("group", True), ("slices", True), ("events, and their counters", False))
    for one in result.groups:
        events = ", ".join(f"{event} {counter}" for event, counter in one.events.items())
        groups.add_row(str(one.group), str(one.slices), events)
    console.print(groups)
    console.print("\nwhat error to expect (95%) of an event that comes at random")
    errors = table(("one in cycles", True), ("rounds", True), ("error", True))
    for row in result.expected:
        errors.add_row(f"{row.every:,}", str(row.rounds), f"±{row.error:.2%}")
    console.print(errors)


def show_events(result: Events, console: Console, limit: int) -> None:
    console.print(Text(f"machine {clean(result.machine)}: {result.counters} counters"))
    rows = table(("event", False), ("area", False), ("counters", False), ("meaning", False))
    for row in result.rows[: limit or None]:
        where = ", ".join(map(str, row.counters)) or "its own"
        rows.add_row(row.event, row.area, where, row.meaning)
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)
