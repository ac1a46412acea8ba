# SPDX-License-Identifier: Apache-2.0
"""Simulated hardware, described by files.

machines.names()                            # default, host, cachegrind, …
machines.load("default")                    # or the path of a machine file
machines.load("default").with_values({"l2.size": "512K"})
"""

from __future__ import annotations

from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.machines.model import (
    Cache,
    Chips,
    Machine,
    Mapping,
    Prefetcher,
    Tlb,
    from_engine,
)

__all__ = [
    "NONE",
    "Cache",
    "Chips",
    "Machine",
    "Mapping",
    "Prefetcher",
    "Tlb",
    "available",
    "from_engine",
    "host",
    "load",
    "names",
    "parse",
]

_PRESETS = Path(__file__).parent / "presets"
NONE = Machine(name="none", description="no simulated machine: accesses are counted only")


def names() -> list[str]:
    """What `load` knows by name: first the usual ones, then the files, then none."""
    files = sorted(path.stem for path in _PRESETS.glob("*.toml"))
    files.remove("default")
    return ["default", "host", "cachegrind", *files, "none"]


def parse(text: str, path: str | Path, name: str | None = None) -> Machine:
    """The machine that a file's text describes; `path` is for messages, nothing is read from it."""
    from stallscope.machines.reading import parse as parse_text

    return parse_text(text, path, name)


def read(path: Path) -> Machine:
    """A machine from its file."""
    from stallscope.machines.reading import read as read_file

    return read_file(path)


def host() -> Machine:
    """The running machine, as far as it tells."""
    from stallscope.machines.this_machine import host as read_host

    return read_host()


def load(name_or_path: str | Path) -> Machine:
    """A machine by its name or from a file. A name wins: write ./default for a file called so."""
    given = str(name_or_path)
    if given == "none":
        return NONE
    if given == "host":
        return host()
    if given == "cachegrind":
        from stallscope.machines.cachegrind import cachegrind

        return cachegrind()
    if given in names():
        return read(_PRESETS / f"{given}.toml")
    path = Path(name_or_path)
    if "/" in given or path.suffix == ".toml" or path.is_file():
        return read(path)
    raise _unknown(given)


def available() -> list[Machine]:
    """Every machine with a name that can be simulated here."""
    from contextlib import suppress

    found = []
    for name in names():
        with suppress(StallscopeError):  # host, where its caches are unknown
            found.append(load(name))
    return found


def _unknown(given: str) -> StallscopeError:
    from stallscope.machines.fault import nearest

    return StallscopeError(
        f"there is no machine {given!r}",
        f"there is: {', '.join(names())}; or give a file: machine.toml",
        nearest(given, names()),
    )
