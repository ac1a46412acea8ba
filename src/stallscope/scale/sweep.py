# SPDX-License-Identifier: Apache-2.0
"""Many machines on some recordings, by workers here or on a cluster.

A cell is one recording on one machine. What was kept of it is not computed again, and what comes is
kept at once, so that a sweep that was interrupted goes on where it was. The same sweep gives the
same rows, whoever computed them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import machines, results
from stallscope.analyses import sweep as analysis
from stallscope.analyses.sweep import Sweep
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.recording import Recording, is_sampled, open_recording
from stallscope.results import Probe
from stallscope.scale import cells, grid
from stallscope.scale.cells import Cell, Done, Task
from stallscope.scale.grid import Values
from stallscope.scale.plan import group

Grid = Mapping[str, Sequence[str | int]]


@dataclass(frozen=True)
class Progress:
    """How far a sweep is."""

    done: int  # cells
    cells: int
    kept: int  # of those done: by an earlier sweep
    seconds: float
    left: float | None  # seconds, as far as can be told


@dataclass(frozen=True)
class _Design:
    named: dict[str, Any]  # the machine's name and what was set
    machine: Machine | None
    error: str | None  # where there can be no such machine


@dataclass
class _Run:
    recordings: list[Recording]
    designs: list[_Design]
    probe: Probe
    found: dict[tuple[int, int], Cell]  # by recording and design
    failed: dict[tuple[int, int], str]
    unkept: int = 0


def sweep(
    recordings: Sequence[Recording | str | Path] | Recording | str | Path | None = None,
    grid: Grid | None = None,
    *,
    designs: Sequence[Mapping[str, str | int]] | str | Path | None = None,
    machine: str | Sequence[str] = "default",
    classify: bool = False,
    jobs: int | None = None,
    cluster: str | None = None,
    tls: Mapping[str, str] | None = None,
    one_pass: bool = True,
    max_bytes: int | None = None,
    max_latency: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Recordings (the newest here when not told) on every machine of a grid, {"l2.size": ["256K",
    "1M"]}, or of a list of designs (or the CSV file that holds one); both change the machines
    named. `jobs` workers here (one a processor), or those of a dask `cluster`.

    Designs whose caches are all LRU and know nothing of each other come from one pass over a
    recording, unless `one_pass` is False: the numbers are the same."""
    analysis.check_budget(max_bytes, max_latency)
    if jobs is not None and jobs < 1:
        raise StallscopeError(f"--jobs {jobs}: at least one worker is needed")
    opened = _opened(recordings)
    wanted = _wanted(grid, designs)
    run = _Run(opened, _designs(wanted, machine), Probe(classify=classify), {}, {})
    _compute(run, one_pass, _workers(jobs, cluster, tls), on_progress)
    parameters = list(dict.fromkeys(key for values in wanted for key in values))
    return _result(run, parameters, max_bytes, max_latency)


def _opened(given: Any) -> list[Recording]:
    listed = given if isinstance(given, list | tuple) else [given]
    if not listed:
        listed = [None]
    opened = [one if isinstance(one, Recording) else open_recording(one) for one in listed]
    seen: set[Path] = set()
    for recording in opened:
        path = recording.path.resolve()
        if path in seen:
            raise StallscopeError(f"{recording.path} is there twice")
        seen.add(path)
        if is_sampled(recording.meta) or not any(i.meta.trace for i in recording.processes()):
            raise StallscopeError(
                f"{recording.path.name} has no trace to replay",
                "a sweep runs a kept trace through many machines",
                "stallscope record --trace -- PROGRAM",
            )
    return opened


def _wanted(given: Grid | None, listed: Any) -> list[Values]:
    if given and listed is not None:
        raise StallscopeError("a grid and a list of designs at once", now="--set or --designs")
    if listed is not None:
        found = grid.read_list(listed) if isinstance(listed, str | Path) else [*map(dict, listed)]
    else:
        named = {key: grid.read_values(key, values) for key, values in (given or {}).items()}
        found = grid.designs(named) if named else []
    if not found:
        raise StallscopeError("there is no design to try", now="--set l2.size=256K,512K,1M")
    return found


def _designs(wanted: Sequence[Values], names: str | Sequence[str]) -> list[_Design]:
    """A design that cannot be is one whose cells say why; a key that no machine has is an error."""
    found = []
    for name in [names] if isinstance(names, str) else names:
        base = machines.load(name)
        if not base.simulates:
            raise StallscopeError(f"{name} is no machine", "there is nothing to set")
        for values in wanted:
            named = {"machine": name, **values}
            try:
                found.append(_Design(named, base.with_values(values), None))
            except StallscopeError as error:
                _check_keys(base, values)
                found.append(_Design(named, None, _sentence(error.what, error.why)))
    return found


def _check_keys(base: Machine, values: Values) -> None:
    """Raises where a key is unknown, whatever its value."""
    from stallscope.machines.changes import check_key

    for key in values:
        check_key(base, key)


