# SPDX-License-Identifier: Apache-2.0
"""A machine with some keys changed, as sweeps do: "l2.size" = "512K"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stallscope.errors import StallscopeError
from stallscope.machines.building import with_prefetcher
from stallscope.machines.fault import Fault, nearest, shown
from stallscope.machines.geometry import check
from stallscope.machines.keys import SECTIONS, Section, Wrong, section
from stallscope.machines.model import Cache, Machine, Tlb

_FIXED = ("name", "description")


def changed(machine: Machine, values: Mapping[str, Any]) -> Machine:
    parts = _parts(machine)
    for dotted, value in values.items():
        part, key = _find(dotted, parts)
        try:
            parts[part][1][key] = parts[part][0].key(key).read(value, from_text=True)
        except Wrong as wrong:
            raise StallscopeError(f"{dotted} = {shown(value)} is wrong", str(wrong)) from None
    made = _assemble(machine, parts)
    changes = ", ".join(f"{key}={value}" for key, value in values.items())
    try:
        check(made)
    except Fault as fault:
        raise fault.error(f"{machine.name} with {changes}") from None
    name = f"{machine.name} with {changes}" if changes else machine.name
    return msgspec.structs.replace(made, name=name)


def check_key(machine: Machine, dotted: str) -> None:
    """Raises StallscopeError where the machine has no such key."""
    _find(dotted, _parts(machine))


def _parts(machine: Machine) -> dict[str, tuple[Section, dict[str, Any]]]:
    """Everything that has keys, by the name that stands before the dot."""
    parts = {"": (section(""), msgspec.structs.asdict(machine))}
    for part in SECTIONS:
        if part.repeated:
            for element in getattr(machine, part.field):
                parts[element.name.lower()] = (part, msgspec.structs.asdict(element))
        elif part.name:
            parts[part.name] = (part, msgspec.structs.asdict(getattr(machine, part.field)))
    return parts


def _find(dotted: str, parts: dict[str, tuple[Section, dict[str, Any]]]) -> tuple[str, str]:
    name, _, key = dotted.lower().rpartition(".")
    known = [
        f"{part}.{key.name}".lstrip(".")
        for part, (declared, _) in parts.items()
        for key in declared.keys
        if key.name not in _FIXED
    ]
    if dotted.lower() not in known:
        raise StallscopeError(
            f"the machine has no {shown(dotted)}",
            f"a key of {', '.join(part for part in parts if part)} was expected, such as "
            f"{next(k for k in [*known[3:], *known])}",
            nearest(dotted, known),
        )
    return name, key


def _assemble(machine: Machine, parts: dict[str, tuple[Section, dict[str, Any]]]) -> Machine:
    of = {name: values for name, (_, values) in parts.items()}
    caches = tuple(msgspec.convert(of[c.name.lower()], Cache) for c in machine.caches)
    tlbs = tuple(_tlb(tlb, of[tlb.name.lower()]) for tlb in machine.tlbs)
    made = msgspec.structs.replace(
        machine,
        caches=caches,
        tlbs=tlbs,
        mapping=msgspec.convert(of["mapping"], type(machine.mapping)),
        core=msgspec.convert(of["core"], type(machine.core)),
        path=msgspec.convert(of["path"], type(machine.path)),
        chips=msgspec.convert(of["chips"], type(machine.chips)),
        **{key.name: of[""][key.name] for key in section("").keys},
    )
    prefetch = of["prefetch"]
    return with_prefetcher(made, {**prefetch, "cache": prefetch["cache"] or None})


def _tlb(old: Tlb, values: dict[str, Any]) -> Tlb:
    """A fully associative TLB stays so when only its size changes."""
    full = old.ways == old.entries and values["ways"] == old.ways
    return msgspec.convert({**values, "ways": values["entries"] if full else values["ways"]}, Tlb)
