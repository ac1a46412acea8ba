# SPDX-License-Identifier: Apache-2.0
"""Running ahead of the misses of a recording: its slices, and what they would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope import _engine
from stallscope.analyses import slices as analysis
from stallscope.analyses.live import LiveView
from stallscope.analyses.loads import Limits
from stallscope.errors import StallscopeError
from stallscope.recording import STREAM

if TYPE_CHECKING:
    from stallscope.analyses.objects import MissView
    from stallscope.analyses.slices import FlowsOf, Slices
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
