# SPDX-License-Identifier: Apache-2.0
"""What to change, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stallscope.views.terminal.rows import left_out
from stallscope.views.terminal.text import clean

if TYPE_CHECKING:
    from stallscope.analyses.advise import Advise


def show_advise(result: Advise, console: Console, limit: int) -> None:
    for row in result.rows[: limit or None]:
        saved = f"saves {row.predicted_share:.1%} ({row.predicted_cycles_saved:,} cycles)"
        console.print(Text(f"{row.rank}. {row.kind}: {clean(row.object)}", style="bold"))
        console.print(Text(f"   {saved}; waits in {clean(row.where)}"))
        console.print(Text(f"   why: {clean(row.evidence)}"))
        console.print(Text(f"   do:  {clean(row.how)}"))
    left_out(console, len(result.rows) - len(result.rows[: limit or None]))
    if not result.rows:
        console.print("nothing that was tried saves a hundredth of the cycles")
    console.print(
        Text(
            f"{result.tried} changes replayed on {clean(result.machine)}, {result.cycles:,} cycles "
            "as it is",
            style="dim",
        )
    )
