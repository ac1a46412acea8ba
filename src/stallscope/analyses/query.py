# SPDX-License-Identifier: Apache-2.0
"""SQL over the tables of a recording, with DuckDB. A query sees these tables and nothing else: no
files, no network, no Python variables, and it cannot change that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    import pyarrow as pa


def query(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    import duckdb

    connection = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    try:
        for name, table in tables.items():
            connection.register(name, table)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        found = connection.sql(sql)
        if found is None:
            raise StallscopeError("the query gives no rows", now="a SELECT statement")
        return found.to_arrow_table()
    except duckdb.Error as error:
        first, _, rest = str(error).partition("\n")
        raise StallscopeError(
            "the query cannot be answered", f"{first} {rest.strip()}".strip()[:500]
        ) from error
    finally:
        connection.close()
