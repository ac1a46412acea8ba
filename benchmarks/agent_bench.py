# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.agent_bench [--rounds N] [--seconds S]

What the agent costs redis under load: requests a second with the agent running and with it stopped,
in turns, and the ratio with its 95% interval (bootstrap over the turns)."""

from __future__ import annotations

import argparse
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stallscope.analyses.significance import mean_interval

STALLSCOPE = str(Path(sys.executable).with_name("stallscope"))
PORT = 17379


def requests(seconds: float) -> float:
    """Requests a second, over a while."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        command = ["redis-benchmark", "-p", str(PORT), "-t", "set,get", "-n", "20000", "-q"]
        ran = subprocess.run([*command, "-r", "100000"], check=True, capture_output=True, text=True)
        assert re.search(r"requests per second", ran.stdout), ran.stdout
        count += 40_000
    return count / (time.perf_counter() - start)


def measure(agent: subprocess.Popen[bytes], rounds: int, seconds: float) -> list[float]:
    draw, ratios = random.Random(1), []
    for number in range(rounds):
        rates = {}
        for running in draw.sample([True, False], 2):
            agent.send_signal(signal.SIGCONT if running else signal.SIGSTOP)
            rates[running] = requests(seconds)
        ratios.append(rates[True] / rates[False])
        print(f"{number + 1}: {ratios[-1]:.4f}", file=sys.stderr, flush=True)
    agent.send_signal(signal.SIGCONT)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    if shutil.which("redis-server") is None:
        print("skipped: there is no redis-server here")
        return
    with tempfile.TemporaryDirectory(prefix="stallscope-agent-") as name:
        folder = Path(name)
        words = ["--port", str(PORT), "--save", "", "--dir", name, "--bind", "127.0.0.1"]
        redis = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
        command = [STALLSCOPE, "agent", "--folder", str(folder / "agent")]
        agent = subprocess.Popen([*command, "--program", "redis-server"])
        try:
            time.sleep(3)
            requests(2)
            start, before = time.monotonic(), used(agent.pid)
            ratios = measure(agent, options.rounds, options.seconds)
            took, cpu = time.monotonic() - start, used(agent.pid) - before
            low, high = mean_interval(ratios, rounds=10_000)
            mean = sum(ratios) / len(ratios)
            looks = len(list((folder / "agent").glob("*.stallscope")))
            print(f"throughput with the agent over without: {mean:.4f} ({low:.4f} to {high:.4f})")
            print(f"{looks} looks, {cpu:.2f} s of processor time in {took:.0f} s")
        finally:
            agent.send_signal(signal.SIGCONT)
            for process in (agent, redis):
                process.terminate()
                process.wait()


def used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main()
