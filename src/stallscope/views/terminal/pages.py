# SPDX-License-Identifier: Apache-2.0
"""Draws how much memory a program needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out, table, together
from stallscope.views.terminal.text import amount, clean, size

if TYPE_CHECKING:
    from stallscope.analyses.page_replacement import PageReplacement
    from stallscope.analyses.pages import Pages
    from stallscope.scale.curves import ExactCurve

SIZES = 16  # of the curve that are shown
OBJECTS = 10


def show_pages(result: Pages, console: Console, limit: int) -> None:
    together(result.processes, console)
    _facts(result, console)
    console.print()
    more = (("MRU", True), ("reversed rank", True)) if result.mru_curve else ()
    curve = table(("memory", True), ("pages", True), ("misses", True), *more, ("", False))
    for row in result.points(limit or len(result.curve)):
        mark = "<- knee" if row.pages == result.knee.pages else ""
        bytes_ = size(row.pages * result.page_size)
        others = [
            f"{result.at(row.pages, of):,}" for of in (result.mru_curve, result.reversed_rank) if of
        ]
        curve.add_row(bytes_, f"{row.pages:,}", f"{row.misses:,}", *others, mark)
    console.print(curve)
    if len(result.threads) > 1:
        console.print()
        threads = table(
            ("thread", True),
            ("footprint", True),
            ("references", True),
            ("logged", True),
            ("", False),
        )
        for one in result.threads[: limit or None]:
            threads.add_row(
                str(one.thread),
                size(one.footprint_pages * result.page_size),
                amount(one.references),
                amount(one.logged),
                Text(clean(one.name)),
            )
        console.print(threads)
    console.print()
    objects = table(
        ("footprint", True),
        ("references", True),
        ("share", True),
        ("logged", True),
        ("object", False),
    )
    shown = min(limit or len(result.objects), OBJECTS if limit else len(result.objects))
    for each in result.objects[:shown]:
        objects.add_row(
            size(each.footprint_pages * result.page_size),
            amount(each.references),
            f"{each.share:.1%}",
            amount(each.logged),
            Text(clean(each.object)),
        )
    console.print(objects)
    left_out(console, len(result.objects) - shown)


def show_exact(result: ExactCurve, console: Console, limit: int) -> None:
    """As many sizes as are asked for, the last among them."""
    console.print(
        Text(
            f"{result.footprint_pages:,} pages of {size(result.page_size)}, "
            f"{amount(result.references)} references"
        )
    )
    curve = table(("memory", True), ("pages", True), ("misses", True))
    step = max(1, -(-len(result.rows) // limit)) if limit else 1
    for row in result.rows[len(result.rows) - 1 :: -step][::-1]:
        bytes_ = size(row.pages * result.page_size)
        curve.add_row(bytes_, f"{row.pages:,}", f"{row.misses:,}")
    console.print(curve)


def _facts(result: Pages, console: Console) -> None:
    bytes_ = size(result.footprint_bytes)
    window = amount(result.working_set.window)
    whose = "" if result.of == "all" else f" of {clean(result.of)}"
    how = "every access" if result.exact else "the references kept"
    protected = result.source == "pages"
    unit = "cycles" if protected else "instructions"
    if protected:
        what = f"{amount(result.kept)} faults on pages outside an active set of {result.hot:,}"
    else:
        what = (
            f"{amount(result.accesses)} accesses, {amount(result.references)} to another page than "
            f"before, {amount(result.kept)} not to the {result.hot} pages used last, "
            f"{amount(result.logged)} logged by PATH"
        )
    for line in (
        f"footprint{whose}: {result.footprint_pages:,} pages of {size(result.page_size)}, {bytes_}",
        f"working set in {window} {unit}: {result.working_set.mean_pages:,.1f} pages on "
        f"average, {result.working_set.peak_pages:,} at most",
        what,
        *_path(result),
        f"misses under LRU, of {how}:",
    ):
        console.print(Text(line))


def _path(result: Pages) -> list[str]:
    found, page = result.path_accuracy, result.page_size
    if found.within is None or found.worst is None:
        return []
    twice = size(2 * found.reach_pages * page)
    return [
        f"what PATH logged gives the same misses to 2% at {found.within:.2%} of the sizes from "
        f"{twice} on" + (f", and within {found.shift:,} pages elsewhere" if found.shift else "")
    ]


def show_replacement(result: PageReplacement, console: Console, limit: int) -> None:
    log = "what PATH logged" if result.log == "path" else "the order of references"
    console.print(
        Text(
            f"footprint {size(result.footprint_pages * result.page_size)}; "
            f"{amount(result.references)} references ({log}); "
            f"{amount(result.latency)} cycles a fault"
        )
    )
    rows = table(
        ("memory", True),
        ("pages", True),
        ("policy", False),
        ("misses", True),
        ("projected time", True),
        ("slowdown", True),
        ("written back", True),
        ("", False),
    )
    shown = result.rows[: limit * 4 or None]
    for row in shown:
        best = result.best(row.memory)
        rows.add_row(
            size(row.memory_bytes),
            f"{row.memory:,}",
            row.policy,
            f"{row.misses:,}",
            amount(row.projected_time),
            f"{row.slowdown:,.2f}",
            "" if row.writebacks is None else f"{row.writebacks:,}",
            "<- best" if row is best else "the bound" if row.policy == "belady" else "",
        )
    console.print(rows)
    left_out(console, len(result.rows) - len(shown))
    if result.regions:
        console.print()
        _regions(result, console)


def _regions(result: PageReplacement, console: Console) -> None:
    rows = table(
        ("memory", True),
        ("policy", False),
        ("has", True),
        ("of", True),
        ("misses", True),
        ("references", True),
        ("region", False),
    )
    for row in result.regions:
        rows.add_row(
            size(row.memory * result.page_size),
            "together" if row.together else row.policy,
            size(row.pages * result.page_size),
            size(row.footprint_pages * result.page_size),
            f"{row.misses:,}",
            amount(row.references),
            Text(clean(row.region)),
        )
    console.print(rows)
