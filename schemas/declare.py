# SPDX-License-Identifier: Apache-2.0
"""The vocabulary in which records and tables are declared: types, fields, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

# name -> (C type, C++ column element, Arrow type)
SCALARS = {
    "u8": ("unsigned char", "std::uint8_t", "uint8"),
    "u16": ("unsigned short", "std::uint16_t", "uint16"),
    "u32": ("unsigned int", "std::uint32_t", "uint32"),
    "u64": ("unsigned long long", "std::uint64_t", "uint64"),
    "i32": ("int", "std::int32_t", "int32"),
    "i64": ("long long", "std::int64_t", "int64"),
    "f64": ("double", "double", "float64"),
}
VARIABLE = {"string": "string", "bytes": "binary"}


@dataclass(frozen=True)
class Field:
    """One 64-bit word of a record."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Record:
    """One kind of record in the stream. `tail` says what the bytes behind the words hold."""

    name: str
    tag: int
    meaning: str
    fields: tuple[Field, ...]
    tail: str | None = None


@dataclass(frozen=True)
class Column:
    """One column of a table. `none` is the value that stands for "no value" (null in Arrow)."""

    name: str
    type: str
    meaning: str
    unit: str = ""
    none: int | None = None


@dataclass(frozen=True)
class Table:
    name: str
    meaning: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Choice:
    """A closed list of names with their numbers: an enum in C, a string column in tables."""

    name: str
    meaning: str
    members: tuple[tuple[str, int, str], ...]
