# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.agent_bench [--blocks N] [--seconds S]

What the agent costs redis under load. All that the agent does happens in its looks, between which
it sleeps; so what one look costs is measured, as often as can be, and then shared out over the time
from one look to the next that the agent's budget makes. Slices with a look (A) and without (B) take
turns as A B B A, which cancels what drifts; the interval is the bootstrap's over these blocks.

redis has a processor of its own and so has its load, where there are two; the agent has none, as on
any host. Requests are counted by redis, under a load that does not stop between slices."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stallscope.analyses.significance import mean_interval

PORT = 17379
BUDGET = 0.01  # of one processor: the agent's own default
# The agent's own rounds, one for every line; told is what it says of itself.
LOOKS = """
import sys, json, pathlib
from stallscope.scale import agent
one = agent.Agent(agent.Settings(pathlib.Path(sys.argv[1]), programs=("redis-server",)), print)
for line in sys.stdin:
    before = one.numbers.cpu
    one.run(rounds=1)
    print(json.dumps([one.numbers.cpu - before, sum(one.numbers.recordings.values())]), flush=True)
"""


class Redis:
    """A connection that asks how many commands were processed."""

    def __init__(self) -> None:
        self._file = socket.create_connection(("127.0.0.1", PORT)).makefile("rwb")

    def count(self) -> int:
        self._file.write(b"INFO stats\r\n")
        self._file.flush()
        size = int(self._file.readline()[1:])
        found = re.search(rb"total_commands_processed:(\d+)", self._file.read(size + 2))
        assert found is not None
        return int(found[1])


@dataclass(frozen=True)
class Slice:
    rate: float  # requests a second
    seconds: float
    used: float = 0.0  # processor time of the look
    took: float = 0.0  # seconds of the look


class Looks:
    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", LOOKS, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._made = 0

    def look(self) -> float:
        """Its processor time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"look\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        used, made = msgspec.json.decode(line, type=tuple[float, int])
        assert made == self._made + 1, "the agent did not look"
        self._made = made
        return used

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def measured(redis: Redis, seconds: float, looks: Looks | None) -> Slice:
    first, start = redis.count(), time.perf_counter()
    used = looks.look() if looks else 0.0
    took = time.perf_counter() - start
    time.sleep(max(0.0, seconds - took))
    count, whole = redis.count() - first, time.perf_counter() - start
    return Slice(count / whole, whole, used, took)


def block(redis: Redis, seconds: float, looks: Looks) -> tuple[float, list[Slice]]:
    """Seconds of throughput that a look took, and the slices with one. On processors that have no
    time left a look may take long; slices without one last as long."""
    first = measured(redis, seconds, looks)
    rates = [measured(redis, first.seconds, None).rate for _ in range(2)]
    with_look = [first, measured(redis, first.seconds, looks)]
    without = sum(rates) / 2
    return sum(one.seconds * (1 - one.rate / without) for one in with_look) / 2, with_look


@contextlib.contextmanager
def loaded(folder: Path) -> Iterator[None]:
    """redis, and clients that set and get without end."""
    places = sorted(os.sched_getaffinity(0))
    own, others = ([places[0]], [places[-1]]) if len(places) > 1 else (places, places)
    server = ["--port", str(PORT), "--save", "", "--dir", str(folder), "--bind", "127.0.0.1"]
    client = ["redis-benchmark", "-p", str(PORT), "-l", "-q", "-n", "1000000", "-r", "100000"]
    with contextlib.ExitStack() as running:
        _start(running, ["redis-server", *server], own)
        time.sleep(1)
        for what in ("set", "get"):
            _start(running, [*client, "-c", "25", "-t", what], others)
        time.sleep(3)
        yield


def _start(running: contextlib.ExitStack, command: list[str], places: list[int]) -> None:
    pinned = ["taskset", "-c", ",".join(map(str, places)), *command]
    process = subprocess.Popen(pinned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end() -> None:
        process.terminate()
        process.wait()

    running.callback(end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=3.5)
    options = parser.parse_args()
    if shutil.which("redis-server") is None:
        print("skipped: there is no redis-server here")
        return
    lost, slices = [], []
    with tempfile.TemporaryDirectory(prefix="stallscope-agent-") as name:
        looks = Looks(Path(name) / "agent")
        try:
            with loaded(Path(name)):
                redis = Redis()
                measured(redis, options.seconds, looks)
                for number in range(options.blocks):
                    one, with_look = block(redis, options.seconds, looks)
                    lost.append(one)
                    slices += with_look
                    print(f"{number + 1}: {one:+.4f} s a look", file=sys.stderr, flush=True)
        finally:
            looks.end()
    told(lost, slices)


def told(lost: list[float], slices: list[Slice]) -> None:
    mean = sum(lost) / len(lost)
    used = sum(one.used for one in slices) / len(slices)
    took = sum(one.took for one in slices) / len(slices)
    cycle = max(took, used / BUDGET)
    low, high = mean_interval(lost, rounds=10_000)
    print(f"{len(slices)} looks of {took:.2f} s and {used:.3f} s of processor time")
    print(f"a look costs {mean:.4f} s of throughput ({low:.4f} to {high:.4f})")
    print(f"at a budget of {BUDGET:.0%} there is one every {cycle:.1f} s")
    print(
        f"throughput with the agent over without: {1 - mean / cycle:.4f} "
        f"({1 - high / cycle:.4f} to {1 - low / cycle:.4f}), 95%, {len(lost)} blocks of "
        "4 slices"
    )


if __name__ == "__main__":
    main()
