# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.pages_bench [--references N] [--pages N] [--runs N]

Page curves and replacement policies beside libcachesim, in turns on one trace. libcachesim reads
the trace from a file that is in memory after the first turn; ours is an array."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import pages_traces
from benchmarks.measure import BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row, table
from stallscope import _engine

REFERENCES, PAGES = 20_000_000, 1_000_000
OF_LIBCACHESIM = 3.0
CURVE_MILLION, SAMPLED_MILLION = 10.0, 37.0
MEAN_ERROR = 0.01
BYTES_A_PAGE = 64.0
PEERS = {
    "lru": "LRU",
    "clock": "Clock",
    "lirs": "LIRS",
    "arc": "ARC",
    "s3-fifo": "S3FIFO",
    "belady": "Belady",
}
TRACES = {"zipf": pages_traces.zipf, "mixed": pages_traces.mixed}
BATCH = 1 << 20
MILLION = "M references/s"


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """In processor time, which others on the machine disturb less; all here have one thread."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def _append(stack: Any, pages: np.ndarray) -> Any:
    for start in range(0, len(pages), BATCH):
        stack.append(pages[start : start + BATCH])
    return stack


class Bench:
    def __init__(self, trace: str, references: int, pages: int) -> None:
        self.name = trace
        self.pages = TRACES[trace](references, pages)
        self.memory = pages // 10
        self.distinct = len(np.unique(self.pages))
        self.file = FOLDER / f"pages-{trace}.oracleGeneral.bin"
        FOLDER.mkdir(parents=True, exist_ok=True)
        pages_traces.write_oracle(self.pages, self.file)

    def ours(self, policy: str) -> dict[str, int]:
        return _append(_engine.replacement(policy, self.memory), self.pages).misses()

    def theirs(self, policy: str) -> int:
        import libcachesim

        reader = libcachesim.TraceReader(
            str(self.file),
            libcachesim.TraceType.ORACLE_GENERAL_TRACE,
            libcachesim.ReaderInitParam(ignore_obj_size=True),
        )
        cache = getattr(libcachesim, PEERS[policy])(self.memory)
        return round(cache.process_trace(reader)[0] * len(self.pages))

    def rate(self, seconds: float) -> float:
        return len(self.pages) / seconds / 1e6

    def policies(self, runs: int, say: Callable[[str], None]) -> Iterator[Row]:
        for policy, _, _ in _engine.replacement_policies():
            quick, slow = [], []
            for turn in range(runs):
                say(f"pages: {self.name}, {policy}, {turn + 1} of {runs}")
                seconds, ours = _timed(lambda p=policy: self.ours(p))  # type: ignore[misc]
                quick.append(seconds)
                if policy in PEERS:
                    seconds, theirs = _timed(lambda p=policy: self.theirs(p))  # type: ignore[misc]
                    slow.append(seconds)
            subject = f"pages, {self.name}, {policy}"
            yield Row(subject, "ours", self.rate(statistics.median(quick)), MILLION)
            if not slow:
                continue
            ratios = [s / q for s, q in zip(slow, quick, strict=True)]
            yield Row(subject, "libcachesim", self.rate(statistics.median(slow)), MILLION)
            yield Row(subject, "ratio", statistics.median(ratios), "", at_least=OF_LIBCACHESIM)
            apart = 100 * (ours["misses"] - theirs) / len(self.pages)
            yield Row(subject, "misses apart", apart, "% of references")
            if policy != "belady":
                size = ours["bytes"] / self.distinct
                yield Row(subject, "memory", size, "bytes/page", at_most=BYTES_A_PAGE)

    def curves(self, runs: int, say: Callable[[str], None]) -> Iterator[Row]:
        makes = {
            "exact": (_engine.LruStack, CURVE_MILLION),
            "mru": (_engine.MruStack, None),
            "four groups": (lambda: _engine.groups_around(self.memory, self.memory // 10), None),
            "1% sample": (lambda: _engine.sampled_stack(0.01), SAMPLED_MILLION),
            "8,192 pages": (lambda: _engine.sampled_stack(0.1, 8192), SAMPLED_MILLION),
        }
        last = {}
        for name, (make, least) in makes.items():
            seconds = []
            for turn in range(runs):
                say(f"pages: {self.name}, curve, {name}, {turn + 1} of {runs}")
                stack = make()  # type: ignore[operator]
                seconds.append(_timed(lambda s=stack: _append(s, self.pages))[0])  # type: ignore[misc]
            last[name] = stack
            rate = self.rate(statistics.median(seconds))
            yield Row(f"pages, {self.name}, curve", name, rate, MILLION, at_least=least)
        exact = last["exact"]
        size = exact.bytes / exact.distinct
        yield Row(
            f"pages, {self.name}, curve", "exact, memory", size, "bytes/page", at_most=BYTES_A_PAGE
        )
        for name in ("1% sample", "8,192 pages"):
            error = mean_error(np.asarray(exact.curve()), last[name], len(self.pages))
            yield Row(
                f"pages, {self.name}, curve", f"{name}, mean error", error, "", at_most=MEAN_ERROR
            )


def mean_error(exact: np.ndarray, sampled: _engine.SampledStack, references: int) -> float:
    """Of the miss ratio, over a thousand sizes."""
    step, misses = sampled.curve()
    sizes = np.linspace(0, len(exact) - 1, 1000).astype(int)
    places = np.minimum(-(-sizes // step), len(misses) - 1)
    return float(np.abs(np.asarray(misses)[places] - exact[sizes]).mean() / references)


def rows(
    runs: int, say: Callable[[str], None], references: int = REFERENCES, pages: int = PAGES
) -> Iterator[Row]:
    try:
        import libcachesim  # noqa: F401
    except ImportError as error:
        raise BenchmarkError("libcachesim is not installed: pip install --group dev") from error
    for trace in TRACES:
        say(f"pages: {trace}, drawing references")
        bench = Bench(trace, references, pages)
        yield from bench.curves(runs, say)
        yield from bench.policies(runs, say)
        bench.file.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages_bench", description=__doc__)
    parser.add_argument("--references", type=int, default=REFERENCES)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--runs", type=int, default=3, help="of each way; medians are reported")
    options = parser.parse_args()
    if min(options.references, options.pages // 100, options.runs) < 1:
        parser.error("there must be references, a hundred pages and a run")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    try:
        found = list(rows(options.runs, say, options.references, options.pages))
    except BenchmarkError as error:
        say(f"error: {error}")
        return 1
    Console(width=100).print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
