# SPDX-License-Identifier: Apache-2.0
"""Page access tracking hardware: replacement, allocation, prefetching, buffer sizes, overhead."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import stallscope
from benchmarks.measure import timed as run_timed
from benchmarks.reproduce.charts import bars
from benchmarks.reproduce.lab import STALLSCOPE, Lab, timed
from benchmarks.reproduce.page import Page, Shown, code, count, decimal, percent
from stallscope import workloads
from stallscope.analyses.page_view import PageView

NAME, TITLE = "paging", "Page access tracking"
# Footprints of a few to some fifty megabytes: the original's had 430 to 903.
PROGRAMS = {
    "lu scattered": ("lu", "512", "64", "scattered"),
    "fft": ("fft", "1024", "1"),
    "ocean": ("ocean", "1100", "1", "2"),
    "cg": ("cg", "300000", "5", "2"),
    "multigrid": ("multigrid", "64", "1", "slow"),
    "shop": ("shop", "60000", "120000", "240000"),
    "sweep": ("sweep", "8000", "6", "64"),
}
# The original's; with hot pages read from the tables; and what is the default.
UNITS: tuple[dict[str, int], ...] = ({"departures": 0}, {"departures": 0, "refresh": 256}, {})
POLICIES = ("lru", "clock", "lirs", "arc", "s3-fifo", "region", "belady")
REPLACED = ("fft", "ocean", "multigrid", "sweep")
SHARES = (0.5, 0.7, 0.9, 1.0)  # of the footprint
BUFFERS = (128, 512, 2048, 8192, 32768)
SIZED = (("ocean", "lirs"), ("multigrid", "region"))
PAIR = ("ocean", "shop")
SMALL = 0.03  # overhead
RIVAL = 2048  # pages of the active set
PATIENCE = 120  # seconds for a run under the rival


class Programs:
    """Recorded once, with their traces."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._paths: dict[str, Path] = {}

    def command(self, name: str) -> list[str]:
        workload, *arguments = PROGRAMS[name]
        return [self._lab.program(workload), *arguments]

    def path(self, name: str) -> Path:
        if name not in self._paths:
            path = self._lab.folder / f"paging-{name.replace(' ', '-')}.stallscope"
            if not self._lab.kept(path, self.command(name)):
                self._lab.record(path, self.command(name))
            self._paths[name] = path
        return self._paths[name]

    def view(self, name: str, **options: int) -> PageView:
        told = ", ".join(f"{key} {value}" for key, value in options.items())
        with timed(f"follows the pages of {name} {told}"):
            return stallscope.page_view(self.path(name), depth=1, **options)

    def close(self) -> None:
        for path in self._paths.values():
            shutil.rmtree(path, ignore_errors=True)


def make(lab: Lab, page: Page) -> None:
    programs = Programs(lab)
    try:
        _intro(page)
        _curves(programs, page)
        _replacement(programs, page)
        _allocation(programs, page)
        _prefetching(programs, page)
        _buffers(programs, page)
        _overhead(programs, page, lab)
        _differences(page)
    finally:
        if not lab.keep:
            programs.close()


def _intro(page: Page) -> None:
    page.text(
        """What chapter 4 of R. Azimi, *System Software Utilization of Hardware Performance
        Monitoring Information*, University of Toronto, 2007, becomes here. Its programs were
        those of SPLASH-2, NPB and others with footprints of 430 to 903 MB, traced in Bochs; ours
        are [workloads](../workloads.md) of the same kinds with a few to fifty MB, recorded access
        by access. A fault takes a million cycles, an instruction one, as there.""",
    )


def _curves(programs: Programs, page: Page) -> None:
    page.heading("The curve from what PATH logs")
    page.text(
        """Misses under LRU by what PATH logged (2,048 entries, 8 MiB), against those of every
        access, at all sizes of memory from twice the buffer's reach on. First as the original has
        it, where software knows what comes into the tables and hot pages are never logged again;
        then with hot pages read from the tables after every 256 entries; then with units that also
        tell what leaves their tables and when that was used last, which is our addition and the
        default ([why](../decisions/page-departures.md)). *Shift* is by how many pages the curve
        lies elsewhere where its misses differ by more than 2%, *worst* the largest difference at
        any size."""
    )
    rows = []
    for name in PROGRAMS:
        by_unit = [stallscope.pages(programs.view(name, **unit)) for unit in UNITS]
        cells: list[object] = [code(name), count(by_unit[-1].footprint_pages)]
        cells.append(count(by_unit[-1].logged))
        for found in (one.path_accuracy for one in by_unit):
            cells += [percent(found.within, 2), _or_nothing(found.shift)]
        rows.append([*cells, percent(by_unit[-1].path_accuracy.worst, 3)])
    headings = ["program", "pages", "logged", "within 2%", "shift"]
    headings += ["within 2%, refreshed", "shift, refreshed", "within 2%, departures"]
    page.table("curves", [*headings, "shift, departures", "worst, departures"], rows)


