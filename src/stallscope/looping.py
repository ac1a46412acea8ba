# SPDX-License-Identifier: Apache-2.0
"""The loops of a recording, with what a machine and its core make of them."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stallscope import _engine, pipelines, processes, tables, viewing
from stallscope.analyses.loops import Facts, Loops, removed_causes, replayed
from stallscope.analyses.loops import loops as analyse
from stallscope.errors import StallscopeError
from stallscope.recording import STREAM, Recording, is_sampled, open_recording

COUNTERS = ("add", "sub", "inc", "dec", "lea")  # what a loop's counter is stepped by
COMPARES = ("cmp", "test")


def loops(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    function: str | None = None,
    mode: str = "real",
) -> Loops:
    """Of a recording with a trace: trip counts, strides, branches, misses, stalls, suggestions;
    only loops of `function` when it is told. `mode` is the core's, as for stalls()."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    if is_sampled(opened.meta):
        raise StallscopeError(
            "loops need every instruction",
            f"{opened.path.name} was recorded by --source {opened.meta.source}",
            "stallscope record --trace -- PROGRAM",
        )
    images = processes.choose(opened, process)
    if len(images) > 1:
        raise StallscopeError(
            f"{opened.path.name} has {len(images)} processes, each with code of its own",
            now="--process NUMBER; stallscope info lists them",
        )
    image = images[0]
    if not image.meta.trace:
        raise StallscopeError(
            f"{opened.path.name} has no trace", now="stallscope record --trace -- PROGRAM"
        )
    try:
        found = _engine.loops(str(image.path / STREAM))
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    rows = {
        name: tables.to_arrow(name, columns).to_pylist()
        for name, columns in found["tables"].items()
    }
    core = pipelines.core_view(image, machine=machine, mode=mode)

    def analysed(core: pipelines.CoreView) -> Loops:
        facts = _facts(image, machine, core, rows["loop"])
        return analyse(str(opened.path), core.machine_name, rows, found["instructions"], facts)

    result = analysed(core)
    for cause in sorted(removed_causes(result)):
        result = replayed(result, cause, analysed(core.but(without=(cause,))))
    if function is None:
        return result
    kept = tuple(row for row in result.rows if row.function == function)
    if not kept:
        raise StallscopeError(f"no loop of a function {function} ran")
    return Loops(result.recording, result.machine, result.instructions, kept)


def _facts(
    image: Recording,
    machine: str | None,
    core: pipelines.CoreView,
    rows: Sequence[Mapping[str, Any]],
) -> Facts:
    seen: Any = viewing.view(image, machine=machine)
    run = core.runs[0]
    level = next(
        row["level"]
        for row in seen.replay.table("level").to_pylist()
        if row["kind"] == "cache" and row["holds"] != "instructions"
    )
    misses: collections.Counter[int] = collections.Counter()
    for row in seen.replay.table("miss").select(["level", "operation", "misses"]).to_pylist():
        if row["level"] == level:
            misses[row["operation"]] += row["misses"]
    causes = _engine.stall_causes()
    stalls: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in run.table("stall").select(["address", "cause", "cycles"]).to_pylist():
        stalls[row["address"]][causes[row["cause"]]] += row["cycles"]
    operations = image.table("operation").to_pylist()
    misses = _by_instruction(operations, misses)
    blocks = image.table("block").to_pylist()
    model = core.machine.core
    bundle = 1 if core.probe.mode == "single" else model.bundle
    return Facts(
        operations={row["operation"]: row for row in operations},
        misses=misses,
        stalls=stalls,
        control=_control(blocks, rows),
        latency=core.machine.to_engine()["memory_latency"],
        completion=run.totals["completion_cycles"] / max(run.totals["instructions"], 1),
        blocks={row["block"]: row for row in blocks},
        window=0 if core.probe.mode == "inorder" else model.rob * bundle,
    )


def _by_instruction(
    operations: Sequence[Mapping[str, Any]], misses: Mapping[int, int]
) -> collections.Counter[int]:
    """An instruction may be in several blocks: each of its operations gets the misses of all."""
    together: collections.Counter[tuple[int, int]] = collections.Counter()
    for row in operations:
        together[row["address"], row["kind"]] += misses.get(row["operation"], 0)
    return collections.Counter(
        {row["operation"]: together[row["address"], row["kind"]] for row in operations}
    )


def _control(
    blocks: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> dict[int, int]:
    """Of loops that are one block: the branch, its comparison, and what steps a counter."""
    by_address: dict[int, bytes] = {}
    for block in blocks:
        by_address.setdefault(block["address"], block["bytes"])
    found = {}
    for row in rows:
        body = _straight(by_address.get(row["header"], b""), row["header"], row["end"])
        if body is None:
            continue
        names = [one.mnemonic for one in body if not one.memory]
        compares = any(name in COMPARES for name in names)
        steps = any(name in COUNTERS for name in names)
        found[row["loop"]] = 1 + compares + steps
    return found


def _straight(code: bytes, address: int, end: int) -> list[Any] | None:
    """Its instructions, when they stand one behind the other and the last one jumps."""
    body: list[Any] = []
    while code and address <= end:
        try:
            one = _engine.decode(code, address)
        except _engine.EngineError:
            return None
        body.append(one)
        if address == end:
            return body
        if one.flow != _engine.Flow.NEXT:
            return None
        code, address = code[one.length :], address + one.length
    return None
