# SPDX-License-Identifier: Apache-2.0
"""The caches that cachegrind simulates here: its own rules, so that its counts can be compared.

Cachegrind asks the processor, not the kernel, and reads old leaves of CPUID; in virtual machines
the answer may be far from the caches that the kernel shows. So cachegrind itself is asked where it
is installed. Elsewhere the bundled capture tool is: it has the same core, whose log tells what was
detected, and `last_level` does what cachegrind does with that. Whoever wants the real caches takes
`host`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from functools import cache as once
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.machines.fault import Fault
from stallscope.machines.geometry import check
from stallscope.machines.model import Cache, Machine

Shape = tuple[int, int, int]  # size, ways, line

# What cachegrind takes on x86-64 when the processor tells nothing.
UNKNOWN: dict[str, Shape] = {
    "I1": (65536, 2, 64),
    "D1": (65536, 2, 64),
    "LL": (262144, 8, 64),
}
_TIMEOUT = 60  # seconds; it takes a fifth of one
_DESC = re.compile(r"^desc: (I1|D1|LL) cache: +(\d+) B, (\d+) B, (direct-mapped|(\d+)-way)", re.M)
_LOGGED = re.compile(
    r"kind = (\w+)\n.*level = (\d+)\n.*size = (\d+) bytes\n.*linesize = (\d+) bytes\n"
    r".*assoc = (\d+)"
)


def cachegrind() -> Machine:
    shapes = _detected()
    machine = Machine(
        name="cachegrind",
        description="the caches that cachegrind simulates on this machine, to compare with it",
        caches=(
            _cache("I1", "instructions", shapes["I1"], 1),
            _cache("D1", "data", shapes["D1"], 1),
            _cache("LL", "both", shapes["LL"], 10),
        ),
        memory_latency=100,
    )
    try:
        check(machine)
    except Fault as fault:
        raise fault.error("the caches that cachegrind finds here cannot be simulated") from None
    return machine


def _cache(name: str, holds: str, shape: Shape, latency: int) -> Cache:
    size, ways, line = shape
    return Cache(name=name, holds=holds, size=size, ways=ways, line=line, latency=latency)


@once
def _detected() -> dict[str, Shape]:
    return ask_cachegrind() or ask_capture_tool() or UNKNOWN


def ask_cachegrind() -> dict[str, Shape] | None:
    """What the installed cachegrind writes at the top of its result."""
    valgrind = shutil.which("valgrind")
    if not valgrind:
        return None
    with tempfile.TemporaryDirectory(prefix="stallscope-") as folder:
        out = Path(folder) / "out"
        command = [valgrind, "--tool=cachegrind", f"--cachegrind-out-file={out}"]
        if _run([*command, shutil.which("true") or "/bin/true"]) is None or not out.exists():
            return None
        return from_result(out.read_text(errors="replace"))


def from_result(text: str) -> dict[str, Shape] | None:
    found = {
        match[1]: (int(match[2]), int(match[5] or 1), int(match[3]))
        for match in _DESC.finditer(text)
    }
    return found if set(found) == set(UNKNOWN) else None


def ask_capture_tool() -> dict[str, Shape] | None:
    """What Valgrind's core detects, as the bundled tool logs it."""
    from stallscope.record.tool import capture_folder

    try:
        launcher = capture_folder() / "launch"
    except StallscopeError:
        return None
    log = _run([str(launcher), "--tool=stallscope", "-d", "--help"])
    return from_log(log) if log else None


def from_log(log: str) -> dict[str, Shape] | None:
    caches = {
        (match[1], int(match[2])): (int(match[3]), int(match[5]), int(match[4]))
        for match in _LOGGED.finditer(log)
    }
    outermost = max((level for _, level in caches), default=0)
    first, data = caches.get(("insn", 1)), caches.get(("data", 1))
    last = caches.get(("unified", outermost))
    if not (first and data and last):
        return None
    return {"I1": first, "D1": data, "LL": last_level(last)}


def last_level(shape: Shape) -> Shape:
    """Fewer sets, down to a power of two, and more ways for it; the size follows from both."""
    size, ways, line = shape
    if not (size and ways and line) or size < ways * line:
        return shape
    sets = size // (ways * line)
    fewer = 1 << sets.bit_length() - 1
    if fewer != sets:
        ways = int(0.5 + sets / fewer * ways)
    return (line * ways * fewer, ways, line)


def _run(command: list[str]) -> str | None:
    """Standard output and error of a command that ended well."""
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.decode(errors="replace") if run.returncode == 0 else None
