# SPDX-License-Identifier: Apache-2.0
"""From the tables of a machine file to a Machine; everything wrong is a Fault with its path."""

from __future__ import annotations

from typing import Any

import msgspec

from stallscope.machines.fault import Fault, nearest, shown
from stallscope.machines.geometry import check
from stallscope.machines.keys import REQUIRED, SECTIONS, Section, Wrong, section
from stallscope.machines.lines import Path
from stallscope.machines.model import (
    Cache,
    Chips,
    Core,
    Machine,
    Mapping,
    PathUnit,
    Prefetcher,
    Tlb,
)

Values = dict[str, Any]


def build(document: dict[str, Any], name: str) -> Machine:
    _known(document)
    top = {key: value for key, value in document.items() if key in _top_keys()}
    values = read_section(section(""), top, ())
    machine = Machine(
        name=name,
        caches=tuple(msgspec.convert(v, Cache) for v in _repeated(document, "cache")),
        tlbs=tuple(_tlb(v) for v in _repeated(document, "tlb")),
        prefetcher=Prefetcher(),
        mapping=msgspec.convert(_single(document, "mapping"), Mapping),
        core=msgspec.convert(_single(document, "core"), Core),
        path=msgspec.convert(_single(document, "path"), PathUnit),
        chips=msgspec.convert(_single(document, "chips"), Chips),
        **values,
    )
    if not machine.caches:
        raise Fault(
            (),
            "there is no cache for data",
            "every machine needs a [[cache]] that holds data or both",
            "stallscope machines default --toml shows a whole machine file",
        )
    machine = with_prefetcher(machine, _single(document, "prefetch"))
    check(machine)
    return machine


def with_prefetcher(machine: Machine, values: Values) -> Machine:
    """`cache` left out means the innermost for data; a machine without prefetcher has no other."""
    given = values.get("cache")
    wanted = next((c.name for c in machine.caches if c.name.lower() == str(given).lower()), given)
    if given is None:
        wanted = next((c.name for c in machine.caches if c.holds != "instructions"), "")
    if values["kind"] == "none":
        return msgspec.structs.replace(machine, prefetcher=Prefetcher())
    prefetcher = msgspec.convert({**values, "cache": str(wanted)}, Prefetcher)
    return msgspec.structs.replace(machine, prefetcher=prefetcher)


def _tlb(values: Values) -> Tlb:
    return msgspec.convert({**values, "ways": values["ways"] or values["entries"]}, Tlb)


def _top_keys() -> list[str]:
    return [key.name for key in section("").keys]


def _known(document: dict[str, Any]) -> None:
    names = [part.name for part in SECTIONS if part.name]
    for key in document:
        if key not in names and key not in _top_keys():
            titles = ", ".join(part.title for part in SECTIONS if part.name)
            raise Fault(
                (key,),
                f"a machine has no key {shown(key)}",
                f"it has {', '.join(_top_keys())}, {titles}",
                nearest(key, [*_top_keys(), *names]),
            )


def _repeated(document: dict[str, Any], name: str) -> list[Values]:
    part, tables = section(name), document.get(name, [])
    if not isinstance(tables, list):
        raise Fault((name,), f"{name} is not a list", f"each is written {part.title}", part.title)
    for index, table in enumerate(tables):
        if not isinstance(table, dict):
            raise Fault((name, index), f"{name} number {index + 1} is not a table", now=part.title)
    return [read_section(part, table, (name, index)) for index, table in enumerate(tables)]


def _single(document: dict[str, Any], name: str) -> Values:
    part, table = section(name), document.get(name, {})
    if not isinstance(table, dict):
        raise Fault((name,), f"{name} is not a table", f"there is one {part.title}", part.title)
    return read_section(part, table, (name,))


def read_section(part: Section, table: dict[str, Any], path: Path) -> Values:
    known = [key.name for key in part.keys]
    label = _label(part, table, path)
    for name in table:
        if name not in known:
            raise Fault(
                (*path, name),
                f"{label or part.title} has no key {shown(name)}",
                f"{part.title} has {', '.join(known)}",
                nearest(name, known),
            )
    values = {}
    for key in part.keys:
        if key.name not in table:
            if key.default is REQUIRED:
                why = f"{part.title} needs {key.name}: {key.meaning}"
                raise Fault(path, f"{label} has no {key.name}", why)
            values[key.name] = key.default
            continue
        try:
            values[key.name] = key.read(table[key.name])
        except Wrong as wrong:
            dotted = ".".join(filter(None, (label, key.name)))
            given = f"{dotted} = {shown(table[key.name])}"
            raise Fault((*path, key.name), f"{given} is wrong", str(wrong)) from None
    return values


def _label(part: Section, table: dict[str, Any], path: Path) -> str:
    name = table.get("name")
    if part.repeated and not isinstance(name, str):
        return f"{part.title} number {int(path[-1]) + 1}"
    return name[:30] if part.repeated and isinstance(name, str) else part.name
