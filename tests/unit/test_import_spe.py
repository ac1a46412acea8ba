# SPDX-License-Identifier: Apache-2.0
"""perf.data files of Arm's SPE as recordings. No machine here has it: the files are built."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests import perf_files, spe_files
from tests.perf_files import Source
from tests.spe_files import DRAM, L1D, L2, NEOVERSE_N1, TICK_NS, access, piece

import stallscope
from conftest import verify
from stallscope import _engine

HEAP = 0xFFFF70000000


def imported(file: perf_files.PerfFile | bytes, folder: Path) -> stallscope.Recording:
    path = folder / "x.data"
    path.write_bytes(file if isinstance(file, bytes) else file.bytes())
    made = stallscope.import_trace(path, output=folder / "x.stallscope", force=True)
    verify(made.recording.path)
    return made.recording


def samples(recording: stallscope.Recording) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = recording.table("live_sample").to_pylist()
    return rows


def quality(recording: stallscope.Recording) -> dict[str, int]:
    return {row["kind"]: row["count"] for row in recording.table("quality").to_pylist()}


def read(file: perf_files.PerfFile, folder: Path) -> dict[str, Any]:
    path = folder / "x.data"
    path.write_bytes(file.bytes())
    found: dict[str, Any] = _engine.read_perf_data(str(path))
    return found


@pytest.mark.parametrize("form", ["file", "pipe"])
def test_loads_and_stores_have_address_latency_and_source(form: str, tmp_path: Path) -> None:
    made = spe_files.small()
    recording = imported(made.bytes() if form == "file" else made.piped(), tmp_path)
    rows = samples(recording)
    assert [row["ip"] for row in rows] == [0x401010, 0x401030, 0x401040]
    assert [row["address"] for row in rows] == [HEAP + 0x40, HEAP + 0x80, HEAP + 0xC0]
    assert [row["latency"] for row in rows] == [4, 660, 160]  # without 40 until they were issued
    assert [row["served"] for row in rows] == ["L1 hit", "RAM", "L1 hit"]
    assert [row["state"] for row in rows] == ["compute", "memory", "memory"]
    assert {row["how"] for row in rows} == {"given"}
    assert {row["weight"] for row in rows} == {1024}
    assert rows[1]["time"] - rows[0]["time"] == 20 * TICK_NS
    assert quality(recording)["spe_without_data"] == 1  # the branch


def test_objects_and_functions_speak_of_them(tmp_path: Path) -> None:
    recording = imported(spe_files.small(), tmp_path)
    view = stallscope.view(recording)
    (row,) = stallscope.objects(view).rows
    assert row.object == "<anonymous memory>"
    assert {row.function for row in stallscope.functions(view).rows} == {
        "app+0x1030", "app+0x1040", "app+0x1010",
    }  # fmt: skip
    assert recording.meta.options["events"] == ["arm_spe_0/load_filter=1,ts_enable=1/"]
    # Whoever reads it learns that instructions of that processor are not looked at.
    assert quality(recording)["other_processor"] == 1


def test_samples_take_their_place_among_other_records(tmp_path: Path) -> None:
    """Packets may be older than the round that brings them: a mapping of a later round than theirs
    must still come first when it is older."""
    packets = access(0x500010, HEAP, 1000) + access(0x500020, HEAP, 3000)
    records = [
        spe_files.info({0: NEOVERSE_N1}),
        spe_files.timer(),
        perf_files.round_end(),
        perf_files.comm("renamed", Source(time=2000 * TICK_NS)),
        perf_files.round_end(),
        spe_files.taken(Source(time=4000 * TICK_NS)),
        piece(packets),
        perf_files.round_end(),
    ]
    found = read(spe_files.spe_file(records), tmp_path)["samples"]
    assert found["time"] == [1000 * TICK_NS, 3000 * TICK_NS]
    assert found["command"] == ["app", "renamed"]


def test_the_thread_is_told_by_the_context_packet(tmp_path: Path) -> None:
    packets = access(0x401010, HEAP, 100, thread=101) + access(0x401010, HEAP, 110, thread=100)
    records = [
        spe_files.info({0: NEOVERSE_N1}),
        spe_files.timer(),
        perf_files.fork(101, 100, Source(time=1001)),
        spe_files.taken(Source(tid=555, time=9000)),
        piece(packets),
    ]
    found = read(spe_files.spe_file(records), tmp_path)["samples"]
    assert list(zip(found["pid"], found["tid"], strict=True)) == [(100, 101), (100, 100)]


def test_else_by_who_ran_there_or_let_the_packets_be_taken(tmp_path: Path) -> None:
    one, other = Source(tid=101, time=5000), Source(tid=102, time=9000)
    packets = access(0x401010, HEAP, 100) + access(0x401010, HEAP, 200)
    begin = [
        spe_files.info({0: NEOVERSE_N1}),
        spe_files.timer(),
        perf_files.fork(101, 100, Source(time=1001)),
        perf_files.fork(102, 100, Source(time=1002)),
    ]
    by_taking = [*begin, spe_files.taken(one), spe_files.taken(other), piece(packets)]
    assert read(spe_files.spe_file(by_taking), tmp_path)["samples"]["tid"] == [101, 102]
    # A thread that comes is known better than one that was there when the buffer was emptied.
    late = spe_files.taken(Source(tid=999, time=20000))
    came = [Source(tid=102, time=3000), Source(tid=101, time=6000)]
    by_coming = [*begin, *map(spe_files.switched, came), late, piece(packets)]
    assert read(spe_files.spe_file(by_coming), tmp_path)["samples"]["tid"] == [102, 101]
    # perf record --per-thread: each buffer is one thread's.
    alone = [*begin, piece(packets, tid=102)]
    found = read(spe_files.spe_file(alone), tmp_path)
    assert found["samples"]["tid"] == [102, 102]
    assert found["samples"]["pid"] == [100, 100]


def test_nobodys_samples_are_left_out_and_told(tmp_path: Path) -> None:
    records = [spe_files.info(), spe_files.timer(), piece(access(0x401010, HEAP, 100))]
    found = read(spe_files.spe_file(records), tmp_path)
    assert found["samples"]["ip"] == []
    assert ("spe_without_thread", "warning", 1) in [note[:3] for note in found["notes"]]


def test_the_processor_is_known_from_the_header_in_older_files(tmp_path: Path) -> None:
    packets = access(0x401010, HEAP, 100, source=L2)
    records = [spe_files.info(), spe_files.timer(), piece(packets, tid=100)]
    known = spe_files.spe_file(records, cpu_id="0x00000000410fd0c0")
    assert read(known, tmp_path)["samples"]["served"] == ["L2 hit"]
    # What the number of a source means on another maker's processor is not known: its events say
    # that the first level was accessed, and had it.
    other = spe_files.spe_file(records, cpu_id="0x00000000c00fac30")
    assert read(other, tmp_path)["samples"]["served"] == ["L1 hit"]


def test_without_a_timer_samples_follow_what_was_written_before(tmp_path: Path) -> None:
    records = [spe_files.info({0: NEOVERSE_N1}), piece(access(0x401010, HEAP, None), tid=100)]
    found = read(spe_files.spe_file(records), tmp_path)
    assert found["samples"]["time"] == [1000]
    assert "spe_without_time" in {note[0] for note in found["notes"]}


def test_the_kernel_is_told_from_the_program(tmp_path: Path) -> None:
    high = 0xFFFF800008001000 & (1 << 56) - 1
    packets = access(high, 0xFFFF000012345678 & (1 << 56) - 1, 100, level=1, source=L1D)
    records = [spe_files.info({0: NEOVERSE_N1}), spe_files.timer(), piece(packets, tid=100)]
    (row,) = samples(imported(spe_files.spe_file(records), tmp_path))
    assert (row["state"], row["ip"], row["address"]) == (
        "kernel", 0xFFFF800008001000, 0xFFFF000012345678,
    )  # fmt: skip


def test_garbage_costs_its_record_and_the_next(tmp_path: Path) -> None:
    good = [access(0x401000 + i, HEAP, 100 + i) for i in range(6)]
    packets = good[0] + good[1][:12] + b"\xff\xfe\xfd" + good[1][12:] + b"".join(good[2:])
    records = [spe_files.info({0: NEOVERSE_N1}), spe_files.timer(), piece(packets, tid=100)]
    recording = imported(spe_files.spe_file(records), tmp_path)
    assert [row["ip"] - 0x401000 for row in samples(recording)] == [0, 3, 4, 5]
    assert quality(recording)["spe_damaged"] == 2


def test_a_full_buffer_is_told(tmp_path: Path) -> None:
    records = [
        spe_files.info({0: NEOVERSE_N1}),
        spe_files.timer(),
        spe_files.taken(Source(time=9000), flags=spe_files.TRUNCATED),
        piece(access(0x401010, HEAP, 100, source=DRAM)),
    ]
    assert quality(imported(spe_files.spe_file(records), tmp_path))["spe_truncated"] == 1


def test_a_cut_or_changed_file_is_read_as_far_as_it_goes_or_refused(tmp_path: Path) -> None:
    whole = spe_files.small().bytes()
    chance = random.Random(5)
    path = tmp_path / "x.data"
    for turn in range(400):
        data = bytearray(whole)
        if turn % 2:
            del data[chance.randrange(len(data)) :]
        for _ in range(chance.randrange(1, 6)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            _engine.read_perf_data(str(path))
        except _engine.EngineError as error:
            assert str(error.args[0]), "a sentence"


def test_another_tracer_is_still_left_out(tmp_path: Path) -> None:
    pt = perf_files.record(70, 0, (1).to_bytes(8, "little") + bytes(64))
    found = read(spe_files.spe_file([pt, piece(b"\x02\x82" * 32)]), tmp_path)
    assert "tracer" in {note[0] for note in found["notes"]}
