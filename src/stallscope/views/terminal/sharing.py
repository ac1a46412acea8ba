# SPDX-License-Identifier: Apache-2.0
"""Who shares with whom, and where to put them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table
from stallscope.views.terminal.text import amount, clean, many

if TYPE_CHECKING:
    from stallscope.analyses.false_sharing import LineRow
    from stallscope.analyses.sharing import Sharing, ThreadRow
    from stallscope.placing import Placement

SHADES = " ░▒▓█"
COLUMNS = 64  # of the matrix in a terminal
ENTRIES = 256


def show_sharing(found: Sharing, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"{many(len(found.threads), 'thread')} on {clean(found.machine)} ({found.protocol}): "
            f"{found.remote_share:.1%} of all cycles wait for other chips' caches"
        )
    )
    if not found.started:
        console.print(
            Text(f"that is below {found.above:.1%}, so nobody looked for clusters (--above)")
        )
    else:
        _show_clusters(found, console)
    _show_lines("Lines that threads pass around", found.lines, console, limit)
    if found.would_collide:
        _show_lines("Lines that would be shared falsely", found.would_collide, console, limit)
    _show_locks(found, console, limit)


def _show_clusters(found: Sharing, console: Console) -> None:
    sure = "they stayed the same" if found.stable else "samples ran out before they were steady"
    console.print(
        Text(
            f"{many(len(found.clusters), 'cluster')} from {found.samples:,} samples, one in "
            f"{found.period or 'as many as it takes'}; {sure}"
        )
    )
    if found.clusters and found.remote_misses:
        console.print(
            Text(
                f"placed by clusters: {amount(found.remote_misses)} remote misses become "
                f"{amount(found.remote_misses_placed)}, "
                f"{amount(found.cycles)} cycles become {amount(found.cycles_placed)}"
            )
        )
    console.print()
    rows = table(("thread", False), ("cluster", True), ("chip", True), ("remote", True),
                 ("shMap, darker where it misses more", False))  # fmt: skip
    for row in found.thread_rows:
        state = row.state if row.cluster is None else str(row.cluster)
        rows.add_row(
            Text(clean(row.name)), state, str(row.chip), amount(row.remote_misses), _shades(row)
        )
    console.print(rows)


def _shades(row: ThreadRow) -> Text:
    """A character for every four counters: the largest of them."""
    width = ENTRIES // COLUMNS
    largest = max(row.map.values(), default=1)
    marks = []
    for column in range(COLUMNS):
        most = max(row.map.get(at, 0) for at in range(column * width, (column + 1) * width))
        marks.append(SHADES[min(4, -(-4 * most // largest))] if most else SHADES[0])
    return Text("".join(marks), no_wrap=True)


def _show_lines(title: str, lines: list[LineRow], console: Console, limit: int) -> None:
    console.print()
    if not lines:
        console.print(Text(f"{title}: none that matters"))
        return
    console.print(Text(title, style="bold"))
    rows = table(("object", False), ("fields", False), ("line", True), ("threads", True),
                 ("sharing", False), ("misses", True), ("gain", True), ("code", False))  # fmt: skip
    shown = lines[: limit or None]
    for row in shown:
        gain = "" if row.predicted_gain is None else f"{row.predicted_gain:.1%}"
        rows.add_row(
            Text(clean(row.object)),
            Text(clean(row.field)),
            f"{row.line:#x}",
            str(len(row.threads)),
            row.kind,
            amount(row.misses),
            gain,
            Text(clean(", ".join(row.code[:2]))),
        )
    console.print(rows)
    left_out(console, len(lines) - len(shown))


def _show_locks(found: Sharing, console: Console, limit: int) -> None:
    if not found.locks:
        return
    console.print()
    console.print(Text("Words that threads slept for", style="bold"))
    rows = table(("object", False), ("address", True), ("waits", True), ("threads", True),
                 ("misses", True))  # fmt: skip
    shown = found.locks[: limit or None]
    for row in shown:
        rows.add_row(
            Text(clean(row.object)),
            f"{row.address:#x}",
            amount(row.waits),
            str(len(row.threads)),
            amount(row.misses),
        )
    console.print(rows)
    left_out(console, len(found.locks) - len(shown))


def show_placement(found: Placement, console: Console, limit: int) -> None:
    console.print(
        Text(
            f"{clean(found.machine)}: {amount(found.remote_misses)} remote misses become "
            f"{amount(found.remote_misses_placed)}, {amount(found.cycles)} cycles "
            f"{amount(found.cycles_placed)} (gain {found.predicted_gain:.1%})"
        )
    )
    rows = table(("thread", False), ("cluster", True), ("chip", True), ("processor", True))
    shown = found.rows[: limit or None]
    for row in shown:
        cluster = "" if row.cluster is None else str(row.cluster)
        rows.add_row(Text(clean(row.name)), cluster, str(row.chip), str(row.processor))
    console.print(rows)
    left_out(console, len(found.rows) - len(shown))
    console.print()
    for command in found.taskset[: limit or None]:
        console.print(Text(clean(command)))
    console.print(Text(f"OMP_PLACES='{found.omp_places}'", overflow="fold"))
    for chip, cpus in found.cpuset.items():
        console.print(Text(f"chip {chip}: cpuset.cpus = {cpus}"))
    if found.pages:
        console.print()
        console.print(Text("Pages that another chip reads most", style="bold"))
        pages = table(("page", True), ("object", False), ("on chip", True), ("better", True),
                      ("lines", True), ("share", True))  # fmt: skip
        for page in found.pages[: limit or None]:
            pages.add_row(
                f"{page.page:#x}",
                Text(clean(page.object)),
                str(page.home),
                str(page.to),
                amount(page.lines),
                f"{page.share:.0%}",
            )
        console.print(pages)
        left_out(console, len(found.pages) - len(found.pages[: limit or None]))
