# SPDX-License-Identifier: Apache-2.0
"""A simulated fleet from real recordings: many hosts, days and builds.

Each recording of the fleet is a whole recording that any verb can read: samples of a real one drawn
again, with the rest of its tables. Hosts differ from each other (each object's weight times a
factor of the host), recordings of one host differ more than drawing samples makes them, and in the
second build, where a regression is planted, one object's share is doubled on a tenth of the hosts.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from stallscope import meta, tables
from stallscope.recording import Recording, open_recording
from stallscope.scale.fleet_rows import rows_of

HOST_SPREAD = 0.2  # of the logarithm of an object's weight on a host
CONCENTRATION = 300.0  # of the shares of one recording around those of its host: smaller is wilder
SAMPLES = 250
MOST_DOUBLED = 0.45  # a share that is larger on some host is not quite doubled there
FIRST_DAY = date(2026, 11, 2)


@dataclass(frozen=True)
class Plant:
    program: str
    object: str
    hosts: frozenset[int]


@dataclass
class Base:
    """A real recording, and how often its program was in which state, by bucket."""

    recording: Recording
    program: str
    weights: dict[tuple[str, int | None], int]
    names: dict[int | None, str]
    rows: dict[tuple[str, int | None], int]  # a row of live_sample for each
    samples: pa.Table
    links: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Base:
        recording = open_recording(path)
        samples = recording.table("live_sample")
        keys = list(zip(samples["state"].to_pylist(), samples["bucket"].to_pylist(), strict=True))
        rows = {key: index for index, key in reversed(list(enumerate(keys)))}
        program = Path(recording.meta.command[0]).name
        return cls(recording, program, dict(Counter(keys)), _names(path, recording), rows, samples)


def _names(path: Path, recording: Recording) -> dict[int | None, str]:
    """Names as the fleet has them, by bucket."""
    from stallscope.analyses.live import object_names
    from stallscope.scale.nameless import without_line

    found = {index: without_line(name) for index, (name, _) in enumerate(object_names(recording))}
    assert rows_of(path, "check")
    return {**found, None: "<address unknown>"}


@dataclass
class Simulated:
    bases: list[Base]
    hosts: int = 100
    days: int = 10
    each: int = 10  # recordings of a host a day, over all programs
    seed: int = 1
    plant: Plant | None = None

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        self.factors = {
            (base.program, host): {
                key: math.exp(draw.gauss(0, HOST_SPREAD)) for key in base.weights
            }
            for base in self.bases
            for host in range(self.hosts)
        }

    def build(self, base: Base, day: int) -> str:
        """The second one comes out in the middle."""
        second = day >= self.days // 2
        return ("b" if second else "a") * 8 + base.program.encode().hex()[:24].ljust(24, "0")

    def runs(self) -> Iterator[tuple[Base, int, int, int]]:
        for day in range(self.days):
            for host in range(self.hosts):
                for number in range(self.each):
                    yield self.bases[(host + number) % len(self.bases)], host, day, number

    def weights(self, base: Base, host: int, day: int) -> dict[tuple[str, int | None], float]:
        """Of each state and bucket on a host that day."""
        factors = self.factors[base.program, host]
        weights = {key: count * factors[key] for key, count in base.weights.items()}
        if self._planted(base, host, day):
            assert self.plant is not None
            own = [k for k in weights if k[0] == "memory" and base.names[k[1]] == self.plant.object]
            share = min(MOST_DOUBLED, sum(weights[key] for key in own) / sum(weights.values()))
            for key in own:
                weights[key] *= 2 * (1 - share) / (1 - 2 * share)
        return weights

    def counts(self, base: Base, host: int, day: int, number: int) -> Counter[Any]:
        """Samples of one recording, by state and bucket."""
        draw = random.Random(f"{self.seed} {base.program} {host} {day} {number}")
        weights = self.weights(base, host, day)
        whole = sum(weights.values())
        drawn = [draw.gammavariate(CONCENTRATION * w / whole, 1) for w in weights.values()]
        return Counter(draw.choices(list(weights), drawn, k=SAMPLES))

    def _planted(self, base: Base, host: int, day: int) -> bool:
        plant = self.plant
        if plant is None or base.program != plant.program or host not in plant.hosts:
            return False
        return day >= self.days // 2

    def write(self, folder: Path) -> int:
        """All recordings, as folders by host."""
        count = 0
        for base, host, day, number in self.runs():
            place = folder / f"host-{host:04d}" / f"{day:03d}-{number:03d}.stallscope"
            self._write(place, folder, base, host, day, number)
            count += 1
        return count

    def _write(
        self, place: Path, folder: Path, base: Base, host: int, day: int, number: int
    ) -> None:
        place.mkdir(parents=True)
        files: dict[str, meta.File] = {}
        build = self.build(base, day)
        for name in base.recording.meta.files:
            kept = self._shared(folder, base, name, build)
            os.link(kept, place / name)
            files[name] = _digest(kept)
        counts = self.counts(base, host, day, number)
        indices = [base.rows[key] for key, count in counts.items() for _ in range(count)]
        (place / "live_sample.parquet").unlink()
        samples = tables.TableWriter(place / "live_sample.parquet", "live_sample")
        samples.append(base.samples.take(indices))
        samples.close()
        files["live_sample.parquet"] = meta.digest(samples.path)
        facts = msgspec.structs.replace(
            base.recording.meta,
            created=f"{FIRST_DAY + timedelta(days=day)}T{number % 24:02d}:00:00.{host:06d}+00:00",
            options={**base.recording.meta.options, "host": f"host-{host:04d}"},
            samples=SAMPLES,
            files=files,
        )
        meta.write(facts, place)

    def _shared(self, folder: Path, base: Base, name: str, build: str) -> Path:
        """Files that all recordings of a build have in common are there once."""
        key = f"{base.program}-{build}-{name}"
        if key not in base.links:
            kept = folder / ".parts" / key
            kept.parent.mkdir(exist_ok=True, parents=True)
            table = base.recording.table(name.removesuffix(".parquet"))
            if name == "module.parquet":
                own = [
                    build if Path(row["path"]).name == base.program else row["build_id"]
                    for row in table.to_pylist()
                ]
                at = table.schema.get_field_index("build_id")
                table = table.set_column(
                    at, table.schema.field(at), pa.array(own, table.schema.field(at).type)
                )
            pq.write_table(table, kept, compression="zstd", write_page_checksum=True)
            base.links[key] = kept
        return base.links[key]


_digests: dict[Path, meta.File] = {}


def _digest(path: Path) -> meta.File:
    if path not in _digests:
        _digests[path] = meta.digest(path)
    return _digests[path]
