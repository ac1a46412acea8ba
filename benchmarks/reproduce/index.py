# SPDX-License-Identifier: Apache-2.0
"""The index of the pages, with how they were made."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from benchmarks.reproduce.page import wrapped

ORDER = (
    "shares",
    "perturbation",
    "slowdown",
    "quake",
    "placement",
    "matrices",
    "lines",
    "multigrid",
    "times",
    "allocator",
    "paging",
    "counters",
    "switching",
    "stalls",
    "ahead",
    "ahead_live",
    "clusters",
    "database",
)
ABOUT = {
    "shares": "Tables 1 and 11",
    "perturbation": "Figures 1, 2, 6, 7, 12 and 13, Table 2",
    "slowdown": "Figure 3",
    "quake": "Tables 3 to 6",
    "placement": "Tables 7 to 10",
    "matrices": "Tables 12 to 18",
    "lines": "Tables 19 and 20",
    "multigrid": "Table 21, Figure 15",
    "times": "running times of chapters 4 and 5",
    "allocator": "the allocator of 4.5.2, preloaded",
    "paging": "Figures 4.2 and 4.8 to 4.13 of Azimi 2007",
    "counters": "Tables 2 and 4, Figure 6 of the study of sampled counters (ICS 2005)",
    "switching": "Table 4 of the same study, for real",
    "stalls": "Table 3 and section 6.3 of the same study",
    "ahead": "Figures 6.4 to 6.6 and 6.8 of Raman 2006",
    "ahead_live": "Figure 6.3 of Raman 2006, on the machine at hand",
    "clusters": "Figures 3.4 and 3.5 of Azimi 2007",
    "database": "Figure 3.5 c of Azimi 2007",
}


def write(folder: Path, pages: dict[str, ModuleType]) -> None:
    lines = [
        "# Reproduction",
        wrapped(
            """What the tables and figures of the work that this began with become here: B. R. Buck,
            *Data Centric Cache Measurement Using Hardware and Software Instrumentation*,
            University of Maryland, 2004, chapters 3 to 5. Its programs were those of SPEC, on
            machines that are gone; ours are the [workloads](../workloads.md) with a slow form and
            cured ones, and the [machines](../machines.md) are simulated as the original describes
            them. So it is not the numbers that can agree but what follows from them: how far
            sampling can be trusted, what it costs and disturbs, which data is found to be at fault,
            and whether the cure works."""
        ),
        wrapped(
            """Another, `ahead`, is about M. Raman, *Trace-Based Optimization
            for Precomputation and Prefetching*, University of Toronto, 2006."""
        ),
        wrapped(
            """`paging`, `clusters` and `database` are about R. Azimi, *System Software Utilization
            of Hardware Performance Monitoring Information*, University of Toronto, 2007, chapters 3
            and 4."""
        ),
        "All pages are made by one command, which says what it does while it works:",
        "```sh\nmake reproduce\n```",
        wrapped(
            """Misses, shares and evictions are counted in simulation and come out the same every
            time with the same compiler in the same folder; in another one some of the last digits
            differ, because the stack begins behind the program's path and environment. Running
            times are native and need a quiet machine. Each page has its numbers as JSON beside
            it."""
        ),
        _table(pages),
    ]
    (folder / "README.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    document = {
        "schema": "stallscope.reproduction/1",
        "pages": [
            {"page": f"{name}.md", "numbers": f"{name}.json", "original": ABOUT[name]}
            for name in pages
        ],
    }
    (folder / "index.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _table(pages: dict[str, ModuleType]) -> str:
    rows = ["| page | in the original | numbers |", "|---|---|---|"]
    rows += [
        f"| [{module.TITLE}]({name}.md) | {ABOUT[name]} | [{name}.json]({name}.json) |"
        for name, module in pages.items()
    ]
    return "\n".join(rows)