def _sentence(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what


Workers = Callable[[Sequence[Task]], Generator[Done, None, None]]


def _workers(jobs: int | None, cluster: str | None, tls: Mapping[str, str] | None) -> Workers:
    if cluster is not None:
        from stallscope.scale.cluster import Cluster

        return Cluster(cluster, tls or {}).run
    from stallscope.scale.pool import Pool

    return Pool(jobs or len(os.sched_getaffinity(0))).run


def _compute(
    run: _Run, one_pass: bool, workers: Workers, on_progress: Callable[[Progress], None] | None
) -> None:
    started, kept = time.monotonic(), 0
    missing: list[tuple[int, int]] = []
    alike: dict[tuple[int, str], tuple[int, int]] = {}
    same: dict[tuple[int, int], tuple[int, int]] = {}
    for r, recording in enumerate(run.recordings):
        for d, design in enumerate(run.designs):
            if design.machine is None:
                run.failed[r, d] = design.error or ""
            elif (cell := cells.find(recording, design.machine, run.probe)) is not None:
                run.found[r, d] = cell
                kept += 1
            elif (first := alike.setdefault((r, design.machine.digest()), (r, d))) != (r, d):
                same[r, d] = first  # machines that behave alike are one, whatever was set
            else:
                missing.append((r, d))
    tasks, members = _tasks(run, missing, one_pass)

    def told(first: int = 0) -> None:
        done = len(run.found) + len(run.failed)
        seconds, count = time.monotonic() - started, len(run.recordings) * len(run.designs)
        left = seconds / (done - first) * (count - done) if done > first else None
        if on_progress is not None:
            on_progress(Progress(done, count, kept, seconds, left))

    before = len(run.found) + len(run.failed)
    told(before)
    if not tasks:
        return
    with contextlib.closing(workers(tasks)) as answers:
        for done in answers:
            _take(run, members[done.number], done)
            told(before)
    for place, first in same.items():
        if first in run.found:
            run.found[place] = run.found[first]
        else:
            run.failed[place] = run.failed[first]
    told(before)


def _tasks(
    run: _Run, missing: Sequence[tuple[int, int]], one_pass: bool
) -> tuple[list[Task], list[list[tuple[int, int]]]]:
    """Work for workers, and the cells that each piece of it fills."""
    tasks: list[Task] = []
    members: list[list[tuple[int, int]]] = []
    for r, recording in enumerate(run.recordings):
        of = [d for at, d in missing if at == r]
        documents = {d: _machine(run, d).to_engine() for d in of}
        exact = one_pass and not run.probe.classify
        for together, numbers in group(documents, exact):
            tasks.append(
                Task(
                    number=len(tasks),
                    recording=str(recording.path.resolve()),
                    identity=results.identity(recording.meta),
                    machines=tuple(documents[d] for d in numbers),
                    classify=run.probe.classify,
                    one_pass=together,
                )
            )
            members.append([(r, d) for d in numbers])
    return tasks, members


def _machine(run: _Run, design: int) -> Machine:
    machine = run.designs[design].machine
    assert machine is not None
    return machine


def _take(run: _Run, members: Sequence[tuple[int, int]], done: Done) -> None:
    if done.failure is not None:
        for place in members:
            run.failed[place] = _sentence(done.failure.what, done.failure.why)
        return
    for (r, d), cell in zip(members, done.cells, strict=True):
        run.found[r, d] = cell
        if not run.recordings[r].path.exists():
            continue  # it vanished after it was read
        try:
            cells.keep(run.recordings[r], _machine(run, d), run.probe, cell)
        except StallscopeError:  # a full disk, or a folder that is only to be read
            run.unkept += 1


def _result(
    run: _Run, parameters: list[str], max_bytes: int | None, max_latency: float | None
) -> Sweep:
    rows = [
        row
        for r in range(len(run.recordings))
        for d in range(len(run.designs))
        for row in _rows(run, r, d, parameters)
    ]
    everywhere = range(len(run.recordings))
    whole = [
        (design.named, _machine(run, d).to_engine(), [_counts(run.found[r, d]) for r in everywhere])
        for d, design in enumerate(run.designs)
        if all((r, d) in run.found for r in everywhere)
    ]
    designs = analysis.design_rows(whole)
    return Sweep(
        recordings=[str(recording.path) for recording in run.recordings],
        parameters=parameters,
        designs=designs,
        best=analysis.choose(designs, max_bytes, max_latency),
        max_bytes=max_bytes,
        max_latency=max_latency,
        failed=len(run.failed),
        unkept=run.unkept,
        rows=rows,
    )


def _counts(cell: Cell) -> dict[str, tuple[int, int]]:
    return {level.name: (level.accesses, level.misses) for level in cell.levels}


def _rows(run: _Run, r: int, d: int, parameters: Sequence[str]) -> Iterator[dict[str, Any]]:
    named = run.designs[d].named
    start = {
        "recording": run.recordings[r].path.name,
        "machine": named["machine"],
        **{key: named.get(key) for key in parameters},
    }
    names = ["accesses", "misses", "evictions"]
    names += ["cold", "capacity", "conflict"] if run.probe.classify else []
    cell = run.found.get((r, d))
    if cell is None:
        nothing = dict.fromkeys(["level", "kind", *names, "miss_ratio"])
        yield {**start, **nothing, "error": run.failed[r, d]}
        return
    for level in cell.levels:
        counted = {name: getattr(level, name) for name in names}
        ratio = level.misses / level.accesses if level.accesses else 0.0
        yield {
            **start,
            "level": level.name,
            "kind": level.kind,
            **counted,
            "miss_ratio": ratio,
            "error": None,
        }
