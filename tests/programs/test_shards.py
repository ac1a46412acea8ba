# SPDX-License-Identifier: Apache-2.0
"""A replay in shards against the whole one, on a real and on a random trace."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

import stallscope as api
from conftest import Ran, Recorder
from stallscope.scale import shards
from stallscope.scale.shard_task import ShardDone, ShardTask, compute_shard


class HereAndNow:
    """Shards one after the other in this process: 64 processes would only take longer."""

    def __init__(self, jobs: int) -> None:
        pass

    def run(self, tasks: Sequence[ShardTask]) -> Generator[ShardDone, None, None]:
        yield from map(compute_shard, tasks)


@pytest.fixture(scope="module")
def recorded(shared_record: Recorder, workload: Callable[[str], Path]) -> Path:
    return shared_record(workload("list"), "1500", options=["--trace"]).path


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many accesses that cross lines, over more memory than the caches hold."""
    folder, draw = tmp_path_factory.mktemp("random"), random.Random(11)
    lines = ["address,size,kind,ip"]
    for _ in range(30_000):
        address = 0x100000 + draw.randrange(1 << draw.randrange(12, 26))
        size = draw.choice([1, 4, 8, 8, 8, 32, 64, 200])
        kind = draw.choice(["load", "store"])
        lines.append(f"{address:#x},{size},{kind},{0x400000 + 16 * draw.randrange(400):#x}")
    (folder / "trace.csv").write_text("\n".join(lines) + "\n")
    made = api.import_trace(folder / "trace.csv", output=folder / "random.stallscope")
    return Path(made.recording.path)


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def whole(path: Path) -> tuple[Any, Any]:
    view = api.view(path, machine="default", evictions=True)
    return api.replay(view), view.replay


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32, 64])
def test_shards_of_a_random_trace_add_up_to_the_whole(
    imported: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "Pool", HereAndNow)
    check(imported, count)


@pytest.mark.parametrize("count", [2, 16])
def test_shards_of_a_program_that_prefetches_add_up_to_the_whole(
    shared_record: Recorder,
    program: Callable[..., Path],
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "Pool", HereAndNow)
    check(shared_record(program("prefetches"), options=["--trace"]).path, count)


@pytest.mark.parametrize("count", [2, 64])
def test_shards_of_a_program_add_up_to_the_whole(
    recorded: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "Pool", HereAndNow)
    check(recorded, count)


@pytest.mark.parametrize("padding", [16, 400, 800, 1500])
def test_wherever_the_stack_begins(
    padding: int,
    record: Recorder,
    workload: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stack grows by accesses that cross lines too, whose second line is another shard's."""
    monkeypatch.setattr(shards, "Pool", HereAndNow)
    monkeypatch.setenv("PADDING", "x" * padding)
    check(record(workload("list"), "300", options=["--trace"]).path, 64)


def check(path: Path, count: int) -> None:
    levels, replay = whole(path)
    found = api.replay_in_shards(path, count, machine="default", evictions=True)
    assert found.levels().rows == levels.rows
    assert found.levels().instructions == levels.instructions
    for name in ("miss", "eviction", "bucket"):
        assert rows(found.table(name)) == rows(replay.table(name)), name
    if count > 1:
        assert found.levels().crossing > 0


def test_shards_by_several_processes(recorded: Path, stallscope: Callable[..., Ran]) -> None:
    ran = stallscope(
        "replay", recorded, "--machine", "default", "--shards", 4, "--jobs", 2, "--json"
    )
    assert ran.status == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["shards"] == 4
    expected = [(r.level, r.accesses, r.misses, r.evictions) for r in whole(recorded)[0].rows]
    keys = ("level", "accesses", "misses", "evictions")
    assert [tuple(row[key] for key in keys) for row in found["rows"]] == expected
    kept = {path: path.stat().st_mtime_ns for path in (recorded / "results").glob("shards-*")}
    assert kept
    again = api.replay_in_shards(recorded, 4, machine="default")
    rows = [(r.level, r.accesses, r.misses, r.evictions) for r in again.levels().rows]
    assert rows == expected
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    for path in kept:  # what is damaged is computed again
        path.write_bytes(b"short")
    assert api.replay_in_shards(recorded, 4, machine="default").levels().rows == again.levels().rows


@pytest.mark.parametrize(
    ("values", "count", "why"),
    [
        ({}, 128, "64 sets"),
        ({}, 3, "sets"),
        ({"l2.policy": "random"}, 2, "at random"),
        ({"l3.inclusion": "inclusive"}, 2, "caches inside"),
        ({"l1d.write_back": "false"}, 2, "stores"),
        ({"prefetch.kind": "next_line"}, 2, "prefetcher"),
        ({"mapping.kind": "random"}, 2, "mapped at random"),
        ({}, 0, "1 to 1,024"),
    ],
)
def test_machines_whose_sets_depend_on_each_other_are_refused(
    recorded: Path, tmp_path: Path, values: dict[str, str], count: int, why: str
) -> None:
    from stallscope import machines

    file = tmp_path / "machine.toml"
    file.write_text(machines.load("default").with_values(values).to_toml())
    with pytest.raises(api.StallscopeError, match=why):
        api.replay_in_shards(recorded, count, machine=str(file))
