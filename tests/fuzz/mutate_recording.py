# SPDX-License-Identifier: Apache-2.0
"""Damages a recording in every way and demands: an error, or exactly the same numbers.

Run as `python tests/fuzz/mutate_recording.py [--mutations N] [--seed S] [--jobs J]`. Every
mutation changes one file of a recording of /bin/true and reads it as the verbs do. Exit status 1
when a changed file is read without an error and gives other numbers, or when anything but a
StallscopeError comes out.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import stallscope
import stallscope._engine
from stallscope.errors import StallscopeError
from stallscope.recording import STREAM, VALUES, Recording

HANG_SECONDS = 20


def mutate(data: bytes, dice: random.Random) -> bytes:
    """One to four edits: flips, sets, cuts, doublings, swaps, insertions, zeroed stretches."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if not changed:
            break
        at = dice.randrange(len(changed))
        length = min(dice.choice((1, 2, 4, 8, 64, 512)), len(changed) - at)
        kind = dice.randrange(7)
        if kind == 0:
            changed[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            changed[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            changed[at:at] = changed[at : at + length]
        elif kind == 4:
            other = dice.randrange(len(changed))
            changed[at], changed[other] = changed[other], changed[at]
        elif kind == 5:
            changed[at:at] = dice.randbytes(length)
        else:
            changed[at : at + length] = bytes(length)
    return bytes(changed)


def read(folder: Path, name: str) -> Any:
    """What the verbs would read of this file, as plain numbers."""
    recording = Recording(folder)
    if name == STREAM:
        checked = stallscope._engine.check_stream(str(folder / name), recording.meta.counted)
        if checked["errors"]:
            raise StallscopeError(str(checked["violations"]))
        return checked
    if name == VALUES:
        return stallscope._engine.check_values(str(folder / STREAM), str(folder / VALUES))
    if name.endswith(".parquet"):
        return recording.table(name.removesuffix(".parquet"))
    return recording.meta


def outcome(folder: Path, name: str, truth: Any) -> str:
    try:
        found = read(folder, name)
    except (StallscopeError, stallscope._engine.EngineError):
        return "error"
    if found == truth:
        return "same"
    truncated = found < truth if name == VALUES else name == STREAM and found["truncated"]
    return "truncated" if truncated else "different"


def attack(mutations: int, seed: int) -> collections.Counter[str]:
    dice = random.Random(seed)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="stallscope-mutate-", dir="/dev/shm") as scratch:
        folder = Path(scratch) / "r.stallscope"
        stallscope.record(["/bin/true"], output=folder, trace=True, values=["all"])
        shutil.rmtree(folder / "children", ignore_errors=True)
        originals = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        truths = {name: read(folder, name) for name in originals}
        names = sorted(originals)
        for _ in range(mutations):
            name = dice.choice(names)
            (folder / name).write_bytes(mutate(originals[name], dice))
            signal.alarm(HANG_SECONDS)
            result = outcome(folder, name, truths[name])
            signal.alarm(0)
            counts[result] += 1
            if result == "different":
                print(f"silently different: {name}, seed {seed}", file=sys.stderr)
            (folder / name).write_bytes(originals[name])
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    total: collections.Counter[str] = collections.Counter()
    share = given.mutations // given.jobs
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        seeds = range(given.seed, given.seed + given.jobs)
        for counts in pool.map(attack, [share] * given.jobs, seeds):
            total += counts
    print(", ".join(f"{count:,} {name}" for name, count in sorted(total.items())))
    return 1 if total["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