def _or_nothing(value: int | None) -> Shown:
    return Shown(value, "" if value is None else f"{value:,}")


def _replacement(programs: Programs, page: Page) -> None:
    page.heading("Replacement against the size of memory (Figure 4.8)")
    page.text(
        """Misses relative to LRU's with the same memory. The region policy is the original's: a
        pool of memory for every large data structure, LRU or MRU by its two curves."""
    )
    rows, chosen = [], []
    for name in REPLACED:
        view = programs.view(name)
        sizes = [max(64, round(share * view.footprint)) for share in SHARES]
        with timed(f"replaces pages of {name}"):
            found = stallscope.page_replacement(view, sizes, policies=POLICIES, log="path")
        for share, size in zip(SHARES, sizes, strict=True):
            misses = {row.policy: row.misses for row in found.rows if row.memory == size}
            ratios = [decimal(misses[policy] / misses["lru"]) for policy in POLICIES[1:]]
            rows.append([code(name), percent(share, 0), count(misses["lru"]), *ratios])
        chosen += [
            [code(name), code(row.region), row.policy.upper(), count(row.pages), count(row.misses)]
            for row in found.regions
            if row.memory == sizes[-2] and row.footprint_pages > 100
        ]
    page.table("replacement", ["program", "memory", "LRU's misses", *POLICIES[1:]], rows)
    stallscope.plot(found, page.picture_file("figure-4-8-sweep"))
    page.text("What the region policy chose by itself, with 90% of the footprint:")
    page.table("regions", ["program", "region", "policy", "pages", "misses"], chosen)


def _allocation(programs: Programs, page: Page) -> None:
    page.heading("Allocation among programs (Figure 4.9)")
    views = [programs.view(name) for name in PAIR]
    memory = round(0.55 * sum(view.footprint for view in views))
    with timed(f"shares memory among {' and '.join(PAIR)}"):
        found = stallscope.page_allocation(views, memory)
    gain = {(row.sharing, row.adapts): row for row in found.sharings}
    page.text(
        f"""`{PAIR[0]}` and `{PAIR[1]}` together in {memory:,} pages. The original's local pools
        took 18% fewer cycles than global LRU; here limits for throughput take
        {1 - 1 / (1 + gain["throughput", False].gain):.0%} fewer."""
    )
    page.table(
        "allocation",
        ["sharing", "sized", "program", "pages", "misses", "per million cycles"],
        [
            [
                row.sharing,
                "by use" if row.sharing == "global" else "every epoch" if row.adapts else "once",
                code(row.program.removeprefix("paging-")),
                count(row.pages),
                count(row.misses),
                decimal(row.miss_rate),
            ]
            for row in found.rows
        ],
    )
    page.table(
        "sharings",
        ["sharing", "sized", "misses", "gain of time"],
        [
            [
                row.sharing,
                "by use" if row.sharing == "global" else "every epoch" if row.adapts else "once",
                count(row.misses),
                percent(row.gain),
            ]
            for row in found.sharings
        ],
    )
    stallscope.plot(found, page.picture_file("figure-4-9"))


def _prefetching(programs: Programs, page: Page) -> None:
    page.heading("Prefetching (Figure 4.10)")
    page.text(
        """Faults that each prefetcher removes, its precision, and pages read and written, under
        LRU. `lu scattered` with pages of 1,024 bytes, so that a row has four, as rows of the
        original's matrices had many."""
    )
    rows = []
    for name, size in (("lu scattered", 1024), ("multigrid", 4096), ("shop", 4096)):
        view = programs.view(name, page_size=size)
        memory = [round(share * view.footprint) for share in (0.25, 0.5)]
        with timed(f"prefetches pages of {name}"):
            found = stallscope.page_prefetching(
                view, memory, log="order" if name == "lu scattered" else "path"
            )
        for row in found.rows:
            share = "25%" if row.memory == memory[0] else "50%"
            cells: list[object] = [code(name), share, row.prefetcher, count(row.faults)]
            cells += [percent(row.faults_removed), percent(row.precision)]
            rows.append([*cells, count(row.pages_in), count(row.pages_out)])
    headings = ["program", "memory", "prefetcher", "faults", "removed", "precision", "read"]
    page.table("prefetching", [*headings, "written"], rows)


def _buffers(programs: Programs, page: Page) -> None:
    page.heading("The size of the buffer (Figures 4.11 and 4.12)")
    page.text(
        """Misses of a policy that knows only what PATH logged, and PATH's overhead, with 90% of
        the footprint as memory."""
    )
    rows = []
    for name, policy in SIZED:
        for entries in BUFFERS:
            view = programs.view(name, buffer_entries=entries)
            size = round(0.9 * view.footprint)
            found = stallscope.page_replacement(view, size, policies=[policy], log="path")
            cost = stallscope.page_overhead(view)
            cells = (count(found.rows[0].misses), percent(cost.overhead, 2))
            rows.append([code(name), policy, count(entries), *cells])
    page.table("buffers", ["program", "policy", "entries", "misses", "overhead"], rows)


