# SPDX-License-Identifier: Apache-2.0
"""What to change in a program, each change replayed before it is advised.

Changes of where data lies are replayed on the core of the machine, with the addresses of the trace
moved; what threads do to each other on a machine of several cores; prefetches by a replay with
them. Each saves a share of the cycles of its own replay; that share of the core's cycles is what
changes are ranked by."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from stallscope import _engine, ahead, clustering, placing, tables, tiling, touching, types
from stallscope.actions import layout as near
from stallscope.analyses import advise as analysis
from stallscope.analyses import layout as near_analysis
from stallscope.analyses.advise import AdviceRow, Advise, Candidate, Data
from stallscope.analyses.pages import pages
from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.pipelines import CoreProbe
from stallscope.recording import STREAM, Recording
from stallscope.studied import Group, Studied, key_of
from stallscope.viewing import page_view

HUGE = 2 << 20  # bytes of a huge page
OF_TLB_MISSES = 0.25  # that an object must have to be put on huge pages
LEAST_MEMORY = 16 << 20  # bytes of heap, below which a limit is not worth a word
NEEDED = 0.7  # of its pages, below which a program can do with less
REGULAR = 0.8  # of the steps of a load that are alike
Found = Iterator[AdviceRow]


def advise(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    kinds: Sequence[str] = (),
    depth: int = 3,
    wrapper: Sequence[str] = (),
) -> Advise:
    """Findings of a recording with a trace (the newest here when not told), by the cycles that
    each would save; only of some kinds when they are told (`KINDS`)."""
    for kind in kinds:
        if kind not in KINDS:
            raise StallscopeError(
                f"--kind {kind}: there is no such kind",
                f"there is: {', '.join(KINDS)}",
                nearest(kind, list(KINDS)),
            )
    made = Advising(recording, machine, process, depth, wrapper)
    made.kinds = kinds or tuple(KINDS)
    return made.result()


class Advising(Studied):
    """What was found, by kind."""

    kinds: Sequence[str] = ()

    def result(self) -> Advise:
        rows: list[AdviceRow] = []
        for finder in dict.fromkeys(KINDS[kind] for kind in self.kinds):
            try:
                rows += finder(self)
            except StallscopeError as error:
                self.declined.append(error.what)
        return Advise(
            str(self.opened.path),
            self.core.machine_name,
            self.cycles,
            self.tried,
            self.declined,
            analysis.ranked(rows),
        )

    # Finders: each gives what it found and a replay confirmed.

    def layouts(self) -> Found:
        """Other layouts of the objects that cost most."""
        structs = self._structs()
        accesses = self._accesses(structs)
        steps = self._steps()
        for group in self.costly:
            candidates: list[Candidate] = []
            if group.name in structs:
                kind, size, shape = structs[group.name]
                fields = analysis.fields_of(shape, accesses[group.name])
                data = self.data(group, size, kind, fields)
                candidates += analysis.struct_candidates(data)
            else:
                data = self.data(group, 8, "", ())
                for row, size in steps.get(group.buckets[0], []):
                    candidates += analysis.array_candidates(data, row, size)
            candidates += analysis.node_candidates(data)
            yield from self._best(group, data, candidates)

    def _best(self, group: Group, data: Data, candidates: Sequence[Candidate]) -> Found:
        tried = []
        for candidate in candidates:
            if candidate.kind not in self.kinds:
                continue
            probe = CoreProbe(shapes=(self.shape(group, candidate.layout),))
            tried.append((candidate, self.saved(f"{candidate.kind}, {data.name}", probe)))
        for candidate, saved in analysis.chosen(tried, self.cycles):
            evidence = f"{data.share:.0%} of the waiting for memory; {candidate.evidence}"
            said = (evidence, candidate.how)
            yield self.row(candidate.kind, data.name, self.where(group.buckets), said, saved)

    def _structs(self) -> dict[str, Any]:
        """Type, element and fields of the groups that hold structs, by name."""
        of = {bucket: group.name for group in self.costly for bucket in group.buckets}
        found: dict[str, Any] = {}
        for bucket, *shape in types.shapes(self.view.replay):  # type: ignore[arg-type]
            if bucket in of:
                found.setdefault(of[bucket], shape)
        return found

    def _accesses(self, structs: dict[str, Any]) -> dict[str, collections.Counter[int]]:
        """To the words of elements, by group."""
        followed: list[touching.Followed] = []
        of: dict[tuple[str, Any], str] = {}
        for group in self.costly:
            if group.name not in structs:
                continue
            element = structs[group.name][1]
            for row in (self.view.buckets[bucket] for bucket in group.buckets):
                of[key_of(row)] = group.name
                if row["kind"] == "heap":
                    followed.append((row["site"], 0, element))
                else:
                    followed.append((None, self.variables[row["name"]][0], element))
        found: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
        if not followed:
            return found
        touched = touching.touched(self.image, followed)
        buckets = {row["bucket"]: row for row in touched.table("bucket").to_pylist()}
        for row in touched.table("touch_offset").to_pylist():
            name = of.get(key_of(buckets[row["bucket"]]))
            if name is not None:
                found[name][row["offset"]] += row["accesses"]
        return found

    def _steps(self) -> dict[int, list[tuple[int, int]]]:
        """How far apart the accesses of a loop to an object are, and how large, as (row, size) by
        bucket; those of the operations that wait longest."""
        try:
            loops = _engine.loops(str(self.image.path / STREAM))["tables"]
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error
        strides: dict[int, int] = {}
        for row in tables.to_arrow("loop_access", loops["loop_access"]).to_pylist():
            if row["pairs"] and row["regular"] >= REGULAR * row["pairs"]:
                strides[row["operation"]] = abs(row["stride"])
        operations = self.image.table("operation").select(["operation", "size"]).to_pylist()
        sizes = {row["operation"]: row["size"] for row in operations}
        found: dict[int, list[tuple[int, int]]] = {}
        counts = sorted(self.view.counts(), key=lambda count: -count.latency)
        for count in counts:
            step = (strides.get(count.operation, 0), sizes.get(count.operation, 0))
            known = found.setdefault(count.bucket, [])
            if step[0] > analysis.LINE and step not in known and len(known) < 2:
                known.append(step)
        return found

    def near(self) -> Found:
        """Blocks where the near allocator would put them, with no change to the source."""
        made = near_analysis.layout(self.view)
        if not made.rows:
            return
        sites = near_analysis.return_addresses(self.image)
        probe = CoreProbe(
            policy=near.policy_of(made), sites=tuple((site, *at) for site, at in sites.items())
        )
        saved = self.saved("near allocation", probe)
        if saved < analysis.LEAST * self.cycles:
            return
        first = made.rows[0]
        what = "lie loosely" if first.packed else "evict each other"
        evidence = f"heap blocks of {len(made.rows)} sites {what}; {first.share:.0%} by this one"
        how = "stallscope layout -o near.policy, and start the program with it; or the near "
        how += "allocator of stallscope.h"
        where = self.where([b for b, r in enumerate(self.view.buckets) if r["site"] == first.site])
        yield self.row("near allocation", first.object, where, (evidence, how), saved)

    def huge_pages(self) -> Found:
        changes = {
            f"{tlb.name.lower()}.page": HUGE
            for tlb in self.core.machine.tlbs
            if tlb.page < HUGE and tlb.holds != "instructions"
        }
        misses: collections.Counter[str] = collections.Counter()
        levels = {row["level"] for row in self.view.levels if row["kind"] == "tlb"}
        for row in self.view.rows("miss"):
            if row["level"] in levels:
                misses[self.view.name(row["bucket"])] += row["misses"]
        if not changes or not misses:
            return
        saved = self.saved("huge pages", CoreProbe(), **changes)
        if saved < analysis.LEAST * self.cycles:
            return
        own = {self.view.name(b) for group in self.groups for b in group.buckets}
        name, count = max(((n, misses[n]) for n in own), key=lambda one: one[1], default=("", 0))
        if count < OF_TLB_MISSES * misses.total():
            self.declined.append("huge pages: no data of the program has most TLB misses")
            return
        evidence = f"{count / misses.total():.0%} of {misses.total():,} TLB misses are on it"
        how = "put it on huge pages: aligned_alloc(2 MiB) and madvise(MADV_HUGEPAGE)"
        buckets = [b for b in range(len(self.view.buckets)) if self.view.name(b) == name]
        yield self.row("huge pages", name, self.where(buckets), (evidence, how), saved)

    def prefetches(self) -> Found:
        """A prefetch hides waiting for data. Its replay has no other core work to hide it behind,
        so that the part of the waiting that goes away is taken, of what the core waits for, and
        no more than it waits at that line."""
        prediction = ahead.predict(self.view, only=("inline",))
        found = ahead.written(self.view, prediction)
        self.tried += len(found.rows)
        base = prediction.rows[0].cycles
        waiting = max(1, base - self.image.meta.instructions)
        for row in found.rows:
            gone = (base - base / row.speedup) / waiting if row.speedup > 0 else 0.0
            here = self.stalls_at(row.function, row.line)
            saved = min(round(min(gone, 1.0) * self.stalls_at()), here)
            if saved < analysis.LEAST * self.cycles:
                continue
            where = f"{row.function} ({Path(row.file).name}:{row.line})" if row.line else ""
            evidence = f"a delinquent load of class {row.kind}, told {row.distance} turns ahead"
            how = " ".join(row.prefetch) or row.words
            yield self.row(
                "prefetch",
                self._object_of(row.pc),
                where or row.function,
                (evidence, how),
                saved,
            )

    def stalls_at(self, function: str | None = None, line: int | None = None) -> int:
        """Cycles of the core that it waits for data; at one line when it is told."""
        causes = _engine.stall_causes()
        names = ["address", "function", "line"]
        here = {
            row["address"]
            for row in self.image.table("operation").select(names).to_pylist()
            if function is None or (row["function"], row["line"]) == (function, line)
        }
        found = self.core.runs[0].table("stall").select(["address", "cause", "cycles"]).to_pylist()
        return sum(
            row["cycles"]
            for row in found
            if causes[row["cause"]] in ("data_cache", "translation") and row["address"] in here
        )

    def _object_of(self, pc: int) -> str:
        operations = self.image.table("operation").select(["operation", "address"]).to_pylist()
        wanted = {row["operation"] for row in operations if row["address"] == pc}
        found: collections.Counter[int] = collections.Counter()
        for count in self.view.counts():
            if count.operation in wanted:
                found[count.bucket] += count.latency
        return self.view.name(found.most_common(1)[0][0]) if found else ""

    @functools.cached_property
    def threads(self) -> clustering.Threads | None:
        if self.image.table("thread").num_rows < 2:
            return None
        return clustering.open_threads(self.image, process=self.image.meta.name)

    def sharing(self) -> Found:
        if self.threads is None:
            return
        lines = clustering.Lines(self.threads, self.depth, self.wrapper).rows(clustering.GAINS)
        for line in lines:
            self.tried += line.predicted_gain is not None
            if line.predicted_gain is None or line.predicted_gain < analysis.LEAST:
                continue
            parts = line.field or "parts"
            evidence = (
                f"{line.false_misses:,} of {line.misses:,} misses of its line are false: "
                f"{len(line.threads)} threads use different bytes"
            )
            how = f"give each thread's part ({parts}) a line of its own: "
            how += f"_Alignas({self.threads.line})"
            yield self.row(
                "pad shared fields",
                line.object,
                line.code[0] if line.code else "",
                (evidence, how),
                round(line.predicted_gain * self.cycles),
            )

    def memory_limit(self) -> Found:
        """Saves memory, not cycles: what was touched once and is not needed any more."""
        if self.image.meta.peak_heap_bytes < LEAST_MEMORY:
            return
        self.tried += 1
        found = pages(page_view(self.image))
        most, needs = found.footprint_pages, found.knee.pages
        if needs > NEEDED * most:
            self.declined.append(f"a memory limit: it needs {needs:,} of its {most:,} pages")
            return
        more = found.at(needs) - most
        size = needs * found.page_size
        evidence = f"of {most:,} pages that it touches it needs {needs:,} at a time; "
        evidence += f"with these, {more:,} faults more than with all, by its page curve"
        how = f"limit its memory to {size:,} bytes: systemd-run --scope -p MemoryMax={size}"
        yield self.row("memory limit", "the program", "", (evidence, how), 0)

    def placement(self) -> Found:
        if self.threads is None:
            return
        self.tried += 1
        placed = placing.place(self.image, process=self.image.meta.name)
        if placed.predicted_gain < analysis.LEAST:
            self.declined.append(f"place threads: saves {placed.predicted_gain:.1%} of the cycles")
            return
        groups = "; ".join(" ".join(group) for group in placed.clusters)
        evidence = f"remote misses {placed.remote_misses:,}, placed {placed.remote_misses_placed:,}"
        how = f"stallscope place tells which processors; together on a chip: {groups}"
        saved = round(placed.predicted_gain * self.cycles)
        yield self.row("place threads", "threads", placed.machine, (evidence, how), saved)


KINDS: dict[str, Callable[[Advising], Found]] = {
    "pack blocks": Advising.layouts,
    "reorder fields": Advising.layouts,
    "split fields": Advising.layouts,
    "struct of arrays": Advising.layouts,
    "pad an array": Advising.layouts,
    "turn an array": Advising.layouts,
    "tile loops": tiling.tiled,
    "near allocation": Advising.near,
    "huge pages": Advising.huge_pages,
    "pad shared fields": Advising.sharing,
    "place threads": Advising.placement,
    "prefetch": Advising.prefetches,
    "memory limit": Advising.memory_limit,
}
