# SPDX-License-Identifier: Apache-2.0
"""How well watched memory tells what a trace knows exactly: reuse times of the same addresses
between the same instructions, and the miss curve of loops of known access rate."""

from __future__ import annotations

import bisect
import collections
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import STALLSCOPE, BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row
from stallscope import _engine, workloads
from stallscope.analyses.reuse import code_of
from stallscope.analyses.sites import site_names
from stallscope.recording import STREAM, Recording
from stallscope.reusing import reuse

GRANULE = 8
ROUNDS = 24_000_000
SMALLEST = 1 << 15  # bytes of a cache: a smaller one forgets sooner than can be told
TIMES_WITHIN, CURVE_WITHIN = 10.0, 10.0
# Long enough for some hundred watches, short enough for a trace.
PROGRAMS = {
    "array": ("524288", "300", "16"),
    "shallow_water": ("256", "200"),
    "matmul": ("800",),
}
Place = tuple[str, str]


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    for name, arguments in PROGRAMS.items():
        say(f"reuse: {name}")
        program = workloads.build(name, FOLDER / "workloads")
        native, recorded = _both([str(program), *arguments])
        errors = reuse_errors(native, recorded)
        if not errors:
            raise BenchmarkError(f"{name}: no reuse time can be compared")
        middle = statistics.median(errors)
        yield Row("reuse", f"{name}: times compared", len(errors), "")
        yield Row("reuse", f"{name}: times off at the median", 100 * abs(middle), "%", TIMES_WITHIN)
        spread = statistics.median(map(abs, errors))
        yield Row("reuse", f"{name}: half of the times off by at most", 100 * spread, "%")
    say("reuse: curve")
    yield from _curve()


def _both(command: Sequence[str]) -> tuple[Recording, Recording]:
    native, recorded = FOLDER / "reuse.native", FOLDER / "reuse.recorded"
    ways = {
        native: ["--source", "clock", "--rate", "1000", "--watch", str(GRANULE)],
        recorded: ["--machine", "none", "--trace"],
    }
    for folder, options in ways.items():
        words = [STALLSCOPE, "record", "-q", "-f", "-o", str(folder), *options, "--", *command]
        ran = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if ran.returncode != 0:
            raise BenchmarkError(f"{command[0]}: {ran.stderr.decode()[-400:]}")
    return Recording(native), Recording(recorded)


def _objects(recording: Recording) -> dict[Place, tuple[int, int]]:
    """Start and size of everything that there is one of."""
    sites = site_names(recording.table("site"))
    found: dict[Place, list[tuple[int, int]]] = collections.defaultdict(list)
    for row in recording.table("object").to_pylist():
        if row["kind"] in ("global", "heap"):
            name = row["name"] if row["kind"] == "global" else str(sites.get(row["site"]))
            found[row["kind"], name].append((row["address"], row["size"]))
    return {place: spans[0] for place, spans in found.items() if len(spans) == 1}


def _moves(native: Recording, recorded: Recording) -> Callable[[int], int | None]:
    """From an address of one run to that of the same data in the other."""
    there = _objects(recorded)
    spans = sorted(
        (start, size, there[place][0])
        for place, (start, size) in _objects(native).items()
        if place in there and there[place][1] == size
    )

    def move(address: int) -> int | None:
        at = bisect.bisect_right(spans, (address, 1 << 64, 0)) - 1
        if at < 0 or address - spans[at][0] >= spans[at][1]:
            return None
        return spans[at][2] + address - spans[at][0]

    return move


def reuse_errors(native: Recording, recorded: Recording) -> list[float]:
    """By how much each watched reuse time is off from the median of the recorded ones: of the same
    granule, from the same instruction to the same instruction."""
    move = _moves(native, recorded)
    places = {w["watch"]: move(w["address"]) for w in native.table("watch").to_pylist()}
    wanted = sorted({place for place in places.values() if place is not None})
    found = _engine.reuse_of(str(recorded.path / STREAM), GRANULE, wanted, all=False)
    exact = _intervals(recorded, found["followed"])
    assert native.meta.cpu_seconds is not None
    rate = found["touches"] / native.meta.cpu_seconds / 1e9
    cost = native.meta.options["touch_cost_ns"]
    code = code_of(native)
    errors = []
    for row in native.table("reuse").to_pylist():
        key = (places[row["watch"]], code.get(row["operation"]), code.get(row["by_operation"]))
        if row["after"] is None or key not in exact:
            continue
        lasted = row["after"] if row["ran"] is None else row["ran"]
        truth = statistics.median(exact[key])
        if truth >= cost * rate:  # a shorter one cannot be told
            errors.append((lasted - cost) * rate / truth - 1)
    return errors


def _intervals(recorded: Recording, followed: Sequence[int]) -> dict[Any, list[int]]:
    """Recorded reuse times by granule and the two instructions."""
    modules = sorted(
        (row["start"], row["end"], row["bias"], row["build_id"] or row["path"])
        for row in recorded.table("module").to_pylist()
    )

    def code(address: int) -> tuple[str, int]:
        at = bisect.bisect_right(modules, (address, 1 << 64, 0, "")) - 1
        inside = at >= 0 and address < modules[at][1]
        return (modules[at][3], address - modules[at][2]) if inside else ("", address)

    last: dict[int, tuple[int, tuple[str, int]]] = {}
    found: dict[Any, list[int]] = collections.defaultdict(list)
    for granule, time, instruction in zip(
        followed[::3], followed[1::3], followed[2::3], strict=True
    ):
        here = code(instruction)
        if granule in last:
            before, place = last[granule]
            found[granule, place, here].append(time - before)
        last[granule] = (time, here)
    return found


def _curve() -> Iterator[Row]:
    program = FOLDER / "reuses"
    source = Path("tests/programs/reuses.c")
    subprocess.run(["cc", "-O2", "-g", "-o", str(program), str(source)], check=True)
    native, recorded = _both([str(program), str(ROUNDS)])
    estimated = reuse(native, counts=recorded)
    exact = {row.bytes: row.misses for row in reuse(recorded, granule=GRANULE).curve}
    off = {
        row.bytes: (row.of_all or 0.0) - exact[row.bytes]
        for row in estimated.curve
        if row.bytes >= SMALLEST and row.bytes in exact
    }
    plain = {
        row.bytes: (row.waiting or 0.0) - exact[row.bytes]
        for row in estimated.curve
        if row.bytes in off
    }
    yield Row("reuse", "curve: watches", estimated.watches, "")
    yield Row("reuse", "curve: speaks for", 100 * (estimated.covered or 0), "%")
    farthest = 100 * max(map(abs, off.values()))
    yield Row("reuse", "curve: farthest off", farthest, "points", CURVE_WITHIN)
    mean = 100 * statistics.mean(map(abs, off.values()))
    yield Row("reuse", "curve: off on average", mean, "points")
    unweighted = 100 * max(map(abs, plain.values()))
    yield Row("reuse", "curve: farthest off without counts", unweighted, "points")
