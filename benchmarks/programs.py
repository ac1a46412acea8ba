# SPDX-License-Identifier: Apache-2.0
"""What is run: long enough that start-up does not decide, short enough to repeat."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stallscope import workloads

FOLDER = Path("build/bench")
TEXT_BYTES = 8_000_000


@dataclass(frozen=True)
class Program:
    """A program, and which ways of running it are compared; `native` is always one of them."""

    name: str
    command: Callable[[], list[str]]
    ways: tuple[str, ...] = ("native", "none", "count", "machine", "trace", "cachegrind")


def _text() -> Path:
    """Words drawn from a vocabulary with a long tail, the same every time."""
    path = FOLDER / "text"
    if path.exists() and path.stat().st_size == TEXT_BYTES:
        return path
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlucm", k=draw.randint(2, 9))) for _ in range(8000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    text = " ".join(draw.choices(words, weights, k=TEXT_BYTES // 3))
    path.write_text(text[:TEXT_BYTES])
    return path


def _gzip() -> list[str]:
    return [shutil.which("gzip") or "gzip", "-c", str(_text())]


SQL = """create table t(a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  insert into t select i, hex(i * 7919 % 100003), (i * 48271) % 65537 from n;
create index tc on t(c);
select count(*), sum(a) from t where c between 1000 and 40000;
select c % 100, count(*) from t group by 1 order by 2 desc limit 5;
select count(*) from t x join t y on x.c = y.a where x.b > y.b;
"""


def _sqlite3() -> list[str]:
    path = FOLDER / "queries.sql"
    path.write_text(SQL)
    return [shutil.which("sqlite3") or "sqlite3", ":memory:", f".read {path}"]


def _workload(name: str, *arguments: int | str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        words = arguments or workloads.truth(name).command_arguments("bench")
        return [str(workloads.build(name, FOLDER / "workloads")), *map(str, words)]

    return command


PROGRAMS = (
    Program("matmul", _workload("matmul", 700)),
    Program("gzip", _gzip),
    # A partition that fits the second-level cache, as joins are run; then one that does not, where
    # every tool waits for the same memory as the program itself.
    Program("hashjoin", _workload("hashjoin", 16_000, 24_000_000, 4_000)),
    Program("hashjoin-large", _workload("hashjoin", 400_000, 6_000_000, 100_000)),
    Program("sqlite3", _sqlite3, ("native", "count", "machine", "cachegrind")),
    Program("list", _workload("list"), ("native", "trace")),
    Program(
        "churn",
        _workload("churn", 1_000_000, 4096),
        ("native", "count", "machine", "no heap", "trace"),
    ),
)