def _overhead(programs: Programs, page: Page, lab: Lab) -> None:
    page.heading("Overhead (Figure 4.13)")
    page.text(
        f"""PATH's overhead by the size of its buffer: 1,500 cycles an exception, and for each
        entry the processor time that our LRU stack and curve take to learn what came and what left
        on the machine that made this page. *The original's* is that of a unit with {RIVAL:,}
        entries that tells no departures. *By protection* is the software-only rival for real: the
        same program natively with an active set of {RIVAL:,} pages kept by `record --source pages`,
        processor time over that of a run without."""
    )
    rows, groups = [], {}
    for name in PROGRAMS:
        found = stallscope.page_overhead(programs.view(name))
        original = stallscope.page_overhead(programs.view(name, **UNITS[0])).overhead
        by = {row.entries: row.overhead for row in found.rows}
        rival = _rival(programs.command(name), lab)
        enough = "" if found.enough is None else f"{found.enough:,}"
        cells: list[object] = [code(name), *(percent(by[entries], 2) for entries in BUFFERS)]
        cells += [Shown(found.enough, enough), percent(original, 2), percent(rival, 0)]
        rows.append(cells)
        groups[name] = [min(by[entries], 1.0) for entries in BUFFERS]
    sizes = [f"{entries:,}" for entries in BUFFERS]
    headings = ["program", *sizes, "below 6% from", "the original's", "by protection"]
    page.table("overhead", headings, rows)
    bars(
        page.picture_file("figure-4-13"),
        "Overhead of PATH by entries of the buffer, cut at 100%",
        "share of the program's time",
        groups,
        sizes,
    )
    _every_workload(page, lab)


def _every_workload(page: Page, lab: Lab) -> None:
    """Those above are large for the buffer's sake; these are all of them, as they come."""
    rows = []
    for name in workloads.names():
        path = lab.folder / "paging-each.stallscope"
        words = [STALLSCOPE, "record", "-q", "-f", "--probe", "pages", "--machine", "none"]
        with timed(f"follows the pages of {name}"):
            subprocess.run(
                [*words, "-o", str(path), "--", lab.program(name)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        view = stallscope.page_view(path)
        found = stallscope.page_overhead(view)
        logged = sum(row["logged"] for row in view.rows("page_unit"))
        rows.append((found.overhead, name, view.footprint, logged, found.enough))
        shutil.rmtree(path, ignore_errors=True)
    small = sum(row[0] < SMALL for row in rows)
    page.text(
        f"""The same with {RIVAL:,} entries for every [workload](../workloads.md) with its usual
        arguments, most of which use fewer pages than the buffer has: below {SMALL:.0%} for {small}
        of {len(rows)}."""
    )
    page.number("below_three_percent", small)
    page.table(
        "every_workload",
        ["workload", "pages", "pages logged", "overhead", "below 6% with"],
        [
            [
                code(name),
                count(footprint),
                count(logged),
                percent(share, 2),
                Shown(enough, "" if enough is None else f"{enough:,}"),
            ]
            for share, name, footprint, logged, enough in sorted(rows, reverse=True)
        ],
    )


def _rival(command: list[str], lab: Lab) -> float | None:
    """Processor time over that of native runs, less one; None when it takes too long."""
    native = min(run_timed(command).processor for _ in range(3))
    path = lab.folder / "paging-rival.stallscope"
    words = [STALLSCOPE, "record", "-q", "-f", "--source", "pages", "--active", str(RIVAL)]
    with timed(f"runs {Path(command[0]).name} under protection"):
        try:
            subprocess.run(
                [*words, "-o", str(path), "--", *command],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            shutil.rmtree(path, ignore_errors=True)
            return None
    took = stallscope.open(path).meta.cpu_seconds or 0.0
    shutil.rmtree(path, ignore_errors=True)
    return took / max(native, 1e-3) - 1


def _differences(page: Page) -> None:
    page.heading("Where and why they differ")
    page.points(
        """The region policy fails where a region is used in unlike ways by turns, as `fft`'s
        arrays are, by rows and by columns: memory moves step by step to where the next step helps,
        and a curve that falls only much later offers nothing to such steps, so that a region which
        has lost its memory stays without.""",
        """Footprints are ten to a hundred times smaller than the original's while the buffer is
        the same, so that it holds a larger part of each program; and programs that use a few words
        of a page before they go on to the next (`sweep`, `shop`, transposes of `fft`) log more an
        instruction than the original's did.""",
        """The original computes MRU's curve from reversed ranks of the LRU stack, which is not MRU;
        the region policy here has MRU's own stack ([model](../models/pages.md)).""",
        """An instruction takes a cycle here and a page fault a million, so that time is hardly
        anything but faults.""",
        """Our rival keeps its active set in user space: a signal and two calls of mprotect for each
        fault, where the original changed the kernel's page fault handler.""",
    )
