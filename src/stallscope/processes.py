# SPDX-License-Identifier: Apache-2.0
"""Several process images of one recording, looked at as if they were one.

Every image numbers its buckets, operations, sites and so on from the beginning. Here the numbers of
later images follow those of earlier ones, so that tables can be put below each other, and what has
the same name in several images comes together where names are what counts. An analysis may ask a
`Replays` whatever it may ask a `Replay`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from stallscope import results
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.recording import Recording
from stallscope.results import Probe, Replay, Result

if TYPE_CHECKING:
    import pyarrow as pa

ALL = "all"
# Columns that hold a number of something, and the table and column in which these are numbered.
NUMBERED = {
    "bucket": ("bucket", "bucket"),
    "victim": ("bucket", "bucket"),
    "culprit": ("bucket", "bucket"),
    "operation": ("operation", "operation"),
    "block": ("block", "block"),
    "module": ("module", "module"),
    "region": ("region", "region"),
    "around": ("region", "region"),
    "site": ("site", "site"),
    "thread": ("thread", "thread"),
    "parent": ("thread", "thread"),
}
# Of a level's row, what is the machine's and so the same for every image; the rest is counts.
OF_THE_MACHINE = ("level", "name", "kind", "holds", "latency")
LISTED = 20  # processes in an error


def choose(recording: Recording, process: str | int | None = None) -> list[Recording]:
    """The images of the process with this number (or one image, by its name); all when not told."""
    images = list(recording.processes())
    wanted = ALL if process is None else str(process)
    if wanted == ALL:
        return images
    found = [i for i in images if wanted in (str(i.meta.pid), i.meta.name)]
    if not found:
        raise StallscopeError(
            f"{recording.path.name} has no process {wanted}",
            f"it has: {_listed(images)}",
            "--process all",
        )
    return found


def _listed(images: Sequence[Recording]) -> str:
    names = {i.meta.pid: PurePath((i.meta.command or ["?"])[0]).name for i in images}
    shown = [f"{pid} ({name})" for pid, name in list(names.items())[:LISTED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def replay(
    recording: Recording,
    machine: Machine,
    machine_name: str,
    probe: Probe,
    process: str | int | None = None,
) -> Replay | Replays:
    """The results of the chosen processes on this machine: kept ones, or by replaying their traces.

    Processes that have neither a result nor a trace are left out, unless there are no others."""
    parts, refused = [], []
    for image in choose(recording, process):
        try:
            parts.append(results.replay(image, machine, machine_name, probe))
        except results.NoTrace as error:
            refused.append((image, error))
    if not parts:
        raise refused[0][1]
    left_out = [image for image, _ in refused]
    return parts[0] if len(parts) == 1 and not left_out else Replays(recording, parts, left_out)


class Replays:
    """Several images on one machine, as one replay."""

    def __init__(
        self, recording: Recording, parts: Sequence[Replay], left_out: Sequence[Recording] = ()
    ) -> None:
        self.parts = list(parts)
        self.images = [part.recording for part in parts]
        self.left_out = list(left_out)
        self.recording = _Images(recording, self)
        self._firsts: dict[tuple[str, str], list[int]] = {}

    @functools.cached_property
    def result(self) -> Result:
        """Counts are those of all images; samples of different periods stand for one in between."""
        all_of = [part.result for part in self.parts]
        sums = {
            field: sum(getattr(result, field) for result in all_of)
            for field in Result.__struct_fields__
            if type(getattr(all_of[0], field)) is int
            and field not in ("sample_level", "sample_period")
        }
        periods = {result.sample_period for result in all_of}
        if len(periods) > 1:
            weights = self.table("sample").column("weight").to_pylist()
            sums["sample_period"] = round(sum(weights) / max(1, len(weights)))
        return msgspec.structs.replace(all_of[0], **sums)

    def table(self, name: str) -> pa.Table:
        found = [part.table(name) for part in self.parts]
        return _added_up(found) if name == "level" else self.stacked(found)

    def stacked(self, found: Sequence[pa.Table]) -> pa.Table:
        """Tables of the parts below each other, with numbers that no two of them share."""
        import pyarrow as pa
        import pyarrow.compute as pc

        shifted = []
        for part, table in enumerate(found):
            for index, field in enumerate(table.schema):
                if field.name in NUMBERED:
                    first = self._first(NUMBERED[field.name])[part]
                    column = pc.add(table.column(index), pa.scalar(first, field.type))
                    table = table.set_column(index, field, column)
            shifted.append(table)
        return pa.concat_tables(shifted)

    def _first(self, home: tuple[str, str]) -> list[int]:
        """The number that each part's first gets."""
        if home not in self._firsts:
            table, column = home
            firsts, after = [], 0
            for part in self.parts:
                of_replay = table in ("bucket", "region")
                asked = part.table(table) if of_replay else part.recording.table(table)
                firsts.append(after)
                after += 1 + max(asked.column(column).to_pylist(), default=-1)
            self._firsts[home] = firsts
        return self._firsts[home]


class _Images:
    """The recordings of these images, as one; what it says of itself is the whole recording's."""

    def __init__(self, root: Recording, replays: Replays) -> None:
        self._replays = replays
        self.path = root.path
        self.meta = root.meta

    def table(self, name: str) -> pa.Table:
        found = [image.table(name) for image in self._replays.images]
        return self._replays.stacked(found)


def _added_up(levels: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    rows: list[dict[str, Any]] = levels[0].to_pylist()
    for other in levels[1:]:
        for row, more in zip(rows, other.to_pylist(), strict=True):
            for name in row.keys() - set(OF_THE_MACHINE):
                row[name] += more[name]
    return pa.Table.from_pylist(rows, levels[0].schema)
