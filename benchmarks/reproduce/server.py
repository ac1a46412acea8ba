# SPDX-License-Identifier: Apache-2.0
"""A database server of its own: in a folder that is thrown away, without network, and small enough
to be recorded."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from stallscope.errors import StallscopeError

NEEDED = ("mariadbd", "mariadb", "mariadb-install-db", "sysbench")
PACKAGES = "mariadb-server-core mariadb-client-core sysbench"
ROWS = 500
# One pool of 8 MiB at one place, whose address space would else be terabytes, more than Valgrind
# gives; no threads beyond what the server needs; nothing that waits for the disk.
OPTIONS = (
    "--skip-networking",
    "--performance-schema=0",
    "--thread-cache-size=0",
    "--innodb-buffer-pool-size=8M",
    "--innodb-buffer-pool-size-max=8M",
    "--innodb-log-file-size=4M",
    "--innodb-use-native-aio=0",
    "--innodb-read-io-threads=1",
    "--innodb-write-io-threads=2",
    "--innodb-purge-threads=1",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
)
PATIENCE = 120  # seconds until it answers


class Server:
    """`folder` is short: a socket's path may have a hundred bytes or so."""

    def __init__(self, folder: Path) -> None:
        missing = [name for name in NEEDED if self.program(name) is None]
        if missing:
            raise StallscopeError(
                f"there is no {missing[0]} here", now=f"bash cmake/setup.sh {PACKAGES}"
            )
        self.folder = folder
        self.socket = folder / "socket"

    @staticmethod
    def program(name: str) -> str | None:
        return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")

    @property
    def command(self) -> list[str]:
        places = [f"--datadir={self.folder}/data", f"--socket={self.socket}"]
        # As root it asks whom to be.
        user = ["--user=root"] if os.geteuid() == 0 else []
        return [str(self.program("mariadbd")), "--no-defaults", *user, *places, *OPTIONS]

    def install(self) -> None:
        data = [f"--datadir={self.folder}/data", "--auth-root-authentication-method=normal"]
        user = ["--user=root"] if os.geteuid() == 0 else []
        words = ["mariadb-install-db", "--no-defaults", *user, *data, "--skip-test-db"]
        subprocess.run(words, check=True, capture_output=True)

    @contextlib.contextmanager
    def running(self, *before: str) -> Iterator[None]:
        """Behind a command that runs it, if one is given; shut down in the end."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen([*before, *self.command], stdout=log, stderr=log)
            try:
                self._wait(process)
                yield
                self.ask("shutdown")
                process.wait(600)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + PATIENCE
        while not self.socket.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise StallscopeError(
                    "the database server did not start", (self.folder / "log").read_text()[-500:]
                )
            time.sleep(0.1)

    def ask(self, query: str) -> list[list[str]]:
        words = ["mariadb", "--no-defaults", "-uroot", f"--socket={self.socket}", "-N", "-e", query]
        made = subprocess.run(words, check=True, capture_output=True, text=True)
        return [line.split("\t") for line in made.stdout.splitlines()]

    def bench(self, schema: str, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                "sysbench",
                "oltp_read_write",
                f"--mysql-socket={self.socket}",
                "--mysql-user=root",
                f"--mysql-db={schema}",
                f"--table-size={ROWS}",
                *words,
            ],
            stdout=subprocess.DEVNULL,
        )
