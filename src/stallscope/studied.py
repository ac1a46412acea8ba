# SPDX-License-Identifier: Apache-2.0
"""A recording as advice needs it: what its data costs, and its cycles with that data elsewhere."""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import pipelines
from stallscope.analyses import advise as analysis
from stallscope.analyses.advise import AdviceRow, Data
from stallscope.analyses.live import LiveView
from stallscope.analyses.objects import MissView
from stallscope.analyses.sites import forwards
from stallscope.errors import StallscopeError
from stallscope.pipelines import CoreProbe, Shape
from stallscope.processes import choose
from stallscope.recording import Recording, open_recording
from stallscope.viewing import view

MOST_OBJECTS = 8  # whose layouts are tried


@dataclass(frozen=True)
class Group:
    """Data that is laid out together."""

    name: str
    buckets: tuple[int, ...]
    latency: int


def key_of(bucket: dict[str, Any]) -> tuple[str, Any]:
    return bucket["kind"], bucket["site"] if bucket["kind"] == "heap" else bucket["name"]


class Studied:
    """One process image on the core of one machine, and what its data costs."""

    def __init__(
        self,
        recording: Recording | str | Path | None,
        machine: str | None,
        process: str | int | None,
        depth: int,
        wrapper: Sequence[str],
    ) -> None:
        opened = recording if isinstance(recording, Recording) else open_recording(recording)
        self.opened = opened
        images = choose(opened, process)
        self.image = max(images, key=lambda one: one.meta.instructions)
        seen = view(
            self.image, machine=machine, process=None, depth=depth, wrapper=wrapper, evictions=True
        )
        if isinstance(seen, LiveView):
            raise StallscopeError(
                f"{opened.path.name} holds samples, which cannot be replayed",
                now="stallscope record --trace -- PROGRAM",
            )
        if not self.image.meta.trace:
            raise StallscopeError(
                f"{opened.path.name} has no trace, so that no change can be replayed",
                "it was recorded without --trace",
                "stallscope record --trace -- PROGRAM",
            )
        self.view: MissView = seen
        self.core = pipelines.core_view(self.image, machine=machine, process=self.image.meta.name)
        self.depth, self.wrapper = depth, wrapper
        self.tried = 0
        self.declined: list[str] = []

    @functools.cached_property
    def cycles(self) -> int:
        return self.run(CoreProbe())

    def run(self, probe: CoreProbe, **machine: Any) -> int:
        """Cycles of the core, with another layout, or a machine that is changed."""
        changed = self.core.machine.with_values(machine) if machine else self.core.machine
        found = pipelines.run(self.image, changed, self.core.machine_name, probe)
        return found.totals["cycles"]

    def saved(self, what: str, probe: CoreProbe, **machine: Any) -> int:
        self.tried += 1
        saved = self.cycles - self.run(probe, **machine)
        if saved < analysis.LEAST * self.cycles:
            share = saved / max(1, self.cycles)
            self.declined.append(f"{what}: saves {share:.1%} of the cycles")
        return saved

    def row(self, kind: str, name: str, where: str, said: tuple[str, str], saved: int) -> AdviceRow:
        share = saved / max(1, self.cycles)
        return AdviceRow(0, kind, name, where, said[0], saved, share, said[1])

    # Costs of objects.

    @functools.cached_property
    def latency(self) -> collections.Counter[int]:
        """By bucket."""
        found: collections.Counter[int] = collections.Counter()
        for count in self.view.counts():
            found[count.bucket] += count.latency
        return found

    @functools.cached_property
    def groups(self) -> list[Group]:
        """What is laid out together: a variable, or all blocks that one call asks for, however the
        program got there. The costliest first."""
        callers = self._callers()
        found: dict[Any, list[int]] = {}
        for bucket, row in enumerate(self.view.buckets):
            if row["kind"] == "heap":
                found.setdefault(callers.get(row["site"], row["site"]), []).append(bucket)
            elif row["kind"] == "global":
                found.setdefault(row["name"], []).append(bucket)
        made = []
        for buckets in found.values():
            buckets.sort(key=lambda bucket: (-self.latency[bucket], bucket))
            latency = sum(self.latency[bucket] for bucket in buckets)
            made.append(Group(self.view.name(buckets[0]), tuple(buckets), latency))
        return sorted(made, key=lambda group: (-group.latency, group.name))

    @functools.cached_property
    def costly(self) -> list[Group]:
        """Whose layout may matter."""
        least = analysis.MATTERS * max(1, self.latency.total())
        return [group for group in self.groups if group.latency >= least][:MOST_OBJECTS]

    def _callers(self) -> dict[int, tuple[int, str]]:
        """Of each site the call that asked for memory, not one that forwards the request."""
        found: dict[int, tuple[int, str]] = {}
        for row in self.image.table("site").to_pylist():
            if row["site"] not in found and not forwards(row["function"], self.wrapper):
                found[row["site"]] = (row["address"], row["function"])
        return found

    @functools.cached_property
    def variables(self) -> dict[str, tuple[int, int]]:
        """Address and size."""
        rows = self.image.table("object").select(["kind", "name", "address", "size"]).to_pylist()
        return {r["name"]: (r["address"], r["size"]) for r in rows if r["kind"] == "global"}

    def where(self, buckets: Sequence[int]) -> str:
        """The line that waits longest for them."""
        by_operation: collections.Counter[int] = collections.Counter()
        for count in self.view.counts():
            if count.bucket in buckets:
                by_operation[count.operation] += count.latency
        return self.place(by_operation.most_common(1)[0][0]) if by_operation else ""

    def place(self, operation: int) -> str:
        function, file, line = self.view.places.get(operation, ("?", "", None))
        return f"{function} ({Path(file).name}:{line})" if line else str(function)

    def data(self, group: Group, element: int, kind: str, fields: Any) -> Data:
        rows = [self.view.buckets[bucket] for bucket in group.buckets]
        heap = rows[0]["kind"] == "heap"
        size = sum(row["bytes"] for row in rows) if heap else self.variables[rows[0]["name"]][1]
        return Data(
            name=group.name,
            kind=rows[0]["kind"],
            type=kind,
            blocks=sum(row["blocks"] for row in rows) if heap else 1,
            bytes=size,
            element=element,
            elements=-(-size // max(1, element)),
            share=group.latency / max(1, self.latency.total()),
            fields=fields,
        )

    def shape(self, group: Group, layout: analysis.Layout) -> Shape:
        rows = [self.view.buckets[bucket] for bucket in group.buckets]
        sites = tuple(row["site"] for row in rows if row["kind"] == "heap")
        address, size = (0, 0) if sites else self.variables[rows[0]["name"]]
        return (sites, address, size, layout.element, layout.groups, layout.parts)
