# SPDX-License-Identifier: Apache-2.0
"""The engine's own benchmarks: how fast its codec is alone, without a target."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator

from benchmarks.measure import BenchmarkError
from benchmarks.programs import FOLDER
from benchmarks.report import Row

BUILD = FOLDER / "engine"
LINE = re.compile(
    r"^(.*?)\s+[\d.]+ M words\s+([\d.]+) bytes/access\s+encode\s+(\d+)\s+decode\s+(\d+)"
)


def _run(*words: object) -> str:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if ran.returncode != 0:
        raise BenchmarkError(f"{words[0]} failed: {(ran.stderr or ran.stdout).strip()[-400:]}")
    return ran.stdout


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    say("engine: building and running stream_bench")
    options = ("-DSTALLSCOPE_BENCH=ON", "-DSTALLSCOPE_CAPTURE=OFF", "-DCMAKE_BUILD_TYPE=Release")
    _run("cmake", "-S", ".", "-B", BUILD, "-G", "Ninja", *options)
    _run("cmake", "--build", BUILD, "--target", "stream_bench")
    for line in _run(BUILD / "benchmarks/engine/stream_bench").splitlines():
        if found := LINE.match(line):
            name = f"codec, {found[1]}"
            yield Row(name, "size", float(found[2]), "bytes/access")
            yield Row(name, "encode", float(found[3]), "million words/s")
            yield Row(name, "decode", float(found[4]), "million words/s")
