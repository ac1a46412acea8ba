# SPDX-License-Identifier: Apache-2.0
"""Monitors: programs for the small cores that watch a machine and act on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.machines.fault import nearest
from stallscope.monitors.assembler import Image, assemble
from stallscope.monitors.compiler import (
    ACCESSES,
    compile_monitor,
    looks_at_data,
    parse,
)

BUNDLED = Path(__file__).with_name("bundled")
LONGEST = 1 << 20  # bytes of a file


@dataclass(frozen=True)
class Monitor:
    name: str
    about: str
    assembly: str
    image: Image
    config: dict[str, int]
    watch: tuple[str, ...] = ()  # memory whose accesses are the event `watched`
    access: int = ACCESSES["writes"]
    looks_at_data: bool = False  # that was read or written


def bundled() -> list[str]:
    return sorted(path.stem for path in BUNDLED.iterdir() if path.suffix in (".toml", ".asm"))


def load(name: str) -> Monitor:
    """A bundled monitor by its name, or a file: .toml, or anything else in assembly."""
    path = Path(name)
    for suffix in (".toml", ".asm"):
        if not path.exists() and (BUNDLED / f"{name}{suffix}").exists():
            path = BUNDLED / f"{name}{suffix}"
    try:
        if path.stat().st_size > LONGEST:
            raise StallscopeError(f"{name} is too long for a monitor")
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        known = nearest(name, bundled())
        raise StallscopeError(
            f"there is no monitor {name}",
            f"bundled are: {', '.join(bundled())}",
            known or "stallscope monitor list, or the name of a file",
        ) from error
    if path.suffix != ".toml":
        first = text.splitlines()[0].lstrip("; ") if text.startswith(";") else ""
        image = assemble(text)
        return Monitor(path.stem, first, text, image, {}, looks_at_data=looks_at_data(image))
    source = parse(text, name)
    assembly = compile_monitor(source)
    image = assemble(assembly)
    return Monitor(
        source.name or path.stem,
        source.about,
        assembly,
        image,
        dict(source.core),
        tuple(source.watch),
        ACCESSES[source.access],
        looks_at_data(image),
    )
