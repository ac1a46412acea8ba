# SPDX-License-Identifier: Apache-2.0
"""Running ahead of the misses of a recording: its slices, and what they would bring."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import _engine
from stallscope.analyses import slices as analysis
from stallscope.analyses.advice import Advice
from stallscope.analyses.advice import advise as write_advice
from stallscope.analyses.live import LiveView
from stallscope.analyses.loads import Limits
from stallscope.analyses.prediction import (
    ASSIST,
    BOTH,
    INLINE,
    ChoiceRow,
    Prediction,
    deliveries,
    row_of,
)
from stallscope.errors import StallscopeError
from stallscope.recording import STREAM

if TYPE_CHECKING:
    from stallscope.analyses.objects import MissView
    from stallscope.analyses.slices import FlowsOf, Made, Slices
    from stallscope.slicing.slice import Flows
    from stallscope.slicing.trace import Trace


def stream_of(view: MissView | LiveView) -> str:
    """The kept trace, without which no slice can be checked against what the program did."""
    if isinstance(view, LiveView):
        raise StallscopeError(
            f"{view.recording.path.name} holds samples, no trace",
            now="stallscope record --trace -- PROGRAM; or stallscope prefetch run -- PROGRAM",
        )
    recording = view.replay.images[0]
    if not recording.meta.trace:
        raise StallscopeError(
            f"{recording.path.name} has no trace", now="stallscope record --trace -- PROGRAM"
        )
    return str(recording.path / STREAM)


def flows(view: MissView) -> FlowsOf:
    """Which stores feed which loads, as the recording shows it."""
    stream = stream_of(view)

    def of(trace: Trace) -> Flows:
        try:
            found = _engine.flows_of(stream, sorted(trace.steps))
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error
        return frozenset((store, load) for store, load, _ in found)

    return of


def slices(view: MissView, limits: Limits | None = None, most: int = analysis.MOST) -> Slices:
    """The prefetch slices of a recording's delinquent loads."""
    return analysis.slices(view, flows(view), limits, most)


class Pace(msgspec.Struct, frozen=True):
    """How far an assist thread runs ahead."""

    chunk: int = 256  # runs of the load between checks
    slack: int = 50  # runs that it may be ahead at a check
    pause: int = 1000  # cycles, or pause instructions, that it waits then

    def check(self) -> None:
        for name in ("chunk", "pause"):
            if not 1 <= getattr(self, name) < 1 << 31:
                raise StallscopeError(f"--{name} {getattr(self, name)}: it must be at least 1")
        if not 0 <= self.slack < 1 << 31:
            raise StallscopeError(f"--slack {self.slack}: it must be at least 0")


def predict(
    view: MissView,
    limits: Limits | None = None,
    *,
    pace: Pace | None = None,
    threads: str = "cores",
    hardware: bool = True,
    only: Sequence[str] = ("assist", "inline"),
    every: bool = False,
) -> Prediction:
    """What slices would bring on the view's machine: for each the best of its deliveries, all of
    them together, and the control, which costs the same and brings nothing. The assist thread is a
    hardware thread of the same core (`smt`), or on a core that shares the last cache (`cores`).
    `only` limits the deliveries; with `every`, slices are used that do not pay as well."""
    pace = pace or Pace()
    pace.check()
    if threads not in ("smt", "cores"):
        raise StallscopeError(f"threads are smt or cores, not {threads!r}")
    stream = stream_of(view)
    found, made = analysis.make(view, flows(view), limits)
    options = msgspec.to_builtins(pace) | {
        "shared_core": threads == "smt",
        "hardware": hardware,
        "prefetch": True,
    }

    def run(words: list[dict[str, Any]], **changed: bool) -> dict[str, int]:
        try:
            machine = view.replay.result.machine
            return _engine.run_ahead(stream, machine, words, options | changed)
        except _engine.EngineError as error:
            raise StallscopeError(*error.args) from error

    base = run([])
    choices, words, declined = [], [], []
    for one in made:
        if one.slice is None or one.trace is None:
            declined.append(f"{one.row.function}:{one.row.line}: {one.reason}")
            continue
        best = _best(one, run, base, only, every)
        if best is None:
            declined.append(f"{one.row.function}:{one.row.line}: no delivery pays")
            continue
        choices.append(best[0])
        words += best[1]
    rows = [
        row_of("without", base, base),
        row_of("slices", run(words), base),
        row_of("control", run(words, prefetch=False), base),
    ]
    return Prediction(
        found.recording,
        found.machine,
        threads,
        hardware,
        pace.chunk,
        pace.slack,
        pace.pause,
        choices,
        declined,
        rows,
    )


def _best(
    one: Made,
    run: Callable[..., dict[str, int]],
    base: dict[str, int],
    only: Sequence[str],
    every: bool,
) -> tuple[ChoiceRow, list[dict[str, Any]]] | None:
    """The delivery with which the program is fastest, unless it is slower."""
    assert one.slice is not None
    assert one.trace is not None
    tried: list[tuple[int, str, int, list[dict[str, Any]], dict[str, int]]] = []
    ways = deliveries(one.slice, one.trace)
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for way in ways:
        if way.how not in only:
            continue
        groups.setdefault((way.how, way.distance), []).append(way.words)
    for (how, distance), words in groups.items():
        counts = run(words)
        tried.append((counts["cycles"], how, distance, words, counts))
    if not tried:
        return None
    together = min(tried, key=lambda entry: entry[0])
    threads = groups.get((ASSIST, 0))
    if together[1] == INLINE and threads is not None:
        counts = run([*threads, *together[3]])
        words = [*threads, *together[3]]
        tried.append((counts["cycles"], BOTH, together[2], words, counts))
    cycles, how, distance, words, counts = min(tried, key=lambda entry: entry[0])
    if cycles >= base["cycles"] and not every:
        return None
    row = row_of("", counts, base)
    where = one.row
    return (
        ChoiceRow(
            where.pc, where.function, where.line, where.kind, how, distance, row.removed,
            row.speedup,
        ),
        words,
    )  # fmt: skip


def advise(view: MissView, limits: Limits | None = None, **options: Any) -> Advice:
    """What would be written into the source for the same effect; options as for `predict`."""
    return written(view, predict(view, limits, only=("inline",), **options))


def written(view: MissView, prediction: Prediction) -> Advice:
    """A prediction of inline prefetches as a patch of the source."""
    rows = view.replay.recording.table("operation").select(["address", "file"]).to_pylist()
    files = {row["address"]: row["file"] for row in rows}
    sources: dict[str, list[str]] = {}
    for choice in prediction.choices:
        file = files.get(choice.pc, "")
        with contextlib.suppress(OSError, UnicodeDecodeError):
            sources[file] = Path(file).read_text(encoding="utf-8").splitlines()
    return write_advice(prediction, files, sources)
