# SPDX-License-Identifier: Apache-2.0
"""Which threads of a recording share data, and where to put them, by replaying its trace on a
machine of several cores."""

from __future__ import annotations

import collections
import functools
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from stallscope import cores, fields, machines, processes
from stallscope.analyses import detection, false_sharing, placement, thread_clusters
from stallscope.analyses.false_sharing import LineRow, Naming
from stallscope.analyses.sharing import LockRow, Sharing, thread_rows, unique_names
from stallscope.analyses.sites import DEPTH, site_names
from stallscope.cores import CoresProbe, CoresRun
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.recording import Recording, is_sampled, open_recording

MACHINE = "power5-2x2x2"
ABOVE = 0.005  # of the cycles, waiting for other chips: detection starts there
SAMPLE_CYCLES = 1200  # that the handler takes for a sample, as the study's overhead suggests
STRETCHES = 48  # of rotation in a run, if turns are short enough
TURNS = 6  # of each thread in a stretch, at least
FOLLOWED = 64  # lines that are looked at closely
GAINS = 4  # falsely shared lines whose cure is replayed
LEAST = 3  # samples of a thread that is looked at
SAMPLINGS = ("exact", "register")


class Threads:
    """One process image on a machine of several cores: what its replays need to know."""

    def __init__(
        self, recording: Recording, machine: Machine, machine_name: str, probe: CoresProbe
    ) -> None:
        self.recording = recording
        self.machine, self.machine_name = machine, machine_name
        self.probe = probe
        self.rows = recording.table("thread").to_pylist()
        self.names = unique_names(self.rows)

    def run(self, **changes: Any) -> CoresRun:
        probe = msgspec.structs.replace(self.probe, **changes)
        return cores.run(self.recording, self.machine, self.machine_name, probe)

    @functools.cached_property
    def base(self) -> CoresRun:
        """As the default scheduler has it."""
        return self.run()

    @functools.cached_property
    def rotate(self) -> int:
        """Instructions of a stretch: so many in a run, but long enough for every thread."""
        total = sum(self.weights.values())
        turn = total // max(1, sum(row["turns"] for row in self.rows))
        return int(max(total // STRETCHES, TURNS * len(self.rows) * turn, 1))

    @functools.cached_property
    def busy(self) -> dict[int, int]:
        """Threads that do as much as others while they live, and when they end; what the first one
        does before there is a second counts for nothing. A first thread that only starts the others
        and waits for them runs by itself, in long turns."""
        end = sum(self.weights.values())
        ends = [int(row["ended"] or end) for row in self.rows]
        alone = [max(0, self.second - int(row["started"])) for row in self.rows]
        lives = zip(self.rows, ends, alone, strict=True)
        pace = [
            max(0, row["instructions"] - before) / max(1, ended - row["started"] - before)
            for row, ended, before in lives
        ]
        work = [int(row["instructions"]) for row in self.rows]
        turns = [row["instructions"] / max(1, row["turns"]) for row in self.rows]
        least, most = _usual(pace, work) / 4, _usual(turns, work) * 4
        return {
            int(row["thread"]): ended
            for row, ended, one, turn in zip(self.rows, ends, pace, turns, strict=True)
            if one >= least and (row["parent"] or turn <= most)
        }

    @property
    def second(self) -> int:
        """The instruction at which a second thread starts."""
        return sorted(int(row["started"]) for row in self.rows)[1]

    @property
    def round(self) -> int:
        """Instructions after which every two threads were apart."""
        chips, digits = self.machine.chips.chips, 1
        while chips > 1 and chips**digits < len(self.rows):
            digits += 1
        return self.rotate * (digits + 1)

    @property
    def line(self) -> int:
        return next(c.line for c in self.machine.caches if c.holds != "instructions")

    @functools.cached_property
    def weights(self) -> dict[int, int]:
        return {int(row["thread"]): int(row["instructions"]) for row in self.rows}


def _usual(values: Sequence[float], work: Sequence[int]) -> float:
    """Of the threads that do half of the work."""
    done = 0
    for value, amount in sorted(zip(values, work, strict=True)):
        done += amount
        if 2 * done >= sum(work):
            return value
    return 0.0


def open_threads(
    recording: Recording | str | Path | None,
    machine: str | Machine = MACHINE,
    process: str | int | None = None,
    probe: CoresProbe | None = None,
) -> Threads:
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    if is_sampled(opened.meta):
        raise StallscopeError(
            f"{opened.path.name} holds samples, no accesses",
            now="stallscope record --trace -- PROGRAM",
        )
    images = processes.choose(opened, process)
    image = max(images, key=lambda one: one.table("thread").num_rows)
    if image.table("thread").num_rows < 2:
        raise StallscopeError(
            f"{opened.path.name} has only one thread",
            "who shares data with whom is a question for programs with several",
            "stallscope objects shows what misses",
        )
    made = machine if isinstance(machine, Machine) else machines.load(machine)
    if made.chips.contexts < 2:
        raise StallscopeError(
            f"the machine {made.name} has one core",
            "threads that share data need several",
            f"--machine {MACHINE}, or a file with a section [chips]",
        )
    return Threads(image, made, made.name, probe or CoresProbe())


def sharing(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | Machine = MACHINE,
    process: str | int | None = None,
    period: int = 10,
    sampling: str = "exact",
    seed: int = 1,
    grain: int = 10,
    above: float = ABOVE,
    gains: int = GAINS,
    line_size: int | None = None,
    shift: int = 0,
    depth: int = DEPTH,
    wrapper: Sequence[str] = (),
) -> Sharing:
    """Clusters of threads by their remote misses, one in `period` of them sampled (0: as many as
    keep the overhead low); the lines that threads pass around; what would come of placing the
    threads by their clusters, and of giving falsely shared data lines of its own."""
    if sampling not in SAMPLINGS:
        raise StallscopeError(f"--sampling {sampling}: there is: {', '.join(SAMPLINGS)}")
    if period < 0 or grain < 0:
        raise StallscopeError("--period and --grain cannot be negative")
    threads = open_threads(recording, machine, process, CoresProbe(seed=seed, grain=grain))
    base = threads.base
    share = base.waited(*cores.REMOTE) / max(1, base.cycles)
    detected = Detection(threads, period, sampling == "exact", share >= above)
    placed = threads.run(placement=detected.placement)
    lines = Lines(threads, depth, wrapper)
    return Sharing(
        recording=str(threads.recording.path),
        machine=threads.machine_name,
        protocol=threads.machine.chips.protocol,
        seed=seed,
        started=share >= above,
        remote_share=share,
        above=above,
        period=period,
        remote_misses=base.remote_misses,
        remote_misses_placed=placed.remote_misses,
        cycles=base.cycles,
        cycles_placed=placed.cycles,
        busiest=base.busiest,
        busiest_placed=placed.busiest,
        lines=lines.rows(gains),
        would_collide=lines.would_collide(line_size, shift),
        locks=lines.locks(),
        **detected.fields(),
    )


class Detection:
    """Threads rotate among the chips while their remote misses are sampled."""

    def __init__(self, threads: Threads, period: int, exact: bool, wanted: bool) -> None:
        import pyarrow.compute as pc

        self.threads = threads
        self.run = threads.run(
            rotate=threads.rotate, sample=wanted, period=period, exact=exact, cost=SAMPLE_CYCLES
        )
        table = self.run.table("shared_sample")
        # A thread that is still the only one misses its own data when it is moved.
        table = table.filter(pc.greater_equal(table["instruction"], threads.second))
        columns = [table.column(name).to_pylist() for name in ("instruction", "thread", "line")]
        self.samples = list(zip(*columns, strict=True))
        self.wanted = table.column("wanted").to_pylist()
        self.counts = collections.Counter(columns[1])
        self.judged = sorted(t for t in threads.busy if self.counts[t] >= LEAST)
        self.verdict, self.maps = detection.detect(
            self.samples, self.judged, threads.line, threads.busy, threads.round
        )

    @functools.cached_property
    def chip_of(self) -> dict[int, int]:
        clusters = self.verdict.found.clusters
        rest = [t for t in self.threads.names if not any(t in group for group in clusters)]
        chips = self.threads.machine.chips.chips
        return placement.assign(clusters, rest, self.threads.weights, chips)

    @functools.cached_property
    def processor_of(self) -> dict[int, int]:
        chips = self.threads.machine.chips
        return placement.processors(self.chip_of, self.threads.weights, chips.cores, chips.threads)

    @property
    def placement(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(self.processor_of.items()))

    @property
    def overhead(self) -> float:
        """Of the handler, until the verdict."""
        passed = self.verdict.instruction / max(1, self.run.result.instructions)
        return self.verdict.samples * SAMPLE_CYCLES / max(1.0, passed * self.run.cycles)

    def named(self, threads: Sequence[int]) -> list[str]:
        return [self.threads.names[thread] for thread in threads]

    def fields(self) -> dict[str, Any]:
        found, names = self.verdict.found, self.threads.names
        remote: collections.Counter[int] = collections.Counter()
        for (thread, source), (count, _) in self.threads.base.fills.items():
            remote[thread] += count if source in cores.REMOTE else 0
        rows = thread_rows(
            names, self.verdict, self.maps, self.counts, remote, self.processor_of, self.chip_of
        )
        return {
            "threads": [names[thread] for thread in sorted(names)],
            "clusters": [self.named(group) for group in found.clusters],
            "undecided": [row.name for row in rows if row.state == "undecided"],
            "alone": self.named(found.alone),
            "samples": self.verdict.samples,
            "samples_wanted": sum(self.wanted) / max(1, len(self.wanted)),
            "verdict_instruction": self.verdict.instruction,
            "stable": self.verdict.stable,
            "rounds": self.verdict.rounds,
            "overhead": self.overhead,
            "global_lines": len(found.global_lines),
            "hierarchical": self.hierarchical(),
            "thread_rows": rows,
        }

    def hierarchical(self) -> list[list[str]] | None:
        if importlib.util.find_spec("scipy") is None or len(self.judged) < 2:
            return None
        groups = thread_clusters.hierarchical(self.maps, self.judged, self.verdict.found)
        return [self.named(group) for group in groups]


class Lines:
    """The lines that threads pass around, looked at closely."""

    def __init__(self, threads: Threads, depth: int, wrappers: Sequence[str]) -> None:
        self.threads = threads
        self._depth, self._wrappers = depth, wrappers

    def rows(self, gains: int) -> list[LineRow]:
        base = self.threads.base
        accesses = self._accesses(self.threads, base)
        naming = self._naming(self.threads, base, accesses)
        rows = false_sharing.line_rows(accesses, naming, base.cycles)
        cured = [row for row in rows if row.kind != "true"][:gains]
        return [self._with_gain(row, accesses) if row in cured else row for row in rows]

    def _accesses(self, threads: Threads, run: CoresRun) -> list[dict[str, Any]]:
        found = run.table("shared_line").to_pylist()
        found = [row for row in found if row["threads"] > 1]
        found.sort(key=lambda row: (-row["cycles"], -row["fills"], row["line"]))
        lines = tuple(row["line"] for row in found[:FOLLOWED])
        if not lines:
            return []
        followed = threads.run(followed=lines)
        rows: list[dict[str, Any]] = followed.table("shared_access").to_pylist()
        return rows

    def _with_gain(self, row: LineRow, accesses: list[dict[str, Any]]) -> LineRow:
        moved = false_sharing.padded(accesses, [row.line], self.threads.line)
        saved = self.threads.base.cycles - self.threads.run(moved=moved).cycles
        share = saved / max(1, self.threads.base.cycles)
        return replace(row, predicted_cycles=saved, predicted_gain=share)

    def would_collide(self, line_size: int | None, shift: int) -> list[LineRow]:
        """Lines that are not shared falsely now, but would be."""
        if line_size is None and not shift:
            return []
        machine = self.threads.machine
        if line_size is not None:
            caches = [c.name for c in machine.caches if c.holds != "instructions"]
            machine = machine.with_values({f"{name}.line": line_size for name in caches})
        probe = msgspec.structs.replace(self.threads.probe, shift=shift)
        other = Threads(self.threads.recording, machine, machine.name, probe)
        accesses = self._accesses(other, other.base)
        naming = self._naming(other, other.base, accesses)
        rows = false_sharing.line_rows(accesses, naming, other.base.cycles)
        known = {row.line for row in self.rows(0) if row.kind != "true"}
        size = self.threads.line
        return [
            row
            for row in rows
            if row.kind != "true"
            and not any(
                at // size * size in known
                for at in range(row.line - shift, row.line - shift + other.line, size)
            )
        ]

    def locks(self) -> list[LockRow]:
        """Words that threads slept for."""
        waits: dict[int, list[int]] = {}
        for row in self.threads.recording.table("event").to_pylist():
            if row["kind"] == "futex_wait" and row["address"]:
                waits.setdefault(row["address"], []).append(row["thread"])
        base, size = self.threads.base, self.threads.line
        lines = {row["line"]: row for row in base.table("shared_line").to_pylist()}
        naming = self._naming(self.threads, base, [])
        rows = [
            LockRow(
                object=naming.object_of(address // size * size, address % size),
                address=address,
                waits=len(who),
                threads=[self.threads.names[thread] for thread in sorted(set(who))],
                misses=lines.get(address // size * size, {}).get("fills", 0),
            )
            for address, who in waits.items()
        ]
        shared = [row for row in rows if len(row.threads) > 1]
        return sorted(shared, key=lambda row: (-row.waits, row.address))

    def _naming(self, threads: Threads, run: CoresRun, accesses: list[dict[str, Any]]) -> Naming:
        recording = threads.recording
        operations = {
            row["operation"]: (row["function"], row["file"], row["line"])
            for row in recording.table("operation").to_pylist()
        }
        lines = {row["line"]: row for row in run.table("shared_line").to_pylist()}
        buckets = {row["bucket"]: row for row in run.table("bucket").to_pylist()}
        sites = site_names(recording.table("site"), self._depth, self._wrappers)

        shift = threads.probe.shift
        variables = fields.Variables(recording)
        blocks = fields.Blocks(recording, lines, buckets, accesses)

        def object_of(line: int, offset: int) -> str:
            if name := variables.name(line + offset - shift):
                return name
            bucket = buckets.get(lines[line]["bucket"]) if line in lines else None
            return _called(bucket, sites) if bucket else "unknown"

        def field_of(line: int, offset: int) -> str:
            return variables.field(line + offset - shift) or blocks.field(line, offset)

        return Naming(threads.names, operations, object_of, field_of)


def _called(bucket: Mapping[str, Any], sites: Mapping[int, str]) -> str:
    if bucket["kind"] == "heap":
        return sites.get(bucket["site"], "heap")
    return str(bucket["name"] or bucket["kind"])
