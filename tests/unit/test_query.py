# SPDX-License-Identifier: Apache-2.0
"""A query sees the tables that it is given, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from stallscope.analyses.query import query
from stallscope.errors import StallscopeError

TABLES = {"thread": pa.table({"thread": [1, 2], "name": ["main", "worker"]})}


def test_tables_answer_sql() -> None:
    found = query("select name from thread where thread > 1", TABLES)
    assert found.to_pylist() == [{"name": "worker"}]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "copy thread to '{out}'",
        "attach '{out}' as other",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "select * from TABLES",
        "export database '{out}'",
    ],
)
def test_nothing_else_can_be_reached(sql: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(StallscopeError):
        query(sql.format(out=out), TABLES)
    assert not out.exists()


def test_a_wrong_query_gets_a_sentence() -> None:
    with pytest.raises(StallscopeError) as caught:
        query("selec 1", TABLES)
    assert caught.value.what == "the query cannot be answered"
    assert "syntax error" in caught.value.why
