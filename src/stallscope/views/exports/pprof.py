# SPDX-License-Identifier: Apache-2.0
"""The profile.proto of pprof, written by hand: varints and length-prefixed parts."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stallscope.analyses.export import Export

# Numbers of fields of the messages Profile, Sample, Label, Location, Line and Function.
SAMPLE_TYPE, SAMPLE, LOCATION, FUNCTION, STRINGS, DEFAULT_TYPE = 1, 2, 4, 5, 6, 14
COMMENT = 13


def varint(number: int) -> bytes:
    made = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def whole(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def part(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


class Strings:
    """The table of strings, whose first is empty."""

    def __init__(self) -> None:
        self.numbers = {"": 0}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def render(export: Export) -> bytes:
    strings = Strings()
    functions: dict[tuple[str, str], int] = {}
    locations: dict[tuple[int, int], int] = {}
    made = bytearray()
    for name, unit in ((export.misses_unit, "count"), ("latency", export.latency_unit)):
        made += part(SAMPLE_TYPE, whole(1, strings(name)) + whole(2, strings(unit)))
    for spot in export.spots:
        function = functions.setdefault((spot.function, spot.file), len(functions) + 1)
        location = locations.setdefault((function, spot.line or 0), len(locations) + 1)
        labels = b"".join(
            part(3, whole(1, strings(key)) + whole(2, strings(value)))
            for key, value in (("object", spot.object), ("kind", spot.kind))
            if value
        )
        values = varint(spot.misses) + varint(spot.latency)
        made += part(SAMPLE, part(1, varint(location)) + part(2, values) + labels)
    for (function, line), number in locations.items():
        made += part(LOCATION, whole(1, number) + part(4, whole(1, function) + whole(2, line)))
    for (name, file), number in functions.items():
        text = whole(2, strings(name)) + whole(3, strings(name)) + whole(4, strings(file))
        made += part(FUNCTION, whole(1, number) + text)
    made += whole(COMMENT, strings(f"stallscope, machine {export.machine}"))
    made += whole(DEFAULT_TYPE, strings("latency"))
    for known in strings.numbers:
        made += part(STRINGS, known.encode(errors="replace"))
    return gzip.compress(bytes(made), mtime=0)
