# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.sweep_bench [workers] [pass] [cluster] [--designs N]

workers: designs over three recordings by one worker and by two, in turns. pass: 64 sizes at once
and one by one, by instructions (callgrind). cluster: four dask workers, each in a network namespace
of its own (root; skipped where there are none); one is killed in the middle and the scheduler is
killed and started again; all tables are compared byte for byte."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stallscope import machines, results, workloads

STALLSCOPE = str(Path(sys.executable).with_name("stallscope"))
PROGRAMS = (("list", "1500"), ("array", "3000"), ("bst", "1500"))
PORT = 18786
NAMESPACES = tuple(f"stallscope{number}" for number in range(4))
BRIDGE = "stallscopebr"


def record(folder: Path) -> list[Path]:
    made = []
    for name, *arguments in PROGRAMS:
        program, place = workloads.build(name, folder), folder / f"{name}.stallscope"
        words = ["record", "-q", "--trace", "--machine", "none", "-o", str(place), "--"]
        command = [STALLSCOPE, *words, str(program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        made.append(place)
    return made


def forget(recordings: list[Path]) -> None:
    for path in recordings:
        shutil.rmtree(path / results.FOLDER, ignore_errors=True)


def words(recordings: list[Path], designs: int, *more: str) -> list[str]:
    """A replay of its own for each design, in steps of ten: nothing is saved by one pass."""
    largest = 64 * max(1, designs // 10)
    grid = ["--set", f"l2.size=64K..{largest}K+64K", "--set", "l2.ways=1,2,4,8,16"]
    grid += ["--set", "l2.policy=fifo,srrip"]
    return [STALLSCOPE, "sweep", *map(str, recordings), *grid, "--json", *more]


def swept(recordings: list[Path], designs: int, *more: str) -> bytes:
    command = words(recordings, designs, *more)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def workers(recordings: list[Path], designs: int, rounds: int) -> None:
    times: dict[int, list[float]] = {1: [], 2: []}
    tables = set()
    for _ in range(rounds):
        for jobs in (1, 2):
            forget(recordings)
            start = time.perf_counter()
            tables.add(swept(recordings, designs, "--jobs", str(jobs)))
            times[jobs].append(time.perf_counter() - start)
    one, two = (statistics.median(times[jobs]) for jobs in (1, 2))
    print(
        f"{designs} designs, {len(recordings)} recordings: one worker {one:.1f} s, two {two:.1f} s"
    )
    print(f"ratio {two / one:.2f}; {'the same table' if len(tables) == 1 else 'OTHER TABLES'}")


def instructions(command: list[str]) -> int:
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ran = subprocess.run([*tool, *command], check=True, capture_output=True, text=True)
    match = re.search(r"Collected : (\d+)", ran.stderr)
    assert match is not None
    return int(match[1])


_ONE = """
import sys
from stallscope import _engine, machines, results
way, stream = sys.argv[1:]
base = machines.load("default")
size = {"ways": lambda n: {"l2.ways": n, "l2.size": 65536 * n},
        "sets": lambda n: {"l2.ways": 16, "l2.size": 16384 * n}}
made = {by: [base.with_values(of(n)).to_engine() for n in range(1, 65)] for by, of in size.items()}
options = {**results.engine_options(base, results.Probe()), "alone": True}
if way == "one": _engine.replay(stream, made["ways"][15], options, [])
if way in made: _engine.replay_designs(stream, made[way])
"""


def one_pass(recording: Path) -> None:
    stream = str(recording / "stream.ss")
    counts = {
        way: instructions([sys.executable, "-c", _ONE, way, stream])
        for way in ("", "one", "ways", "sets")
    }
    one = counts["one"] - counts[""]
    print(f"{recording.stem}: one replay {one:,} instructions")
    for way in ("ways", "sets"):
        every = counts[way] - counts[""]
        print(
            f"64 sizes by {way} in one pass {every:,}: 64 replays take {64 * one / every:.1f} times"
        )


def ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True)


@contextlib.contextmanager
def network() -> Iterator[None]:
    """A bridge, and four namespaces that see nothing but it."""
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", "10.213.0.1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for number, name in enumerate(NAMESPACES):
            ip("netns", "add", name)
            ip("link", "add", f"ssv{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"ssv{number}", "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"10.213.0.{10 + number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in NAMESPACES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)


class Dask:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def _start(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def scheduler(self) -> None:
        command = [sys.executable, "-m", "dask", "scheduler", "--host", "10.213.0.1"]
        self._start("scheduler", [*command, "--port", str(PORT), "--no-dashboard"])

    def worker(self, number: int) -> None:
        name = NAMESPACES[number]
        command = ["ip", "netns", "exec", name, sys.executable, "-m", "dask", "worker"]
        command += [f"tcp://10.213.0.1:{PORT}", "--host", f"10.213.0.{10 + number}"]
        command += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "300"]
        self._start(name, command)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for name in list(self.running):
            self.kill(name)


def cells(recordings: list[Path]) -> int:
    return sum(len(list((path / results.FOLDER / "cells").glob("*.json"))) for path in recordings)


def cluster(folder: Path, recordings: list[Path], designs: int) -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("skipped: network namespaces need root and ip")
        return
    forget(recordings)
    local = swept(recordings, designs, "--jobs", "2")
    at = ("--cluster", f"tcp://10.213.0.1:{PORT}")
    dask = Dask(folder)
    try:
        with network():
            dask.scheduler()
            for number in range(len(NAMESPACES)):
                dask.worker(number)
            time.sleep(5)
            forget(recordings)
            far = swept(recordings, designs, *at)
            print(f"four workers in namespaces of their own: {_same(local, far)}")
            forget(recordings)
            running = subprocess.Popen(words(recordings, designs, *at), stdout=subprocess.PIPE)
            whole = designs // 10 * 10 * len(recordings)
            _wait(recordings, whole // 4)
            dask.kill(NAMESPACES[0])
            print(f"a worker killed at {cells(recordings)} cells")
            _wait(recordings, whole // 2)
            dask.kill("scheduler")
            print(f"the scheduler killed at {cells(recordings)} cells, and started again")
            dask.scheduler()
            for number in range(1, len(NAMESPACES)):
                with contextlib.suppress(KeyError):
                    dask.kill(NAMESPACES[number])
                dask.worker(number)
            out, _ = running.communicate(timeout=600)
            print(f"status {running.returncode}, {cells(recordings)} cells: {_same(local, out)}")
    finally:
        dask.stop()


def _wait(recordings: list[Path], count: int) -> None:
    until = time.monotonic() + 600
    while cells(recordings) < count and time.monotonic() < until:
        time.sleep(0.02)


def _same(a: bytes, b: bytes) -> str:
    return "the same table, byte for byte" if a == b else "ANOTHER TABLE"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["workers", "pass", "cluster"])
    parser.add_argument("--designs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    machines.load("default")
    with tempfile.TemporaryDirectory(prefix="stallscope-sweep-") as name:
        folder = Path(name)
        recordings = record(folder)
        if "workers" in options.parts:
            workers(recordings, options.designs, options.rounds)
        if "pass" in options.parts:
            one_pass(recordings[0])
        if "cluster" in options.parts:
            cluster(folder, recordings, options.designs)


if __name__ == "__main__":
    main()
