# SPDX-License-Identifier: Apache-2.0
"""Draws what a fleet holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import clean, duration, many, size

if TYPE_CHECKING:
    from stallscope.analyses.fleet import FleetBuilds, FleetDiff, FleetObjects, FleetTop
    from stallscope.scale.fleet import Ingested
    from stallscope.scale.fleet_folder import Compacted
    from stallscope.scale.symbols import FleetSymbols

ID = 12  # characters of a build id that are shown


def show_ingested(result: Ingested, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"{many(result.added, 'recording')} added to {clean(result.fleet)}, "
            f"{result.known:,} known, {result.skipped:,} skipped"
            + (f", {result.unfinished:,} unfinished" if result.unfinished else "")
        )
    )
    for row in result.rows[: limit or None]:
        console.print(Text(f"  skipped {clean(row.recording)}: {clean(row.error)}", style="red"))
    left_out(console, len(result.rows) - limit if limit else 0)


def show_symbols(result: FleetSymbols, console: Console, limit: int) -> None:
    told = f"symbols of {many(len(result.rows), 'build')} in {clean(result.fleet)}"
    told += f", {result.added:,} of them new" if result.added else ""
    told += f"; {many(result.renamed, 'recording')} named by them" if result.renamed else ""
    console.print(Text(told))
    drawn = table(("build", False), ("variables", True), ("size", True), ("file", False))
    for row in result.rows[: limit or None]:
        drawn.add_row(row.build, f"{row.variables:,}", size(row.bytes), Text(clean(row.file)))
    if result.rows:
        console.print(drawn)
    left_out(console, len(result.rows) - limit if limit else 0)


def show_compacted(result: Compacted, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"{clean(result.fleet)}: {result.files_before:,} files of {size(result.bytes_before)} "
            f"are {result.files:,} of {size(result.bytes)} now"
        )
    )


def show_top(result: FleetTop, console: Console, limit: int) -> None:
    made = f"{many(result.recordings, 'recording')} of {many(result.hosts, 'host')}"
    console.print(Text(f"{made}, {result.first_day} to {result.last_day}"))
    named = (("object", False),) if result.by == "object" else ()
    rows = table(
        ("waited", True),
        ("share", True),
        ("of its time", True),
        ("hosts", True),
        ("recordings", True),
        ("program", False),
        *named,
    )
    for row in result.rows[: limit or None]:
        rows.add_row(
            duration(row.wait),
            f"{row.share:.1%}",
            f"{row.of_time:.1%}",
            f"{row.hosts:,}",
            f"{row.recordings:,}",
            Text(clean(row.program)),
            *([Text(clean(row.object or ""))] if named else []),
        )
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)


def show_builds(result: FleetBuilds, console: Console, limit: int) -> None:
    rows = table(
        ("build", False),
        ("first day", False),
        ("last day", False),
        ("hosts", True),
        ("recordings", True),
        ("program", False),
    )
    for row in result.rows[: limit or None]:
        days = (row.first_day, row.last_day)
        counts = (f"{row.hosts:,}", f"{row.recordings:,}")
        rows.add_row(clean(row.build[:ID]), *days, *counts, Text(clean(row.program)))
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)


def show_objects(result: FleetObjects, console: Console, limit: int) -> None:
    of = f", build {clean(result.build)}" if result.build else ""
    console.print(Text(f"{clean(result.program)}{of}: {many(result.recordings, 'recording')}"))
    rows = table(
        ("of its time", True), ("95% of hosts' means", True), ("hosts", True), ("object", False)
    )
    for row in result.rows[: limit or None]:
        interval = f"{row.low:.1%} to {row.high:.1%}"
        rows.add_row(f"{row.share:.1%}", interval, f"{row.hosts:,}", Text(clean(row.object)))
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)


def show_diff(result: FleetDiff, console: Console, limit: int) -> None:
    how = "on the same hosts" if result.paired else "on other hosts"
    console.print(
        Text(
            f"{clean(result.program)}: {clean(result.before[:ID])} against "
            f"{clean(result.after[:ID])} {how}, {many(result.recordings, 'recording')} of "
            f"{many(result.hosts, 'host')}, {many(result.compared, 'object')}"
        )
    )
    if not result.rows:
        console.print(Text("nothing changed that is more than chance"))
        return
    rows = table(
        ("", False),
        ("before", True),
        ("after", True),
        ("change", True),
        ("95%", True),
        ("hosts changed", True),
        ("there", True),
        ("since", False),
        ("object", False),
    )
    for row in result.rows[: limit or None]:
        rows.add_row(
            row.verdict,
            f"{row.before:.2%}",
            f"{row.after:.2%}",
            f"{row.change:+.2%}",
            f"{row.low:+.2%} to {row.high:+.2%}",
            f"{row.changed:,} of {row.hosts:,}",
            "" if row.ratio_there is None else f"× {row.ratio_there:.2f}",
            row.since or "",
            Text(clean(row.object)),
        )
    console.print(rows)
    left_out(console, len(result.rows) - limit if limit else 0)
