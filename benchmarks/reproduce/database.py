# SPDX-License-Identifier: Apache-2.0
"""Two databases in one server, a thread a connection: recorded and clustered."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import stallscope
from benchmarks.reproduce.lab import STALLSCOPE, Lab, timed
from benchmarks.reproduce.page import Page, code, count, percent
from benchmarks.reproduce.server import OPTIONS, PACKAGES, ROWS, Server
from stallscope.analyses.sharing import Sharing
from stallscope.recording import open_recording
from stallscope.views import plots

NAME, TITLE = "database", "Which connections of a database server share data"
SCHEMAS = ("north", "south")
CONNECTIONS = 4  # of each
EVENTS = 40  # transactions of each schema
RECORD = ("--trace", "--turn", "200", "--machine", "none", "--from", "handle_one_connection")
SHOWN = 8  # lines and locks


def make(lab: Lab, page: Page) -> None:
    path = lab.folder / "database.stallscope"
    lab.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="db-") as folder:
        server = Server(Path(folder))
        with timed("prepares two schemas"):
            _prepare(server)
        with timed("records the server"):
            schema_of = _record(server, path)
        version = _version(server)
    with timed("clusters its threads"):
        found = stallscope.sharing(path, gains=0)
    numbers = {
        row["lwp"]: row["thread"] for row in open_recording(path).table("thread").to_pylist()
    }
    _said(page, version)
    _clusters(page, found, {numbers[lwp]: name for lwp, name in schema_of.items()})
    _lines(page, found)


def _version(server: Server) -> str:
    made = subprocess.run([server.command[0], "--version"], capture_output=True, text=True)
    return made.stdout.split("Ver", 1)[-1].split()[0]


def _prepare(server: Server) -> None:
    server.install()
    with server.running():
        for schema in SCHEMAS:
            server.ask(f"create database {schema}")
            server.bench(schema, "prepare").wait()


def _record(server: Server, path: Path) -> dict[int, str]:
    """The schema of each connection's thread, as the server says itself."""
    work = [f"--threads={CONNECTIONS}", f"--events={EVENTS}", "--time=0", "--db-ps-mode=disable"]
    with server.running(STALLSCOPE, "record", "-q", "-f", *RECORD, "-o", str(path), "--"):
        drivers = [server.bench(schema, *work, "run") for schema in SCHEMAS]
        found: dict[int, str] = {}
        while len(found) < CONNECTIONS * len(SCHEMAS):
            time.sleep(1)
            rows = server.ask("select tid, db from information_schema.processlist")
            found |= {int(tid): name for tid, name in rows if name in SCHEMAS}
            if all(driver.poll() is not None for driver in drivers):
                break
        for driver in drivers:
            driver.wait()
    return found


def _said(page: Page, version: str) -> None:
    page.text(
        f"""Section 3.4 of R. Azimi, *System Software Utilization of Hardware Performance Monitoring
        Information*, University of Toronto, 2007, found which connections of a MySQL server use the
        same one of two databases. Here it is MariaDB {version} as Debian has it
        ({code(PACKAGES)}), and {code("sysbench oltp_read_write")} with {CONNECTIONS} connections to
        each of two schemas, {EVENTS} transactions each, a table of {ROWS} rows in each. The server
        is recorded from its first connection on:""",
        code(f"stallscope record {' '.join(RECORD)} -- mariadbd {' '.join(OPTIONS)}"),
        """One option is needed: without `--innodb-buffer-pool-size-max` the server reserves eight
        terabytes of addresses, and Valgrind has less. The others keep the server small. It has no
        debug information, so that lines of code are functions or offsets.""",
    )


def _clusters(page: Page, found: Sharing, schema_of: dict[int, str]) -> None:
    page.heading("Clusters (Figure 3.5 c)")
    rows = [row for row in found.thread_rows if row.cluster is not None or row.thread in schema_of]
    groups = {
        frozenset(row.name for row in rows if schema_of.get(row.thread) == one) for one in SCHEMAS
    }
    right = groups == {frozenset(group) for group in found.clusters}
    page.text(
        f"""Of {len(found.threads)} threads, those of the connections are the ones that work. Which
        connection uses which schema is not known to the detection; the server's list of processes
        says it. The clusters are {"exactly the schemas" if right else "not the schemas"}, from
        {found.samples:,} samples, one in {found.period} remote misses."""
    )
    page.number("right", right)
    page.number("stable", found.stable)
    page.table(
        "threads",
        ["thread", "schema", "cluster", "remote misses"],
        [
            [row.name, schema_of.get(row.thread, ""), row.cluster, count(row.remote_misses)]
            for row in rows
        ],
    )
    plots.plot(found, page.picture_file("maps"), None)
    page.heading("Placed by clusters")
    page.table(
        "placed",
        ["", "by default", "placed", "removed"],
        [
            ["remote misses", *_pair(found.remote_misses, found.remote_misses_placed)],
            ["cycles", *_pair(found.cycles, found.cycles_placed)],
        ],
    )


def _pair(before: int, after: int) -> list[object]:
    return [count(before), count(after), percent(1 - after / before)]


def _lines(page: Page, found: Sharing) -> None:
    page.heading("Lines that threads pass around, and what they sleep for")
    page.table(
        "lines",
        ["object", "threads", "sharing", "misses", "code"],
        [
            [code(one.object), len(one.threads), one.kind, count(one.misses), code(one.code[0])]
            for one in found.lines[:SHOWN]
        ],
    )
    page.table(
        "locks",
        ["word in", "waits", "threads", "misses"],
        [
            [code(one.object), count(one.waits), len(one.threads), count(one.misses)]
            for one in found.locks[:SHOWN]
        ],
    )
