# SPDX-License-Identifier: Apache-2.0
"""meta.json: whole or not at all, and readable when an earlier version wrote less of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stallscope import meta
from stallscope.errors import StallscopeError
from stallscope.meta import Meta
from stallscope.tables import schemas


def facts() -> Meta:
    return Meta(
        format_version=schemas().format_version,
        stallscope="0",
        state="done",
        name="1.0",
        parent=None,
        command=["./prog"],
        folder="/",
        created="2026-01-01T00:00:00",
        source="valgrind",
        machine="none",
        options={"turn": 2000},
        host={},
        seconds=1.25,
    )


def write(folder: Path, document: dict[str, Any]) -> None:
    bare = msgspec.json.encode(document | {"checksum": ""}, order="sorted")
    signed = document | {"checksum": hashlib.sha256(bare).hexdigest()}
    (folder / meta.NAME).write_bytes(msgspec.json.encode(signed))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    meta.write(facts(), tmp_path)
    found = meta.read(tmp_path)
    assert msgspec.structs.replace(found, checksum="") == facts()


def test_an_earlier_version_wrote_less(tmp_path: Path) -> None:
    document = msgspec.to_builtins(facts())
    for later in ("samples", "lost_samples", "sample_period", "cpu_seconds"):
        del document[later]
    write(tmp_path, document)
    assert meta.read(tmp_path).samples == 0


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    meta.write(facts(), tmp_path)
    path = tmp_path / meta.NAME
    path.write_text(path.read_text().replace("1.25", "1.5"))
    with pytest.raises(StallscopeError, match="damaged"):
        meta.read(tmp_path)
