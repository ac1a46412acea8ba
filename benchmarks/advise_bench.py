# SPDX-License-Identifier: Apache-2.0
"""The bundled pairs: what `advise` predicts for the slow form, beside what the changed form saves.

Counts of simulated cycles: the same on every machine and in every run, but for the pair with
threads."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import stallscope
from benchmarks.report import Row
from stallscope import clustering, pipelines

FOLDER = Path(__file__).resolve().parents[1] / "workloads" / "pairs"
THREADED = ("pad shared fields", "place threads")
# Of place_threads: its first four threads on one chip, the others on the second.
PINNED = ",".join(f"place_threads#{number + 2}={number}" for number in range(8))
HUGE_PAGE = 2 << 20
LIMIT = 20.0  # percent
# The pair, and the change that turns the slow form into the other one.
PAIRS = {
    "pack_list": "pack blocks",
    "pack_tree": "pack blocks",
    "split_array": "split fields",
    "split_global": "split fields",
    "split_nodes": "split fields",
    "soa_heap": "struct of arrays",
    "soa_global": "struct of arrays",
    "reorder_nodes": "reorder fields",
    "pad_rows": "pad an array",
    "turn_rows": "turn an array",
    "near_arrays": "near allocation",
    "huge_table": "huge pages",
    "prefetch_index": "prefetch",
    "tile_turn": "tile loops",
    "pad_counters": "pad shared fields",
    "place_threads": "place threads",
}


@dataclass(frozen=True)
class Pair:
    name: str
    kind: str
    before: int
    predicted: int  # cycles saved
    replayed: int  # cycles that the changed program takes less
    rank: int

    @property
    def error(self) -> float:
        return self.predicted / self.replayed - 1 if self.replayed else float("inf")


def record(name: str, form: str, folder: Path) -> Path:
    program = folder / name
    words = ["gcc", "-O2", "-g", str(FOLDER / f"{name}.c"), "-o", str(program), "-pthread"]
    subprocess.run(words, check=True)
    output = folder / f"{name}-{form}.stallscope"
    stallscope.record([str(program), form], trace=True, machine="none", output=output)
    return output


def cycles(path: Path, kind: str) -> int:
    if kind in THREADED:
        return clustering.open_threads(path).base.cycles
    return pipelines.core_view(path).runs[0].totals["cycles"]


def cycles_changed(path: Path, kind: str) -> int:
    """Of the changed form; what is not the program's own to change is changed around it."""
    if kind == "place threads":
        return stallscope.place(path, placement=PINNED).cycles_placed
    if kind != "huge pages":
        return cycles(path, kind)
    core = pipelines.core_view(path)
    tlbs = [tlb.name.lower() for tlb in core.machine.tlbs if tlb.holds != "instructions"]
    machine = core.machine.with_values({f"{name}.page": str(HUGE_PAGE) for name in tlbs})
    image = stallscope.open(path)
    found = pipelines.run(image, machine, core.machine_name, pipelines.CoreProbe())
    return int(found.totals["cycles"])


def measure(name: str, folder: Path) -> Pair:
    kind = PAIRS[name]
    before, after = (record(name, form, folder) for form in ("before", "after"))
    found = stallscope.advise(before)
    rows = [row for row in found.rows if row.kind == kind]
    was = cycles(before, kind)
    share = rows[0].predicted_share if rows else 0.0
    rank = rows[0].rank if rows else 0
    return Pair(name, kind, was, round(share * was), was - cycles_changed(after, kind), rank)


def pairs(names: Sequence[str] = ()) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="stallscope-pairs-") as folder:
        for name in names or PAIRS:
            yield measure(name, Path(folder))


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    for name in PAIRS:
        say(f"advise: {name}")
        [pair] = pairs([name])
        said = f"{name}: {pair.kind}, cycles {pair.before:,}, "
        said += f"predicted -{pair.predicted:,}, replayed -{pair.replayed:,}, off by"
        yield Row("advise", said, 100 * abs(pair.error), "%", LIMIT)
