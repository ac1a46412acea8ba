# SPDX-License-Identifier: Apache-2.0
"""perf.data files: a sampled recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallscope import _engine
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.record.importing import Work


def import_perf_data(work: Work) -> tuple[str, ...]:
    try:
        found = _engine.read_perf_data(str(work.path))
    except _engine.EngineError as error:
        raise StallscopeError(*error.args) from error
    samples = len(found["samples"]["ip"])
    raise StallscopeError(f"{work.path} holds {samples} samples, which are not imported yet")
